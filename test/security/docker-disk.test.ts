import assert from "node:assert/strict";
import { mkdir, mkdtemp, readFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { ReplicaState } from "../../src/compute/compute.ts";
import type { DockerComputeOptions } from "../../src/compute/docker/docker-compute.ts";
import { Engine } from "../../src/compute/docker/engine/engine.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { anySpec } from "../compute/conformance.ts";
import { buildAgentImage, importNodeImage } from "../docker/base-image.ts";
import { DockerWorld } from "../docker/docker-world.ts";
import { dockerSkipped, engineForTests, startQuietDockerd } from "../docker/dockerd.ts";
import { prober } from "../docker/prober.ts";

const image = "pierhead-test/prober-disk:1";

describe("attacks from an agent on the disk of a container engine", { skip: dockerSkipped }, () => {
  let engine: Engine;
  let end: () => Promise<void>;
  before(async () => {
    ({ engine, end } = await engineForTests());
    await buildAgentImage(engine, image, prober);
  });
  after(() => end?.());

  const spec = () => anySpec({ kind: "image", digest: image, uri: image, health_path: "/ok", rollout: "rolling" });
  const limits = { diskLimitMib: 64, diskIntervalMs: 200 };
  const write = async ({ address }: ReplicaState, file: string, mib: number) => {
    const code = `const fs = require("node:fs"); const file = fs.openSync(${JSON.stringify(file)}, "w");
      for (let left = ${mib}; left > 0; left--) fs.writeSync(file, Buffer.alloc(1 << 20, 1)); return true`;
    const answer = await fetch(`http://127.0.0.1:${address?.port}/run?of=${encodeURIComponent(code)}`).catch(
      () => null,
    );
    return answer === null ? "gone" : `${answer.status} ${await answer.text()}`;
  };

  test("an agent does not fill the disk of the machine with files in its container", async () => {
    await using world = await DockerWorld.open(engine, limits);
    const [greedy, modest] = [spec(), spec()];
    const [greedyState, modestState] = await Promise.all([world.start(greedy), world.start(modest)]);
    assert.equal(await write(modestState, "/file", 32), "200 true");
    const wrote = await write(greedyState, "/file", 100);
    // An engine with quotas of its own refuses the write, and the agent continues.
    if (/^500 (ENOSPC|EDQUOT)$/.test(wrote)) return;
    const exit = await world.exits(greedy);
    assert.equal(exit.reason, "OutOfDisk");
    assert.match(exit.message, /wrote \d+ MiB of files into its container, more than its disk limit of 64 MiB/);
    assert.equal((await world.stateOf(modest))?.phase, "ready", "an agent below the limit is not affected");
  });

  test("an agent does not fill the disk of the machine with its state", async () => {
    await using world = await DockerWorld.open(engine, limits);
    const wanted = spec();
    wanted.artifact = { ...wanted.artifact, rollout: "handover" };
    await write(await world.start(wanted), "/var/lib/agent/file", 100);
    const exit = await world.exits(wanted);
    assert.equal(exit.reason, "OutOfDisk");
    assert.match(exit.message, /keeps \d+ MiB in \/var\/lib\/agent, more than its disk limit of 64 MiB/);
  });

  test("an agent does not fill the disk of the machine with the volumes that its image declares", async () => {
    const name = "pierhead-test/prober-volumes:1";
    await buildAgentImage(engine, name, prober, ["VOLUME /one /two"]);
    await using world = await DockerWorld.open(engine, limits);
    const wanted = { ...spec(), artifact: { ...spec().artifact, digest: name, uri: name } };
    const state = await world.start(wanted);
    // Each is below the limit, both are not.
    await write(state, "/one/file", 50);
    await write(state, "/two/file", 50);
    const exit = await world.exits(wanted);
    assert.equal(exit.reason, "OutOfDisk");
    assert.match(exit.message, /keeps \d+ MiB in \/one and \/two, more than its disk limit of 64 MiB/);
  });

  /** Makes directories within each other, whose path is longer than programs can name, and a file in the last one. */
  const deepFile = (directory: string) => `const fs = require("node:fs"); process.chdir(${JSON.stringify(directory)});
    for (let left = 20; left > 0; left--) { fs.mkdirSync("d".repeat(250)); process.chdir("d".repeat(250)); }
    fs.writeFileSync("file", Buffer.alloc(1 << 20)); process.chdir("/"); return true`;
  const act = ({ address }: ReplicaState, code: string) =>
    fetch(`http://127.0.0.1:${address?.port}/run?of=${encodeURIComponent(code)}`).catch(() => null);

  test("an agent does not hide its files at paths that are too long to be measured", async () => {
    await using world = await DockerWorld.open(engine, limits);
    const [hiding, modest] = [spec(), spec()];
    const [state] = await Promise.all([world.start(hiding), world.start(modest)]);
    await act(state, deepFile("/tmp"));
    const exit = await world.exits(hiding);
    assert.equal(exit.reason, "OutOfDisk");
    assert.match(exit.message, /made files whose paths are too long for its disk limit/);
    const stateful = spec();
    stateful.artifact = { ...stateful.artifact, rollout: "handover" };
    await act(await world.start(stateful), deepFile("/var/lib/agent"));
    assert.match((await world.exits(stateful)).message, /made files whose paths are too long/);
    assert.equal((await world.stateOf(modest))?.phase, "ready", "an agent with short paths is not affected");
  });

  test("an agent does not fill the memory of the engine with the names of its files", async () => {
    const dockerd = await startQuietDockerd([]);
    const own = await new Engine(dockerd.host).open();
    try {
      await importNodeImage(own);
      await buildAgentImage(own, image, prober);
      await using world = await DockerWorld.open(own, { diskLimitMib: 10_240, diskIntervalMs: 200 });
      const naming = spec();
      const state = await world.start(naming);
      const peakMib = async () => {
        const text = await readFile(`/proc/${dockerd.pid}/status`, "utf8");
        return Number(/VmHWM:\s+(\d+)/.exec(text)?.[1]) / 1024;
      };
      const before = await peakMib();
      const answer = await act(
        state,
        `const fs = require("node:fs"); process.chdir("/tmp");
        for (let left = 13; left > 0; left--) { fs.mkdirSync("d".repeat(250)); process.chdir("d".repeat(250)); }
        fs.writeFileSync("file", ""); for (let left = 60000; left > 0; left--) fs.linkSync("file", "n".repeat(100) + left);
        process.chdir("/"); return true`,
      );
      assert.equal(await answer?.text(), "true");
      // A new driver measures at once. Nothing shows that it has done so, because nothing exceeds a limit.
      await world.reopen();
      await sleep(5_000);
      assert.equal((await world.stateOf(naming))?.phase, "ready");
      const grownMib = (await peakMib()) - before;
      assert.ok(grownMib < 200, `the engine took ${grownMib} MiB`);
    } finally {
      own.close();
      await dockerd.stop();
    }
  });

  test("a server that others can reach logs when agents can fill the disk of its data directory", async () => {
    const warnings = async (changes: Partial<DockerComputeOptions>) => {
      const lines: string[] = [];
      const logger = createLogger("warn", { write: (line) => void lines.push(line) });
      await using _world = await DockerWorld.open(engine, { ...limits, logger, ...changes });
      return lines.filter((line) => line.includes("agents can fill the disk of the data directory")).length;
    };
    const { DockerRootDir } = await engine.call<{ DockerRootDir: string }>("GET", "/info");
    const [beside, elsewhere] = await Promise.all([
      mkdtemp(path.join(DockerRootDir, "..", "pierhead-beside-")),
      mkdtemp("/dev/shm/pierhead-elsewhere-"),
    ]);
    assert.equal(await warnings({ isPublic: true, dataDir: beside }), 1);
    assert.equal(await warnings({ isPublic: true, dataDir: elsewhere }), 0);
    await mkdir(beside);
    assert.equal(await warnings({ isPublic: false, dataDir: beside }), 0, "one person's own machine");
  });

  test("an agent with a read-only root gets an error when /tmp is full, before it runs out of memory", async () => {
    await using world = await DockerWorld.open(engine, { isRootReadOnly: true });
    const wanted = { ...spec(), memoryLimitMib: 256 };
    const state = await world.start(wanted);
    assert.equal(await write(state, "/tmp/file", 200), "500 ENOSPC");
    assert.equal((await world.stateOf(wanted))?.phase, "ready");
  });
});
