import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import type { Writable } from "node:stream";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import type { ReplicaSpec } from "../../../src/compute/compute.ts";
import { dataDirIdOf, replicaFiles } from "../../../src/compute/process/replicas/replica-files.ts";
import {
  findProcesses,
  identify,
  isRunning,
  type ProcessIdentity,
} from "../../../src/compute/process/system/processes.ts";
import { eventually } from "../../support/eventually.ts";
import { soon } from "../compute-world.ts";
import { ask, isAlive, ProcessWorld } from "./process-world.ts";

const serverProcess = fileURLToPath(new URL("./server-process.ts", import.meta.url));

describe("process compute: the life of a replica", () => {
  let world: ProcessWorld;
  before(async () => {
    world = await ProcessWorld.open();
  });
  after(() => world?.[Symbol.asyncDispose]());

  const startServer = (spec: ReplicaSpec) =>
    spawn(process.execPath, [serverProcess, world.dataDir, JSON.stringify(spec)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
  const pidOf = async (spec: { replicaId: string }): Promise<ProcessIdentity> =>
    JSON.parse(await readFile(path.join(world.dataDir, "replicas", spec.replicaId, "replica.json"), "utf8")).process;

  test("usage covers all processes of a replica", {
    skip: process.platform !== "linux" && "no /proc",
  }, async () => {
    const [calm, busy] = [await world.agent("healthy"), await world.agent("healthy")];
    await world.start(calm);
    const state = await world.start(busy);
    const usageOf = async (spec: ReplicaSpec) =>
      (await world.compute.readUsage(soon())).find(({ replicaId }) => replicaId === spec.replicaId) ?? assert.fail();
    const before = await usageOf(busy);
    assert.ok(before.memoryMib > 20 && before.memoryMib < 1_000, String(before.memoryMib));
    await ask(state, "/flood?mib=64");
    const after = await eventually(
      () => usageOf(busy),
      ({ cpuSeconds }) => cpuSeconds > before.cpuSeconds,
    );
    assert.ok(after.cpuSeconds - before.cpuSeconds < 60);
    await world.remove(calm);
    assert.deepEqual(
      (await world.compute.readUsage(soon())).map(({ replicaId }) => replicaId),
      [busy.replicaId],
    );
    await world.remove(busy);
  });

  test("a replica that does not run has no usage, even if its pid was reused or never existed", {
    skip: process.platform !== "linux" && "no /proc",
  }, async (context) => {
    const ended = await world.agent("endsAtOnce");
    await world.compute.ensure(ended, soon());
    await world.exits(ended);
    const image = { kind: "image", digest: "sha256:0", uri: "example/agent", health_path: "/ok", rollout: "rolling" };
    const refused = world.spec(image as ReplicaSpec["artifact"]);
    await world.compute.ensure(refused, soon());
    const other = spawn("sleep", ["60"], { detached: true, stdio: "ignore" });
    await once(other, "spawn");
    context.after(() => other.kill("SIGKILL"));
    await world.reopen(async () => {
      const file = path.join(world.dataDir, "replicas", ended.replicaId, "replica.json");
      const record = JSON.parse(await readFile(file, "utf8"));
      await writeFile(file, JSON.stringify({ ...record, process: { ...record.process, pid: other.pid } }));
    });
    assert.deepEqual(await world.compute.readUsage(soon()), []);
    for (const spec of [ended, refused]) await world.remove(spec);
    assert.ok(isAlive(other.pid as number), "the foreign process must stay alive");
  });

  test("a replica has the given environment and nothing of the server's", async () => {
    process.env["PIERHEAD_TEST_SERVER_SECRET"] = "of the server";
    const spec = await world.agent("healthy", { env: { GREETING: "hello\nyou", "odd.name": "ä" } });
    const state = await world.start(spec);
    const { env, cwd } = JSON.parse((await ask(state, "/env")) ?? "");
    const stateDir = path.join(world.dataDir, "state", spec.deploymentId);
    assert.equal(env.PIERHEAD_REPLICA_ID, spec.replicaId);
    assert.equal(cwd, path.join(world.root, "healthy"));
    const { PIERHEAD_DATA_DIR_ID: _, ...others } = env;
    assert.deepEqual(others, {
      GREETING: "hello\nyou",
      "odd.name": "ä",
      PATH: `${path.dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`,
      HOME: stateDir,
      HOST: "127.0.0.1",
      LANG: "C.UTF-8",
      PORT: String(state.address?.port),
      TMPDIR: replicaFiles(world.dataDir, spec.replicaId).tmp,
      PIERHEAD_REPLICA_ID: spec.replicaId,
    });
    await world.remove(spec);
  });

  test("the version of the agent server comes from its /info", async () => {
    const spec = await world.agent("healthy");
    assert.equal((await world.start(spec)).serverVersion, "7.1.0");
    await world.remove(spec);
  });

  test("a secret value is in no file of the replica and in no argument of a process", async () => {
    const secret = "s3cr3t-value-of-this-test";
    const spec = await world.agent("healthy", { env: { API_TOKEN: secret } });
    await world.start(spec);
    const { pid } = await pidOf(spec);
    const files = await readdir(world.dataDir, { recursive: true, withFileTypes: true });
    for (const file of files.filter((entry) => entry.isFile())) {
      const text = await readFile(path.join(file.parentPath, file.name), "utf8");
      assert.ok(!text.includes(secret), file.name);
    }
    if (process.platform === "linux") assert.ok(!(await readFile(`/proc/${pid}/cmdline`, "utf8")).includes(secret));
    await world.remove(spec);
  });

  test("a replica outlives a server killed by SIGKILL, and the next server finds it with the same pid", async () => {
    const spec = await world.agent("healthy");
    await world.reopen(async () => {
      const server = startServer(spec);
      await once(server.stdout, "data");
      server.kill("SIGKILL");
      await once(server, "exit");
    });
    const state = await world.reaches(spec, "ready");
    const { pid } = await pidOf(spec);
    assert.equal(JSON.parse((await ask(state, "/env")) ?? "").pid, pid);
    await world.remove(spec);
    assert.equal(identify(pid), undefined);
  });

  test("a server killed at any moment of a start leaves either a replica that the next server knows, or nothing", async () => {
    const dataDirId = await dataDirIdOf(world.dataDir);
    const marked = async (spec: { replicaId: string }) => findProcesses({ dataDirId, replicaId: spec.replicaId });
    const moments: Record<string, (spec: ReplicaSpec) => Promise<boolean>> = {
      "it has a directory": async (spec) => existsSync(world.directoryOf(spec)),
      "its gate runs": async (spec) => (await marked(spec)).length > 0,
      "it is recorded": async (spec) => existsSync(path.join(world.directoryOf(spec), "replica.json")),
      "it is ready": async (spec) => existsSync(path.join(world.directoryOf(spec), "ready.json")),
    };
    for (const [moment, hasCome] of Object.entries(moments)) {
      const spec = await world.agent("healthy");
      await world.reopen(async () => {
        const server = startServer(spec);
        await eventually(
          () => hasCome(spec),
          (has) => has,
        );
        server.kill("SIGKILL");
        await once(server, "exit");
      });
      const state = await world.stateOf(spec);
      if (state === undefined) {
        assert.deepEqual(await marked(spec), [], `killed when ${moment}`);
        assert.ok(!existsSync(world.directoryOf(spec)), `killed when ${moment}`);
      } else {
        // Either the gate was opened and the replica becomes ready, or it was not and the replica has exited.
        await eventually(
          () => world.stateOf(spec),
          (seen) => seen?.phase === "ready" || seen?.phase === "exited",
        );
        await world.remove(spec);
      }
    }
  });

  test("a gate that receives only half of its start request exits silently", async () => {
    const gate = fileURLToPath(new URL("../../../src/compute/process/replicas/gate.mjs", import.meta.url));
    for (const text of ["", '{"argv":["node"],"env":{"TOKEN":"hu']) {
      const waiting = spawn(process.execPath, [gate], { stdio: ["ignore", "pipe", "pipe", "pipe"], detached: true });
      const said: Buffer[] = [];
      for (const output of [waiting.stdout, waiting.stderr]) output?.on("data", (chunk: Buffer) => said.push(chunk));
      (waiting.stdio[3] as Writable).end(text);
      const [code] = await once(waiting, "close");
      assert.equal(code, 0);
      assert.equal(Buffer.concat(said).toString(), "");
    }
  });

  test("an exit while no server was running is found by the next server, with its last lines", async () => {
    const spec = await world.agent("healthy");
    const state = await world.start(spec);
    await ask(state, "/write?text=the+last+words");
    await world.reopen(async () => {
      await ask(state, "/exit?code=9");
      const identity = await pidOf(spec);
      await eventually(
        async () => isRunning(identity),
        (runs) => !runs,
      );
    });
    const exit = await world.exits(spec);
    assert.equal(exit.reason, "Exited");
    assert.deepEqual(exit.lastLines, ["the last words"]);
    assert.match(exit.message, /exit code is unknown/);
    await world.remove(spec);
  });

  test("an exit of an adopted replica is detected within the second that the interface promises", async () => {
    const spec = await world.agent("healthy");
    const state = await world.start(spec);
    await world.reopen();
    const changed = new Promise<void>((resolve) => world.compute.onChange(resolve));
    await ask(state, "/exit?code=9");
    await changed;
    assert.equal((await world.exits(spec)).reason, "Exited");
    await world.remove(spec);
  });

  test("a process that reuses the pid of a dead replica is neither adopted nor killed", async () => {
    const stranger = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)"], { stdio: "ignore" });
    await once(stranger, "spawn");
    const spec = await world.agent("healthy");
    await world.start(spec);
    await world.reopen(async () => {
      const { pid } = await pidOf(spec);
      process.kill(pid, "SIGKILL");
      const file = path.join(world.directoryOf(spec), "replica.json");
      const record = JSON.parse(await readFile(file, "utf8"));
      await writeFile(file, JSON.stringify({ ...record, process: { ...record.process, pid: stranger.pid } }));
      await eventually(
        async () => identify(pid),
        (found) => found === undefined,
      );
    });
    assert.equal((await world.exits(spec)).reason, "Exited");
    await world.remove(spec);
    assert.equal(stranger.exitCode, null);
    assert.ok(isAlive(stranger.pid ?? 0));
    stranger.kill("SIGKILL");
    await once(stranger, "exit");
  });

  test("removing a replica kills children that moved to a session of their own", async () => {
    const spec = await world.agent("healthy");
    const child = Number(await ask(await world.start(spec), "/child"));
    assert.ok(isAlive(child));
    await world.remove(spec);
    assert.equal(identify(child), undefined);
  });

  test("children of a replica do not outlive its exit", async () => {
    const spec = await world.agent("healthy");
    const state = await world.start(spec);
    const child = Number(await ask(state, "/child"));
    await ask(state, "/exit?code=4");
    const exit = await world.exits(spec);
    assert.equal(exit.exitCode, 4);
    assert.equal(identify(child), undefined);
    await world.remove(spec);
  });

  test("a replica that ignores SIGTERM is killed after the grace period", async () => {
    const spec = await world.agent("healthy");
    const state = await world.start(spec);
    await ask(state, "/stubborn");
    const { pid } = await pidOf(spec);
    const removal = world.remove(spec, 3_000);
    await world.reaches(spec, "stopping");
    await removal;
    assert.equal(identify(pid), undefined);
  });

  test("a replica that waits after SIGTERM is asked again long before it is killed", async () => {
    const spec = await world.agent("healthy");
    await ask(await world.start(spec), "/reluctant");
    const begin = performance.now();
    await world.compute.remove(spec.replicaId, { graceMs: 600_000, lastCallAfterMs: 500, signal: soon() });
    assert.ok(performance.now() - begin >= 500, "the first signal did not end it");
  });

  test("a removal whose caller aborted continues, and a second call waits for it", async () => {
    const spec = await world.agent("healthy");
    await ask(await world.start(spec), "/stubborn");
    const hasty = { graceMs: 500, signal: AbortSignal.timeout(20) };
    await assert.rejects(world.compute.remove(spec.replicaId, hasty));
    await world.compute.remove(spec.replicaId, { graceMs: 500, signal: soon() });
    assert.equal(await world.stateOf(spec), undefined);
  });

  test("a replica that was asked to stop is adopted as stopping, and gets only one SIGTERM", async () => {
    const spec = await world.agent("healthy");
    const state = await world.start(spec);
    await ask(state, "/stubborn");
    const removal = assert.rejects(world.remove(spec, 60_000), /closed/);
    await eventually(
      async () => existsSync(path.join(world.directoryOf(spec), "stopping.json")),
      (isNoted) => isNoted,
    );
    await world.reopen();
    await removal;
    assert.equal((await world.stateOf(spec))?.phase, "stopping");
    await world.remove(spec, 500);
    assert.equal(await world.stateOf(spec), undefined);
  });

  test("a replica that stopped on request while no server was running has not crashed", async () => {
    const spec = await world.agent("healthy");
    await ask(await world.start(spec), "/stubborn");
    const { pid } = await pidOf(spec);
    const removal = assert.rejects(world.remove(spec, 60_000), /closed/);
    await eventually(
      async () => existsSync(path.join(world.directoryOf(spec), "stopping.json")),
      (isNoted) => isNoted,
    );
    await world.reopen(async () => {
      process.kill(pid, "SIGKILL");
      await eventually(
        async () => identify(pid),
        (found) => found === undefined,
      );
    });
    await removal;
    const state = await world.stateOf(spec);
    assert.deepEqual([state?.phase, state?.exit], ["stopping", undefined]);
    await world.remove(spec, 60_000);
    assert.equal(await world.stateOf(spec), undefined);
  });

  test("a process of ours without a record is killed at start", {
    skip: process.platform !== "linux" && "needs /proc",
  }, async () => {
    const spec = await world.agent("healthy");
    await world.start(spec);
    const identity = await pidOf(spec);
    await world.reopen(() => writeFile(path.join(world.directoryOf(spec), "replica.json"), "{"));
    assert.equal(isRunning(identity), false);
    assert.equal(await world.stateOf(spec), undefined);
  });

  test("an id that could escape the data directory is rejected", async () => {
    const spec = await world.agent("healthy", { replicaId: "../outside" });
    await assert.rejects(world.compute.ensure(spec, soon()), /cannot be the name of a directory/);
    await assert.rejects(world.compute.removeState("../replicas"), /cannot be the name of a directory/);
  });

  test("the state of a deployment outlives its replicas until it is removed", async () => {
    const spec = await world.agent("healthy");
    await world.start(spec);
    await world.remove(spec);
    const stateDir = path.join(world.dataDir, "state", spec.deploymentId);
    assert.ok(existsSync(stateDir));
    await world.compute.removeState(spec.deploymentId);
    assert.ok(!existsSync(stateDir));
  });
});
