import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { cp, readFile, rm } from "node:fs/promises";
import path from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { replicaFiles } from "../../src/compute/process/replicas/replica-files.ts";
import type { EngineChoice } from "../../src/contract/deployments/deployment.ts";
import { eventually } from "../support/eventually.ts";
import { testKills } from "./aegra-kills.ts";
import { testOutages } from "./aegra-outages.ts";
import { startAegraReplica } from "./aegra-replicas.ts";
import { testStreams } from "./aegra-streams.ts";
import { startAegraWorld, timeoutMs } from "./aegra-world.ts";
import type { Loose } from "./checks.ts";
import { expectComplete, expectOneAtATime } from "./expectations.ts";
import { rollBesideLongRun } from "./long-run.ts";
import { runChecks } from "./parity.ts";
import { clientOf, type Replica, readJournal } from "./replicas.ts";

/** The checks that Aegra does not pass. docs/reference/engines.md says what an agent misses. */
const differences = new Set([
  "threads: finds threads by metadata, status and values, and counts them",
  "threads: makes a thread from supersteps",
  "runs: creates a batch of runs",
  "runs: starts a delayed run when its time has come",
  "runs: creates runs in the background, joins and lists them",
  "runs: interrupts before a node and goes on",
  "multitask: cancels a run that waits for its time",
  "streams: streams partial messages",
  "store: finds items below a namespace, by filter and page",
  "store: keeps broken characters",
]);

const world = await startAegraWorld();
after(() => world[Symbol.asyncDispose]());
const { create, journal, pierhead, repository } = world;
const { client } = pierhead;
const made = await create("durable-python", null, 2);
const ids = { deployment_id: made.id };
const settled = (revisionId: string | null) =>
  client.waitForRevision({ ...ids, revision_id: String(revisionId) }, { timeoutMs });
const replicas = () => world.replicasOf(made.id);
const databaseOf = (id: string) => world.postgresUrl.replace(/postgres$/, `ph_${id.replaceAll("-", "")}`);
const twoReplicas = (old = new Set<string>()) =>
  eventually(replicas, (ready) => ready.length === 2 && ready.every(({ replica_id: id }) => !old.has(id)), {
    timeoutMs: 90_000,
    what: "two replicas",
  });
const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

test("a Python agent runs on Aegra as two replicas, with one run at a time on a thread", async () => {
  const revision = await settled(made.latest_revision_id);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  assert.deepEqual([revision.engine, revision.engine_because, revision.rollout], ["aegra", "configuration", "rolling"]);
  const [one, other] = (await Promise.all(
    (await twoReplicas()).map(({ address }) => clientOf(`http://${address}`)),
  )) as [Loose, Loose];
  const { thread_id } = await one.threads.create();
  const runs = [];
  for (const [index, agent] of [one, other, one].entries()) {
    const input = { total: 3 * (index + 1), ms: 50 };
    runs.push(await agent.runs.create(thread_id, "steps", { input, multitaskStrategy: "enqueue" }));
  }
  for (const { run_id } of runs) await other.runs.join(thread_id, run_id);
  assert.deepEqual((await one.threads.getState(thread_id)).values.done, numbers(9));
  const steps = readJournal(journal).map(({ event, step }) => `${event} ${step}`);
  assert.deepEqual(
    steps,
    numbers(9).flatMap((step) => [`begin ${step}`, `end ${step}`]),
  );

  // A later run takes back what an earlier one has done since it began.
  const { run_id: undone } = await one.runs.create(thread_id, "steps", { input: { total: 50, ms: 200 } });
  await eventually(
    () => other.threads.getState(thread_id),
    (state: Loose) => state.values.done.length > 9,
    { what: "a step of the second run" },
  );
  await assert.rejects(other.runs.create(thread_id, "steps", { input: {}, multitaskStrategy: "reject" }), /409/);
  const last = await other.runs.wait(thread_id, "steps", { input: { total: 10 }, multitaskStrategy: "rollback" });
  assert.deepEqual(last.done, numbers(10));
  await assert.rejects(one.runs.get(thread_id, undone), /404/);
});

test("Aegra behaves like the other engines, except for the documented differences", async (context) => {
  const { url } = await client.getDeployment(ids);
  const results = await runChecks({ url: String(url), client: await clientOf(String(url)) });
  const failed = results.filter(({ failure }) => failure !== undefined);
  context.diagnostic(`${results.length} checks, ${failed.length} differ: ${failed.map(({ name }) => name).join("; ")}`);
  assert.deepEqual(
    failed.filter(({ name }) => !differences.has(name)),
    [],
  );
});

test("killing a replica of Aegra loses no run and executes none twice at once", async (context) => {
  const { url } = await client.getDeployment(ids);
  const agent = await clientOf(String(url));
  const total = 20;
  const runs: { thread_id: string; run_id: string }[] = [];
  for (let index = 0; index < 20; index += 1) {
    const { thread_id } = await agent.threads.create();
    const input = { total, ms: 250 };
    const { run_id } = await agent.runs.create(thread_id, "steps", { input, config: { recursion_limit: 50 } });
    runs.push({ thread_id, run_id });
  }
  const mine = () => readJournal(journal).filter(({ run_id }) => runs.some((run) => run.run_id === run_id));
  const pids = await eventually(
    () => [...new Set(mine().flatMap(({ event, pid }) => (event === "end" ? [pid] : [])))],
    (found) => found.length === 2,
    { what: "steps of both replicas" },
  );
  process.kill(pids[0] as number, "SIGKILL");
  await expectComplete({ client: agent } as Replica, runs, total);
  expectOneAtATime(mine(), runs, total);
  const { queue } = (await (await fetch(`${url}/metrics?format=json`)).json()) as Loose;
  context.diagnostic(`${queue.n_recovered} of ${runs.length} runs recovered`);
  assert.ok(queue.n_recovered > 0, "the kill hit running runs");
  assert.equal(queue.n_pending + queue.n_running, 0);
  await twoReplicas();
});

test("the metrics of Aegra tell how long its queue stays quiet", async () => {
  const { url } = await client.getDeployment(ids);
  const dueIn = async () =>
    ((await (await fetch(`${url}/metrics?format=json`)).json()) as Loose).queue.next_due_secs as number | null;
  await eventually(dueIn, (seconds) => seconds === null, { what: "a quiet queue" });
  const agent = await clientOf(String(url));
  // Aegra runs a new cron at once, and leaves out the next time of its schedule.
  await agent.crons.create("steps", { schedule: "0 * * * *", input: { total: 1 } });
  const seconds = await eventually(dueIn, (found) => found !== 0, { what: "a quiet queue beside the cron" });
  assert.ok(seconds !== null && seconds > 0 && seconds <= 2 * 3_600, String(seconds));
  for (const { cron_id } of await agent.crons.search()) await agent.crons.delete(cron_id);
  await eventually(dueIn, (found) => found === null, { what: "a queue without the cron" });
});

test("the metrics of Aegra count the tokens that the models of all replicas report", async () => {
  const agents = await Promise.all((await twoReplicas()).map(({ address }) => clientOf(`http://${address}`)));
  for (const agent of agents)
    await agent.runs.wait(null, "billed", { input: { messages: [{ role: "user", content: "three" }] } });
  const tokens = async () => {
    const { queue } = (await (
      await fetch(`${(await client.getDeployment(ids)).url}/metrics?format=json`)
    ).json()) as Loose;
    return [queue.n_input_tokens, queue.n_output_tokens];
  };
  // Each run calls its model twice.
  await eventually(tokens, ([input, output]) => input === 40 && output === 12, { what: "the tokens of both runs" });
});

test("a new revision replaces the replicas of Aegra without losing a request or a run", async (context) => {
  const { url } = await client.getDeployment(ids);
  const agent = await clientOf(String(url));
  const old = new Set((await twoReplicas()).map(({ replica_id }) => replica_id));
  const { thread_id: long } = await agent.threads.create();
  // Longer than the ten seconds that a replica waits for its runs.
  const options = { input: { total: 80, ms: 300 }, config: { recursion_limit: 100 } };
  const { run_id } = await agent.runs.create(long, "steps", options);
  const stopping = new AbortController();
  const failures: string[] = [];
  let count = 0;
  const load = Array.from({ length: 3 }, async () => {
    while (!stopping.signal.aborted) {
      try {
        const threadId = randomUUID();
        const { done } = await agent.runs.wait(threadId, "steps", {
          input: { total: 4, ms: 20 },
          ifNotExists: "create",
        });
        assert.deepEqual(done, numbers(4));
        count += 1;
      } catch (error) {
        failures.push(String(error));
      }
      await sleep(50);
    }
  });
  try {
    await repository.commit({ "CHANGE.md": "a second version" });
    const patched = await client.patchDeployment({ ...ids, body: { source_revision_config: { repo_ref: "main" } } });
    const second = await settled(patched.latest_revision_id);
    assert.equal(second.status, "DEPLOYED", second.status_message ?? "");
    await twoReplicas(old);
  } finally {
    stopping.abort();
    await Promise.all(load);
  }
  context.diagnostic(`${count} runs during the update`);
  assert.deepEqual(failures, []);
  assert.ok(count > 0);
  await expectComplete({ client: agent } as Replica, [{ thread_id: long, run_id }], 80);
  expectOneAtATime(readJournal(journal), [{ run_id, thread_id: long }], 80);
  await rollBesideLongRun({ client, deploymentId: made.id, repository, timeoutMs }, context);
});

test("another replica executes the runs of an Aegra replica with no jobs of its own", async (context) => {
  const own = {
    pid: await pidOf((await replicas())[0]?.replica_id),
    redisUrl: world.redisUrl,
  };
  const start = (jobs: number) => startAegraReplica({ ...own, schema: "apart", journal, jobs });
  const [api, worker] = await Promise.all([start(0), start(10)]);
  context.after(() => [api, worker].map(({ process }) => process.kill("SIGKILL")));
  const { thread_id } = await api.client.threads.create();
  const streamed = [];
  for await (const { event } of api.client.runs.stream(thread_id, "steps", {
    input: { total: 3 },
    streamMode: "custom",
  }))
    streamed.push(event);
  assert.equal(streamed.filter((event) => event === "custom").length, 3);
  assert.deepEqual((await api.client.runs.wait(thread_id, "steps", { input: { total: 5 } })).done, numbers(5));
  const by = readJournal(journal).filter((step) => step.thread_id === thread_id);
  assert.deepEqual([...new Set(by.map(({ pid }) => pid))], [worker.process.pid]);
  const { workers } = (await (await fetch(`${api.url}/metrics?format=json`)).json()) as Loose;
  assert.equal(workers.max, 0);
});

/** What a client can read of threads, assistants and items, without what Aegra does not have. */
async function readAll(agent: Loose, threads: string[], assistantId: string) {
  const byThread = threads.map(async (id) => {
    const history = (await agent.threads.getHistory(id, { limit: 100 })) as Loose[];
    const runs = (await agent.runs.list(id, { limit: 100 })) as Loose[];
    const { kind } = (await agent.threads.get(id)).metadata;
    return {
      kind,
      status: (await agent.threads.get(id)).status,
      history: history.map(({ values, next, checkpoint, parent_checkpoint: parent, tasks }) => ({
        values,
        next,
        id: checkpoint.checkpoint_id,
        parent: parent?.checkpoint_id,
        questions: tasks.flatMap((task: Loose) => task.interrupts.map(({ value }: Loose) => value)),
      })),
      runs: runs.map(({ run_id, status }) => ({ run_id, status })),
    };
  });
  const versions = (await agent.assistants.getVersions(assistantId)) as Loose[];
  const { items } = await agent.store.searchItems(["counters"], { limit: 100 });
  return {
    threads: await Promise.all(byThread),
    versions: versions.map(({ version, name, graph_id, config, metadata }) => ({
      version,
      name,
      graph_id,
      tags: config.tags,
      metadata,
    })),
    items: items.map(({ namespace, key, value }: Loose) => ({ namespace, key, value })),
  };
}

test("a Python agent moves from memory to Aegra with its state, and out again", async (context) => {
  const { latest_revision_id, ...mover } = await create("moving-python", "memory", 1);
  const its = { deployment_id: mover.id };
  const deployed = async (revisionId: string | null, engine: string) => {
    const revision = await client.waitForRevision({ ...its, revision_id: String(revisionId) }, { timeoutMs });
    assert.deepEqual([revision.status, revision.engine], ["DEPLOYED", engine], revision.status_message ?? "");
  };
  const choose = async (engine: EngineChoice) => {
    const changed = await client.patchDeployment({ ...its, body: { source_config: { engine } } });
    await deployed(changed.latest_revision_id, engine);
  };
  await deployed(latest_revision_id, "memory");
  const { url } = await client.getDeployment(its);
  const agent = await clientOf(String(url));
  const mine = await agent.assistants.create({ graphId: "steps", name: "mine", config: { tags: ["a"] } });
  await agent.assistants.update(mine.assistant_id, { metadata: { second: true } });
  await agent.assistants.create({ graphId: "steps", name: "another", config: { tags: ["a"] } });
  const newThread = async (): Promise<string> =>
    (await agent.threads.create({ metadata: { kind: "moved" } })).thread_id;
  const [plain, forked, waiting] = await Promise.all([newThread(), newThread(), newThread()]);
  const run = (id: string | null, graph: string, options: object) => agent.runs.wait(id, graph, options);
  const total = (count: number) => ({ input: { total: count } });
  await run(plain, mine.assistant_id, total(3));
  await run(null, "memory", { input: {} });
  await run(waiting, "approval", { input: {} });
  await run(forked, "steps", total(2));
  const early = (await agent.threads.getHistory(forked, { limit: 10 })).at(-2);
  await run(forked, "steps", { ...total(4), checkpointId: early.checkpoint.checkpoint_id });
  const ids = [plain, forked, waiting];
  const before = await readAll(agent, ids, mine.assistant_id);

  await choose("aegra");
  assert.deepEqual(await readAll(agent, ids, mine.assistant_id), before);
  assert.deepEqual((await run(waiting, "approval", { command: { resume: "yes" } })).done, ["answered yes"]);
  assert.deepEqual((await run(plain, mine.assistant_id, total(5))).done, numbers(5));
  assert.equal((await run(null, "memory", { input: {} })).answer, 2);
  const after = await readAll(agent, ids, mine.assistant_id);

  // Out again: the export takes the place of the files of the move, and the server in memory goes on with them.
  const [replica] = await world.replicasOf(mover.id);
  const [python = ""] = (await readFile(`/proc/${await pidOf(replica?.replica_id)}/cmdline`, "utf8")).split("\0");
  const exported = path.join(pierhead.dataDir, "exported");
  const program = path.resolve("src/compute/process/langgraph/pierhead_aegra/export.py");
  const env = {
    ...process.env,
    DATABASE_URI: databaseOf(mover.id),
  };
  const write = () => promisify(execFile)(python, [program, exported], { env });
  const counts = JSON.parse((await write()).stdout);
  context.diagnostic(JSON.stringify(counts));
  // The thread of a run without one may still be there.
  assert.deepEqual([counts.assistants, counts.threads >= 3, counts.items], [2, true, 1]);
  await assert.rejects(write(), /FileExistsError/);
  const state = path.join(pierhead.dataDir, "state", mover.id, ".langgraph_api");
  await rm(state, { recursive: true });
  await cp(path.join(exported, ".langgraph_api"), state, { recursive: true });
  await choose("memory");
  assert.deepEqual(await readAll(agent, ids, mine.assistant_id), after);
  assert.deepEqual((await run(plain, mine.assistant_id, total(6))).done, numbers(6));
  assert.equal((await run(null, "memory", { input: {} })).answer, 3);
});

testOutages(async () => ({
  pid: await pidOf((await twoReplicas())[0]?.replica_id),
  redisUrl: world.redisUrl,
  journal,
  adminUrl: databaseOf(made.id),
}));
testStreams(async () => ({ pid: await pidOf((await twoReplicas())[0]?.replica_id), journal }));
testKills(async () => pidOf((await twoReplicas())[0]?.replica_id));

async function pidOf(replicaId: string | undefined): Promise<number> {
  const { report } = replicaFiles(pierhead.dataDir, String(replicaId));
  return JSON.parse(await readFile(report, "utf8")).pid;
}
