import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { collectGarbage } from "../../src/compute/docker/images/collect-garbage.ts";
import { usedRepository } from "../../src/compute/docker/images/images.ts";
import { agents } from "../compute/agents.ts";
import { anySpec } from "../compute/conformance.ts";
import { buildAgentImage } from "./base-image.ts";
import { DockerWorld } from "./docker-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

describe("docker: garbage", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
  });
  after(() => end?.());

  const isThere = async (name: string) => (await engine.callUnless([404], "GET", `/images/${name}/json`)) !== undefined;
  /** Tags an image as if the driver had pulled it. */
  const pulled = async (world: DockerWorld, name: string) => {
    const uri = `pierhead-test/${name}-${randomUUID().slice(0, 8)}:1`;
    await buildAgentImage(engine, uri, `// ${uri}\n${agents.healthy}`);
    const { Id } = await engine.call<{ Id: string }>("GET", `/images/${uri}/json`);
    const repo = usedRepository(world.options.installationId);
    await engine.call("POST", `/images/${uri}/tag`, { query: { repo, tag: Id.slice(7, 39) } });
    return { uri, id: Id };
  };
  const collect = (world: DockerWorld, bytesMax: number, recentMs = 0) =>
    collectGarbage(engine, {
      installationId: world.options.installationId,
      bytesMax,
      recentMs,
      signal: AbortSignal.timeout(60_000),
    });

  test("above the size limit unused pulled images are removed, least recently used first; below it none is", async () => {
    await using world = await DockerWorld.open(engine);
    const [older, newer, used] = [
      await pulled(world, "older"),
      await pulled(world, "newer"),
      await pulled(world, "used"),
    ];
    const spec = anySpec({ kind: "image", digest: used.id, uri: used.uri, health_path: "/ok", rollout: "rolling" });
    await world.start(spec);
    const { removed, bytes } = await collect(world, Number.POSITIVE_INFINITY);
    assert.deepEqual(removed, []);
    assert.ok(bytes > 0);
    assert.deepEqual((await collect(world, 0, 600_000)).removed, [], "a recently used image stays");
    assert.deepEqual((await collect(world, bytes - 1)).removed, [older.id]);
    assert.deepEqual((await collect(world, 0)).removed, [newer.id]);
    assert.equal(await isThere(used.uri), true, "it is used");
    await world.remove(spec);
    assert.deepEqual((await collect(world, 0)).removed, [used.id]);
  });

  test("images of other owners are not counted and not touched", async () => {
    await using world = await DockerWorld.open(engine);
    await using other = await DockerWorld.open(engine);
    const { uri, id } = await pulled(other, "other");
    assert.deepEqual(await collect(world, 0), { removed: [], bytes: 0 });
    assert.equal(await isThere(uri), true);
    assert.deepEqual((await collect(other, 0)).removed, [id]);
  });
});
