import assert from "node:assert/strict";
import { readdir, readFile, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { after, before, describe, test } from "node:test";
import type { ReplicaSpec, ReplicaState } from "../../../src/compute/compute.ts";
import { eventually } from "../../support/eventually.ts";
import { soon } from "../compute-world.ts";
import { type AgentArtifact, buildPythonAgent, withConfig } from "./langgraph-python-agent.ts";
import { ask, get, messagesOf, newThread, post, stepsRun, streamAllSteps, urlOf } from "./langgraph-threads.ts";
import { ProcessWorld } from "./process-world.ts";

// Most of the time is spent waiting for timers of the server and for other processes.
describe("process compute: the real LangGraph server for Python", { concurrency: 3 }, () => {
  let world: ProcessWorld;
  let artifact: AgentArtifact | null = null;
  before(async () => {
    world = await ProcessWorld.open();
    artifact = await buildPythonAgent(world.root);
    if (artifact === null) console.log("SKIPPED langgraph-python compute: Python 3.11 or its package index is missing");
  });
  after(() => world?.[Symbol.asyncDispose]());

  const withAgent = (name: string, run: (artifact: AgentArtifact) => Promise<void>) =>
    test(name, async (context) => (artifact === null ? context.skip("no Python") : run(artifact)));
  const specOf = (agent: AgentArtifact, changes: Partial<ReplicaSpec> = {}) =>
    world.spec(agent, { memoryLimitMib: 512, startTimeoutMs: 120_000, drainTimeoutMs: 60_000, ...changes });
  const nextOf = (spec: ReplicaSpec, at = 2) => ({ ...spec, replicaId: `${spec.revisionId}-${at}` });
  const stateFile = (spec: ReplicaSpec, name: string) =>
    path.join(world.dataDir, "state", spec.deploymentId, ".langgraph_api", name);
  /** Waits until the current state is on disk. The file may just be written without it, so the next write is awaited. */
  const written = async (spec: ReplicaSpec) => {
    const file = stateFile(spec, ".langgraph_ops.pckl");
    const afterMs = async (ms: number) => {
      const found = await eventually(
        () => stat(file).catch(() => null),
        (found) => found !== null && found.mtimeMs > ms,
      );
      return found?.mtimeMs ?? 0;
    };
    await afterMs(await afterMs(Date.now()));
  };
  const linesOf = async (spec: ReplicaSpec) =>
    (await world.compute.readLogs(spec.replicaId, null, 256 * 1024)).lines.map((line) => line.message);

  withAgent("the server reports the tokens of all calls of models beside its runs", async (agent) => {
    const spec = specOf(agent);
    const state = await world.start(spec);
    const tokens = async () => (await world.compute.readRunCounts(spec.replicaId))?.tokens;
    assert.equal(await tokens(), undefined, "no model has reported any yet");
    assert.equal(await ask(state, await newThread(state), "three", "billed"), "one two three");
    assert.deepEqual(await tokens(), { input: 20, output: 6 });
    await world.remove(spec, 60_000);
  });

  withAgent("the tokens of streamed answers are counted in the thread that streams them", async (agent) => {
    const spec = specOf(agent);
    const state = await world.start(spec);
    assert.equal(await ask(state, await newThread(state), "ten", "streamed"), "0 calls in threads");
    assert.deepEqual((await world.compute.readRunCounts(spec.replicaId))?.tokens, { input: 100, output: 30 });
    await world.remove(spec, 60_000);
  });

  withAgent("an agent runs, sends no requests to the internet, and its state outlives its replicas", async (agent) => {
    const filesBefore = await readdir(agent.path, { recursive: true });
    const connections = path.join(world.root, "connections");
    const watched = { PYTHONPATH: path.resolve("test/clients/python"), PIERHEAD_CONNECTIONS_FILE: connections };
    const spec = specOf(agent, { env: { ...watched, FROM_BOTH: "secret", DATABASE_URI: "postgres://of-the-agent" } });
    const state = await world.start(spec);
    assert.match(state.serverVersion ?? "", /^\d+\.\d+\.\d+/);
    const thread = await newThread(state);
    assert.match((await ask(state, thread, "Hello")) ?? "", /^Hello! I am a LangGraph agent in Python/);
    await world.remove(spec, 60_000);

    const again = await world.start(nextOf(spec));
    assert.match((await ask(again, thread, "two words")) ?? "", /your message number 2 in this thread/);
    assert.equal(
      await ask(again, await newThread(again), "read", "files"),
      "good day config secret postgres://of-the-agent",
    );
    await world.remove(nextOf(spec), 60_000);
    assert.deepEqual(await readdir(agent.path, { recursive: true }), filesBefore, "the artifact stays unmodified");
    assert.equal(await readFile(connections, "utf8").catch(() => ""), "");
  });

  withAgent("a stream in progress when the replica is removed is completed, and its run is saved", async (agent) => {
    const spec = specOf(agent);
    const state = await world.start(spec);
    const thread = await newThread(state);
    await streamAllSteps(state, thread, () => world.remove(spec, 60_000));

    const again = await world.start(nextOf(spec));
    assert.equal((await messagesOf(again, thread)).at(-1), "step9");
    await world.remove(nextOf(spec), 60_000);
  });

  withAgent("a run that was executing when the replica was killed is executed by the next replica", async (agent) => {
    const goFile = path.join(world.root, "go");
    const spec = specOf(agent, { env: { GO_FILE: goFile } });
    const state = await world.start(spec);
    const thread = await newThread(state);
    const { run_id } = (await (await post(state, `/threads/${thread}/runs`, stepsRun)).json()) as { run_id: string };
    const statusOf = async (at: ReplicaState) =>
      ((await (await get(at, `/threads/${thread}/runs/${run_id}`)).json()) as { status: string }).status;
    await eventually(
      () => statusOf(state),
      (status) => status === "running",
    );
    assert.equal(await world.compute.readRuns(spec.replicaId), 1, "the agent server counts its runs");
    await written(spec);
    const exit = await world.kill(spec);
    assert.equal(exit.signal, "SIGKILL");

    await writeFile(goFile, "");
    const again = await world.start(nextOf(spec));
    await eventually(
      () => statusOf(again),
      (status) => status === "success",
    );
    assert.deepEqual(
      await messagesOf(again, thread),
      Array.from({ length: 10 }, (_, step) => `step${step}`),
    );
    await world.remove(nextOf(spec), 60_000);
  });

  withAgent("state reaches the disk within seconds under requests that never pause", async (agent) => {
    const spec = specOf(agent);
    const state = await world.start(spec);
    const thread = await newThread(state);
    await ask(state, thread, "one");
    let isWritten = false;
    const writing = written(spec).then(() => {
      isWritten = true;
    });
    while (!isWritten) assert.equal((await messagesOf(state, thread)).length, 2);
    await writing;
    await world.kill(spec);
    const again = await world.start(nextOf(spec));
    assert.match((await ask(again, thread, "two words")) ?? "", /message number 2/);
    await world.remove(nextOf(spec), 60_000);
  });

  withAgent("an unreadable state file is moved aside and replaced by the copy of the last start", async (agent) => {
    const spec = specOf(agent);
    const state = await world.start(spec);
    const thread = await newThread(state);
    await ask(state, thread, "Hello");
    await world.remove(spec, 60_000);
    await world.start(nextOf(spec));
    await world.remove(nextOf(spec, 2), 60_000);
    await writeFile(stateFile(spec, ".langgraph_ops.pckl"), "half a fi");
    const again = await world.start(nextOf(spec, 3));
    assert.deepEqual((await messagesOf(again, thread)).slice(0, 1), ["Hello"]);
    assert.ok(
      (await linesOf(nextOf(spec, 3))).some((line) => /unreadable-\d+; restored the copy of the last start/.test(line)),
    );
    await world.remove(nextOf(spec, 3), 60_000);
  });

  withAgent("a second replica on the state of a running one is refused and does no harm", async (agent) => {
    const spec = specOf(agent);
    const state = await world.start(spec);
    const thread = await newThread(state);
    await ask(state, thread, "Hello");
    await world.compute.ensure(nextOf(spec), soon());
    const exit = await world.exits(nextOf(spec));
    assert.equal(exit.exitCode, 1);
    assert.match(
      exit.lastLines.at(-1) ?? "",
      /another process is using the state .* two servers on it would destroy it/,
    );
    await world.remove(nextOf(spec));
    assert.match((await ask(state, thread, "two words")) ?? "", /message number 2/);
    await world.remove(spec, 60_000);
  });

  withAgent(
    "a graph that cannot be loaded exits with its cause in its last lines, whatever the exit code",
    async (agent) => {
      const causes = {
        "throwing.json": /\nRuntimeError: no model key in MODEL_KEY$/,
        "importing.json": /\nModuleNotFoundError: No module named 'no_such_module_at_all'$/,
        "missing.json": /Could not find graph 'nothing' in/,
        "ending.json": /could not start: /,
        "syntax.json": /\nSyntaxError: invalid syntax/,
      } as const;
      for (const config of Object.keys(causes) as (keyof typeof causes)[]) {
        await world.failsToStart(specOf(withConfig(agent, config)), causes[config]);
      }
    },
  );

  withAgent("a store that cannot be made exits with its cause, and without a traceback of the shim", async (agent) => {
    const cause = /\nRuntimeError: no embedding key in MODEL_KEY$/;
    const { lastLines } = await world.failsToStart(specOf(withConfig(agent, "embedding.json")), cause);
    assert.deepEqual(
      lastLines.filter((line) => line.includes("langgraph-python-shim.py")),
      [],
    );
  });

  withAgent("an agent that requires credentials becomes ready, and rejects requests without them", async (agent) => {
    const spec = specOf(withConfig(agent, "guarded.json"));
    const state = await world.start(spec);
    assert.equal((await get(state, "/ok")).status, 200);
    const statusWith = async (headers: Record<string, string>) =>
      (
        await fetch(urlOf(state, "/threads/search"), {
          method: "POST",
          headers: { "content-type": "application/json", ...headers },
          body: "{}",
        })
      ).status;
    assert.equal(await statusWith({}), 401);
    assert.equal(await statusWith({ "x-auth-scheme": "langsmith" }), 401);
    assert.equal(await statusWith({ authorization: "Bearer of-the-test" }), 200);
    await world.remove(spec, 60_000);
  });
});
