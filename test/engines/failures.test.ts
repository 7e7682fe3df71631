import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, type TestContext, test } from "node:test";
import pg from "pg";
import { eventually } from "../support/eventually.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import type { Loose } from "./checks.ts";
import { expectComplete, expectOneAtATime, type Started, startRuns } from "./expectations.ts";
import { followStream, newJournal, type Replica, readJournal, startReplica } from "./replicas.ts";

const server = await startPostgresServer();
after(() => server?.stop());
const connectionString = server?.url ?? "";

/** Starts replicas with a schema of their own, which end with the test. */
function replicasOf(context: TestContext, engine: Loose = {}, journal?: string): () => Promise<Replica> {
  const schema = `test_${randomUUID().replaceAll("-", "")}`;
  return async () => {
    const options = { connectionString, engine: { ...engine, schema }, ...(journal !== undefined && { journal }) };
    const replica = await startReplica("postgres", options);
    context.after(() => replica.process.kill("SIGKILL"));
    return replica;
  };
}

const waitForSteps = (journal: string, pid: number | undefined, count: number) =>
  eventually(
    () => readJournal(journal).filter((step) => step.pid === pid && step.event === "end").length,
    (steps) => steps >= count,
    { what: "steps" },
  );

test("a killed replica loses no run: another one goes on within 15 seconds, and streams miss no event", async (context) => {
  const journal = newJournal();
  const total = 12;
  const start = replicasOf(context, {}, journal);
  const [first, second] = await Promise.all([start(), start()]);
  const runs = await startRuns([first, second], 16, { total, ms: 150 });
  const urls = () =>
    first.process.exitCode === null && first.process.signalCode === null ? [first.url, second.url] : [second.url];
  const followed = runs.slice(0, 6).map(({ thread_id, run_id }) => followStream(urls, thread_id, run_id));
  await waitForSteps(journal, first.process.pid, 10);
  const killedAt = Date.now();
  first.process.kill("SIGKILL");
  await first.ended;
  await expectComplete(second, runs, total);
  const steps = readJournal(journal);
  expectOneAtATime(steps, runs, total);
  const begunByFirst = new Set(steps.filter(({ pid }) => pid === first.process.pid).map(({ run_id }) => run_id));
  const taken = steps.filter(
    ({ pid, run_id, at }) => pid === second.process.pid && at > killedAt && begunByFirst.has(run_id),
  );
  assert.ok(taken.length > 0, "the second replica took over runs");
  const recovery = Math.min(...taken.map(({ at }) => at)) - killedAt;
  console.log(`recovered after ${recovery} ms`);
  assert.ok(recovery < 15_000, `${recovery} ms`);
  const metrics = (await (await fetch(`${second.url}/metrics?format=json`)).json()) as Loose;
  assert.ok(metrics.queue.n_recovered > 0, "recovered runs are counted");
  for (const events of await Promise.all(followed)) {
    assert.deepEqual(
      events.map(({ id }) => id),
      events.map((_, index) => index),
    );
    const seen = new Set(events.filter(({ event }) => event === "custom").map(({ data }) => data.step));
    assert.equal(seen.size, total);
  }
});

test("a stream has the events of a step whose replica was killed before it could write them", async (context) => {
  const journal = newJournal();
  const total = 3;
  const schema = `test_${randomUUID().replaceAll("-", "")}`;
  const start = async () => {
    const replica = await startReplica("postgres", { connectionString, engine: { schema }, journal });
    context.after(() => replica.process.kill("SIGKILL"));
    return replica;
  };
  const first = await start();
  const admin = new pg.Client({ connectionString });
  await admin.connect();
  context.after(() => admin.end());
  const [run] = await startRuns([first], 1, { total, ms: 500 });
  const { thread_id, run_id } = run as Started;
  await eventually(
    () => readJournal(journal).length,
    (steps) => steps > 0,
    { what: "the first step" },
  );
  await admin.query("begin");
  await admin.query(`lock table ${schema}.events in share row exclusive mode`);
  await waitForSteps(journal, first.process.pid, 2);
  first.process.kill("SIGKILL");
  await first.ended;
  // The database would run what the replica has sent before its end.
  await admin.query(
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where wait_event_type = 'Lock' and query like $1",
    [`%${schema}%`],
  );
  await admin.query("rollback");
  const second = await start();
  const events = await followStream(() => [second.url], thread_id, run_id);
  assert.deepEqual(
    [...new Set(events.filter(({ event }) => event === "custom").map(({ data }) => data.step))],
    [1, 2, 3],
  );
});

test("a replica that ends hands its runs over at once", async (context) => {
  const journal = newJournal();
  const total = 20;
  const start = replicasOf(context, { handoverMs: 200 }, journal);
  const first = await start();
  const runs = await startRuns([first], 8, { total, ms: 600 });
  const followed = runs.slice(0, 3);
  await waitForSteps(journal, first.process.pid, 8);
  // The runs last long enough for it to start meanwhile.
  const second = await start();
  const urls = () => (first.process.exitCode === null ? [first.url, second.url] : [second.url]);
  const streams = followed.map(({ thread_id, run_id }) => followStream(urls, thread_id, run_id));
  first.process.kill("SIGTERM");
  assert.equal(await first.ended, 0);
  const endedAt = Date.now();
  await expectComplete(second, runs, total);
  const steps = readJournal(journal);
  expectOneAtATime(steps, runs, total);
  const taken = steps.filter(({ pid }) => pid === second.process.pid);
  assert.ok(taken.length > 0, "the second replica took over runs");
  assert.ok((taken[0]?.at ?? 0) - endedAt < 5_000, "without waiting for a lease");
  for (const events of await Promise.all(streams))
    assert.deepEqual(
      events.map(({ id }) => id),
      events.map((_, index) => index),
    );
});

test("replicas whose leases cannot be renewed stop their runs, and finish them when the database is back", async (context) => {
  const journal = newJournal();
  const total = 20;
  const replica = await replicasOf(context, { leaseMs: 3_000 }, journal)();
  const runs = await startRuns([replica], 4, { total, ms: 200 });
  await waitForSteps(journal, replica.process.pid, 4);
  await server?.freeze(4_000);
  await expectComplete(replica, runs, total);
  assert.match(replica.log(), /run lost: its lease was not renewed in time/);
});

test("a replica that was frozen beyond its lease writes nothing into the runs that others have taken", async (context) => {
  const total = 20;
  const start = replicasOf(context, { leaseMs: 3_000 });
  const first = await start();
  const runs = await startRuns([first], 4, { total, ms: 200 });
  const started = runs[0] as Started;
  await eventually(
    () => first.client.threads.getState(started.thread_id),
    (state: Loose) => state.values.done?.length > 1,
    { what: "a step" },
  );
  first.process.kill("SIGSTOP");
  const second = await start();
  await eventually(
    () => second.log(),
    (log) => log.includes("Starting background run"),
    { what: "the other replica" },
  );
  first.process.kill("SIGCONT");
  await expectComplete(second, runs, total);
});
