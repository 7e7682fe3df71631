import assert from "node:assert/strict";
import { readdir, readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { ReplicaSpec } from "../../../src/compute/compute.ts";
import { eventually } from "../../support/eventually.ts";
import { soon } from "../compute-world.ts";
import { type AgentArtifact, buildAgent, readOps, withConfig } from "./langgraph-agent.ts";
import { ask, get, messagesOf, newThread, post, stepsRun, streamAllSteps } from "./langgraph-threads.ts";
import { ProcessWorld } from "./process-world.ts";

// Most of the time is spent waiting for timers of the server and for other processes.
describe("process compute: the real LangGraph.js server", { concurrency: 3 }, () => {
  let world: ProcessWorld;
  let artifact: AgentArtifact | null = null;
  before(async () => {
    world = await ProcessWorld.open();
    artifact = await buildAgent(world.root);
    if (artifact === null) console.log("SKIPPED langgraph-js compute: the npm registry cannot be reached");
  });
  after(() => world?.[Symbol.asyncDispose]());

  /** Runs a test with a built agent. */
  const withAgent = (name: string, run: (artifact: AgentArtifact) => Promise<void>) =>
    test(name, async (context) => (artifact === null ? context.skip("no npm registry") : run(artifact)));
  const specOf = (agent: AgentArtifact, changes: Partial<ReplicaSpec> = {}) =>
    world.spec(agent, { memoryLimitMib: 512, startTimeoutMs: 120_000, drainTimeoutMs: 60_000, ...changes });
  const nextOf = (spec: ReplicaSpec) => ({ ...spec, replicaId: `${spec.revisionId}-2` });
  const stateDirOf = (spec: ReplicaSpec) => path.join(world.dataDir, "state", spec.deploymentId);

  withAgent("an agent with its own copy of LangGraph runs, and its state outlives its replicas", async (agent) => {
    assert.ok(agent.start.runner === "langgraph-js");
    const copyOf = (dir: string) => createRequire(path.join(dir, "package.json")).resolve("@langchain/langgraph");
    assert.notEqual(copyOf(agent.path), copyOf(agent.start.toolchain_dir));
    const filesBefore = await readdir(agent.path, { recursive: true });

    const spec = specOf(agent);
    const state = await world.start(spec);
    assert.match(state.serverVersion ?? "", /^\d+\.\d+\.\d+/);
    const thread = await newThread(state);
    assert.equal(await ask(state, thread, "My name is Ada."), "I will remember that your name is Ada.");
    await world.remove(spec, 60_000);

    const again = await world.start(nextOf(spec));
    assert.equal(await ask(again, thread, "What is my name?"), "Your name is Ada.");
    await world.remove(nextOf(spec), 60_000);
    assert.deepEqual(await readdir(agent.path, { recursive: true }), filesBefore, "the artifact stays unmodified");
  });

  withAgent("a stream in progress when the replica is removed is completed, and its run is saved", async (agent) => {
    const spec = specOf(agent);
    const state = await world.start(spec);
    const thread = await newThread(state);
    await streamAllSteps(state, thread, () => world.remove(spec, 60_000));

    const again = await world.start(nextOf(spec));
    assert.equal((await messagesOf(again, thread)).at(-1), "step9");
    assert.deepEqual(
      Object.values((await readOps(stateDirOf(spec)))?.runs ?? {}).map((run) => run.status),
      ["success"],
    );
    await world.remove(nextOf(spec), 60_000);
  });

  withAgent("a run that was executing when the replica was killed is executed by the next replica", async (agent) => {
    const goFile = path.join(world.root, "go");
    const spec = specOf(agent, { env: { GO_FILE: goFile } });
    const state = await world.start(spec);
    const thread = await newThread(state);
    const { run_id } = (await (await post(state, `/threads/${thread}/runs`, stepsRun)).json()) as { run_id: string };
    const written = () => readOps(stateDirOf(spec));
    await eventually(written, (ops) => ops?.runs?.[run_id]?.status === "running");
    const exit = await world.kill(spec);
    assert.equal(exit.signal, "SIGKILL");

    await writeFile(goFile, "");
    const again = await world.start(nextOf(spec));
    await eventually(
      async () => ((await (await get(again, `/threads/${thread}/runs/${run_id}`)).json()) as { status: string }).status,
      (status) => status === "success",
    );
    assert.equal((await messagesOf(again, thread)).at(-1), "step9");
    const { lines } = await world.compute.readLogs(nextOf(spec).replicaId, null, 64 * 1024);
    assert.ok(lines.some((line) => line.message === "warning: pierhead: 1 interrupted runs start again"));
    await world.remove(nextOf(spec), 60_000);
  });

  withAgent("state reaches the disk within seconds under requests that never pause", async (agent) => {
    const spec = specOf(agent);
    const state = await world.start(spec);
    const thread = await newThread(state);
    await ask(state, thread, "My name is Grace.");
    const file = path.join(stateDirOf(spec), ".langgraph_api/.langgraphjs_api.checkpointer.json");
    await eventually(
      async () => {
        await messagesOf(state, thread);
        const [run] = Object.values((await readOps(stateDirOf(spec)))?.runs ?? {});
        return run?.status === "success" && (await readFile(file, "utf8").catch(() => "")).includes(thread);
      },
      (isWritten) => isWritten,
    );
    await world.kill(spec);
    const again = await world.start(nextOf(spec));
    assert.equal(await ask(again, thread, "What is my name?"), "Your name is Grace.");
    await world.remove(nextOf(spec), 60_000);
  });

  withAgent("a second replica on the state of a running one is refused and does no harm", async (agent) => {
    const spec = specOf(agent);
    const state = await world.start(spec);
    const thread = await newThread(state);
    await ask(state, thread, "My name is Ada.");
    await world.compute.ensure(nextOf(spec), soon());
    const exit = await world.exits(nextOf(spec));
    assert.equal(exit.exitCode, 1);
    assert.match(exit.lastLines.at(-1) ?? "", /process \d+ is using the state .* two servers on it would destroy it/);
    await world.remove(nextOf(spec));
    assert.equal(await ask(state, thread, "What is my name?"), "Your name is Ada.");
    await world.remove(spec, 60_000);
  });

  withAgent(
    "a graph that cannot be loaded exits with its cause in its last lines, whatever the exit code",
    async (agent) => {
      const causes = {
        "throwing.json": /\nError: no model key in MODEL_KEY\n {4}at <anonymous> \(\S*throwing\.ts:1:7\)/,
        "missing.json":
          /could not start: Error: Failed to load graph '\w+' from \S+: The file exports nothing with the name \w+\.$/,
        "ending.json": /ended before it listened/,
        "waiting.json": /ended before it listened/,
      } as const;
      const said: string[] = [];
      for (const config of Object.keys(causes) as (keyof typeof causes)[]) {
        said.push((await world.failsToStart(specOf(withConfig(agent, config)), causes[config])).message);
      }
      assert.match(
        said[0] ?? "",
        / The graph '\w+' in \S*throwing\.ts cannot be loaded\. Error: no model key in MODEL_KEY \(\S*throwing\.ts, line 1\)$/,
      );
      assert.match(
        said[1] ?? "",
        / The graph '\w+' in \S+ cannot be loaded\. Error: The file exports nothing with the name \w+\.$/,
      );
    },
  );

  withAgent("an agent that requires credentials becomes ready, and drains", async (agent) => {
    const spec = specOf(withConfig(agent, "guarded.json"));
    const state = await world.start(spec);
    assert.equal((await get(state, "/ok")).status, 401);
    const credentials = { authorization: "Bearer of-the-test" };
    assert.equal((await get(state, "/ok", credentials)).status, 200);
    await world.remove(spec, 60_000);
  });
});
