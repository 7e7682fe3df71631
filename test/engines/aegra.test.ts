import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import { startRedisServer } from "../provision/redis-server.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import { startTestServer } from "../support/server.ts";
import type { Loose } from "./checks.ts";
import { expectComplete, expectOneAtATime } from "./expectations.ts";
import { runChecks } from "./parity.ts";
import { clientOf, newJournal, type Replica, readJournal } from "./replicas.ts";

/** Longer than a cold install of the packages on a loaded machine. Not a measurement. */
const timeoutMs = 400_000;

/** The checks that Aegra does not pass. docs/reference/engines.md says what an agent misses. */
const differences = new Set([
  "assistants: creates, reads and deletes an assistant",
  "assistants: draws a graph",
  "assistants: refuses a second assistant with the same id",
  "assistants: finds assistants by graph, name and metadata, and counts them",
  "threads: creates, reads, changes and deletes a thread",
  "threads: finds threads by metadata, status and values, and counts them",
  "threads: makes a thread from supersteps",
  "threads: changes the state as a node",
  "threads: copies a thread with its state",
  "runs: creates a batch of runs",
  "runs: a run on an unknown thread creates it only if asked",
  "runs: starts a delayed run when its time has come",
  "runs: creates runs in the background, joins and lists them",
  "runs: asks a person and goes on with the answer",
  "runs: interrupts before a node and goes on",
  "multitask: cancels a run that waits for its time",
  "streams: streams partial messages",
  "streams: streams the error of a failed run",
  "store: finds items below a namespace, by filter and page",
  "store: puts, gets and deletes items",
  "store: keeps broken characters",
]);

const port = await freePort();
const postgres = await startPostgresServer({ port });
const redis = await startRedisServer();
const journal = newJournal();
const pierhead = await startTestServer({
  PIERHEAD_AGENT_POSTGRES_URL: postgres?.url ?? "",
  PIERHEAD_AGENT_POSTGRES_ADDRESS: `127.0.0.1:${port}`,
  PIERHEAD_AGENT_REDIS_URL: redis.url,
});
const graphs = ["steps", "approval", "failing", "memory", "chat", "branches"];
const repository = await createAgentRepository({
  "agent.py": await readFile(path.join(import.meta.dirname, "aegra-agent/agent.py"), "utf8"),
  "requirements.txt": "langgraph\n",
  "langgraph.json": JSON.stringify({
    engine: "aegra",
    python_version: "3.12",
    dependencies: ["."],
    // The settings of the server come before those of the agent.
    env: { JOURNAL: journal, DATABASE_URL: "postgresql://127.0.0.1:1/agent", DEBUG: "agent:*" },
    graphs: Object.fromEntries(graphs.map((name) => [name, `./agent.py:${name}`])),
  }),
});
after(async () => {
  await pierhead[Symbol.asyncDispose]();
  await repository[Symbol.asyncDispose]();
  await redis.stop();
  await postgres?.stop();
});

const { client } = pierhead;
const made = await client.createDeployment({
  body: {
    name: "durable-python",
    source: "github",
    source_config: {
      repo_url: repository.url,
      deployment_type: "prod",
      build_on_push: false,
      resource_spec: { min_scale: 2, max_scale: 2 },
    },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
  },
});
const ids = { deployment_id: made.id };
const settled = (revisionId: string | null) =>
  client.waitForRevision({ ...ids, revision_id: String(revisionId) }, { timeoutMs });
const replicas = async () => {
  const report = (await client.debugDeployment(ids)).observed as DeploymentReport | null;
  return report?.replicas.filter(({ phase }) => phase === "ready") ?? [];
};
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

test("Aegra behaves like the other engines, but for what the documentation names", async (context) => {
  const { url } = await client.getDeployment(ids);
  const results = await runChecks({ url: String(url), client: await clientOf(String(url)) });
  const failed = results.filter(({ failure }) => failure !== undefined);
  context.diagnostic(`${results.length} checks, ${failed.length} differ`);
  assert.deepEqual(
    failed.filter(({ name }) => !differences.has(name)),
    [],
  );
});

test("the kill of a replica loses no run of Aegra and runs none twice at once", async (context) => {
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
});
