import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, describe, test } from "node:test";
import type { ReplicaSpec } from "../../src/compute/compute.ts";
import type { Engine } from "../../src/compute/docker/engine/engine.ts";
import { labels } from "../../src/compute/docker/replicas/container.ts";
import { soon } from "../compute/compute-world.ts";
import { anySpec } from "../compute/conformance.ts";
import { eventually } from "../support/eventually.ts";
import { buildAgentImage } from "./base-image.ts";
import { ask, DockerWorld } from "./docker-world.ts";
import { dockerSkipped, engineForTests } from "./dockerd.ts";

const listening = (how: string) => `
import { createServer } from "node:http";
createServer((_, response) => response.writeHead(503).end()).listen(Number(process.env.PORT), ${how});
`;

describe("docker: causes of failed replicas", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
  });
  after(() => end?.());

  const specOf = (uri: string, changes: Partial<ReplicaSpec> = {}): ReplicaSpec => ({
    ...anySpec({ kind: "image", digest: uri, uri, health_path: "/ok", rollout: "rolling" }),
    ...changes,
  });
  const imageSpec = async (name: string, program: string, changes: Partial<ReplicaSpec> = {}, lines: string[] = []) => {
    await buildAgentImage(engine, `pierhead-test/${name}:1`, program, lines);
    return specOf(`pierhead-test/${name}:1`, changes);
  };

  test("a server that exceeds its memory limit is OutOfMemory, with the limit", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await world.agent("healthy", { memoryLimitMib: 96 });
    await ask(await world.start(wanted), "/grow");
    const exit = await world.exits(wanted);
    assert.equal(exit.reason, "OutOfMemory");
    assert.equal(exit.exitCode, 137);
    assert.match(exit.message, /memory limit of 96 MiB/);
  });

  test("a server that exceeds its memory limit before it is ready is OutOfMemory, too", async () => {
    await using world = await DockerWorld.open(engine);
    const program =
      'console.log("loading"); const held = []; setInterval(() => held.push(Buffer.alloc(16 << 20, 1)), 5);';
    const wanted = await imageSpec("greedy", program, { memoryLimitMib: 96 });
    await world.compute.ensure(wanted, soon());
    const exit = await world.exits(wanted);
    assert.equal(exit.reason, "OutOfMemory");
    assert.match(exit.message, /96 MiB before it was ready/);
    assert.deepEqual(exit.lastLines, ["loading"]);
  });

  test("an image that no registry has is a readable StartError, leaves nothing in the engine, and disappears with remove", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = specOf("127.0.0.1:1/nobody/agent:1");
    await assert.rejects(
      world.compute.ensure(wanted, soon()),
      /127\.0\.0\.1:1/,
      "an unreachable registry may come back, so the start can be retried",
    );
    assert.equal(await world.stateOf(wanted), undefined);
    const built = specOf("pierhead-built/agent:gone");
    await world.compute.ensure(built, soon());
    const exit = await world.exits(built);
    assert.equal(exit.reason, "StartError");
    assert.match(exit.message, /Build the revision again/);
    await world.reopen();
    assert.deepEqual(await world.exits(built), exit, "the next driver reports the same exit");
    await world.remove(built);
    assert.equal(await world.stateOf(built), undefined);
  });

  test("a revision built to run as a process is a readable StartError", async () => {
    await using world = await DockerWorld.open(engine);
    const start = { runner: "command" as const, argv: ["node"], cwd: "." };
    const artifact = { kind: "directory" as const, digest: "sha256:0", path: "/", start };
    const wanted = anySpec({ ...artifact, health_path: "/ok", rollout: "rolling" });
    await assert.rejects(world.compute.prepare(wanted, soon()), /Build the revision again/);
    await world.compute.ensure(wanted, soon());
    assert.equal((await world.exits(wanted)).reason, "StartError");
  });

  test("an image with a missing command, or without a command, is a StartError with its name", async () => {
    await using world = await DockerWorld.open(engine);
    const misspelt = await imageSpec("misspelt", "", {}, ['CMD ["/no/such/program"]']);
    await world.compute.ensure(misspelt, soon());
    const exit = await world.exits(misspelt);
    assert.equal(exit.reason, "StartError");
    assert.match(exit.message, /no\/such\/program/);
    const mute = await imageSpec("mute", "", {}, ["CMD []"]);
    await world.compute.ensure(mute, soon());
    assert.match((await world.exits(mute)).message, /no command specified/i);
  });

  test("a server that answers but is never healthy is NotHealthy with its last answer", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await imageSpec("sick", listening("process.env.HOST"), { startTimeoutMs: 10_000 });
    await world.compute.ensure(wanted, soon());
    const exit = await world.exits(wanted);
    assert.equal(exit.reason, "NotHealthy");
    assert.match(exit.message, /did not answer 200 on \/ok within 10 s.*503/s);
  });

  test("a server that listens on the loopback of its container gets a hint to listen on 0.0.0.0", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await imageSpec("shy", listening('"127.0.0.1"'), { startTimeoutMs: 10_000 });
    await world.compute.ensure(wanted, soon());
    const exit = await world.exits(wanted);
    assert.equal(exit.reason, "NotHealthy");
    assert.match(exit.message, /must listen on 0\.0\.0\.0/);
  });

  test("exits are reported without polling, for starting and for ready replicas", async () => {
    await using world = await DockerWorld.open(engine);
    const notified = Promise.withResolvers<void>();
    const healthy = await world.agent("healthy");
    const state = await world.start(healthy);
    world.compute.onChange(notified.resolve);
    await world.compute.ensure(await world.agent("broken"), soon());
    await notified.promise;
    const notifiedAgain = Promise.withResolvers<void>();
    world.compute.onChange(notifiedAgain.resolve);
    await ask(state, "/exit?code=4");
    await notifiedAgain.promise;
    assert.equal((await world.exits(healthy)).exitCode, 4);
  });

  test("a container that a failed start left in an unreachable engine is removed later, and no other container is", async () => {
    await using world = await DockerWorld.open(engine);
    const wanted = await world.agent("healthy");
    await world.start(wanted);
    const { Config: config } = await world.inspect(wanted);
    const left = { ...wanted, replicaId: randomUUID() };
    const query = { name: `pierhead-${world.options.installationId.slice(0, 8)}-${left.replicaId}` };
    const body = { Image: config.Image, Labels: { ...config.Labels, [labels.replica]: left.replicaId } };
    const made = await engine.call<{ Id: string }>("POST", "/containers/create", { query, body });
    await engine.call("POST", `/containers/${made.Id}/start`);
    const states = await world.compute.observe(soon());
    assert.deepEqual(
      states.map(({ replicaId }) => replicaId),
      [wanted.replicaId],
    );
    const isLeft = () =>
      world.inspect(left).then(
        () => true,
        () => false,
      );
    await eventually(isLeft, (isThere) => !isThere);
    assert.equal(await ask(await world.reaches(wanted, "ready"), "/ok"), '{"ok":true}');
  });

  test("a container that another client kills has exited, one that it removes is gone", async () => {
    await using world = await DockerWorld.open(engine);
    const [killed, removed] = [await world.agent("healthy"), await world.agent("healthy")];
    await Promise.all([world.start(killed), world.start(removed)]);
    await engine.call("POST", `/containers/${(await world.inspect(killed)).Id}/kill`);
    const exit = await world.exits(killed);
    assert.deepEqual([exit.reason, exit.exitCode], ["Exited", 137]);
    await engine.call("DELETE", `/containers/${(await world.inspect(removed)).Id}`, { query: { force: true } });
    assert.equal(await world.stateOf(removed), undefined);
  });
});
