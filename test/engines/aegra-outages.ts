import assert from "node:assert/strict";
import { after, type TestContext, test } from "node:test";
import pg from "pg";
import { eventually } from "../support/eventually.ts";
import { type AegraOptions, startAegraReplica } from "./aegra-replicas.ts";
import type { Loose } from "./checks.ts";
import { expectComplete } from "./expectations.ts";
import { followStream, type Replica, readJournal } from "./replicas.ts";

interface World extends Pick<AegraOptions, "pid" | "redisUrl" | "journal"> {
  /** Database of the replica, as its superuser. */
  adminUrl: string;
}

const schema = "outages";

/**
 * Adds the tests of outages of one replica's connections. They break a connection while its statement waits for a lock, so that it is always
 * the same statement that fails.
 */
export function testOutages(worldOf: () => Promise<World>): void {
  let started: Promise<{ replica: Replica; world: World }> | undefined;
  const start = () => {
    started ??= worldOf().then(async (world) => ({ world, replica: await startAegraReplica({ ...world, schema }) }));
    return started;
  };
  after(async () => (await started)?.replica.process.kill("SIGKILL"));

  test("a run completes although its connection breaks while its end is written", async (context) => {
    const { world, replica } = await start();
    const run = await startSteps(world, replica);
    const admin = await connect(world, context);
    await admin.lock(`select from ${schema}.runs where run_id = '${run.run_id}' for update`);
    await admin.breakStatement("update % set status=%");
    await admin.unlock();
    await expectComplete(replica, [run], total);
    const begun = readJournal(world.journal).filter(({ run_id, event }) => run_id === run.run_id && event === "begin");
    assert.equal(begun.length, total, "no step is repeated");
  });

  test("a run continues although its connection breaks five times at one checkpoint", async (context) => {
    const { world, replica } = await start();
    const run = await startSteps(world, replica);
    const admin = await connect(world, context);
    await admin.lock(`lock table ${schema}.checkpoints in share row exclusive mode`);
    for (let time = 1; time <= 5; time += 1) await admin.breakStatement("%insert into checkpoints%");
    await admin.unlock();
    await expectComplete(replica, [run], total);
  });

  test("a run continues although the connection of its store breaks", async (context) => {
    const { world, replica } = await start();
    const admin = await connect(world, context);
    await admin.lock(`lock table ${schema}.store in share row exclusive mode`);
    const { thread_id } = await replica.client.threads.create();
    const { run_id } = await replica.client.runs.create(thread_id, "memory", { input: {} });
    await admin.breakStatement("%store%");
    await admin.unlock();
    await replica.client.runs.join(thread_id, run_id);
    const { status, error_message: error } = await replica.client.runs.get(thread_id, run_id);
    assert.deepEqual([status, error], ["success", null]);
    assert.equal((await replica.client.threads.getState(thread_id)).values.answer, 1);
  });

  test("a stream and a request that waits for its run outlast a broken connection", async (context) => {
    const { world, replica } = await start();
    const { thread_id } = await replica.client.threads.create();
    // Longer than the silence after which they ask the database whether the run has ended.
    const { run_id } = await replica.client.runs.create(thread_id, "steps", { input: { total: 1, ms: 8_000 } });
    const waited = replica.client.runs.join(thread_id, run_id);
    const streamed = followStream(() => [replica.url], thread_id, run_id);
    await eventually(
      () => readJournal(world.journal).some((step) => step.run_id === run_id),
      (hasBegun) => hasBegun,
      { what: "a step" },
    );
    const admin = await connect(world, context);
    await admin.lock(`lock table ${schema}.runs in access exclusive mode`);
    await admin.breakStatement("select %from runs%where runs.run_id = %", 2);
    await admin.unlock();
    await waited;
    assert.deepEqual(
      (await streamed).filter(({ event }) => event === "error"),
      [],
    );
    await expectComplete(replica, [{ thread_id, run_id }], 1);
  });

  test("a thread is deleted although PostgreSQL refuses the statement for a deadlock with the end of a run", async (context) => {
    const { world, replica } = await start();
    const { thread_id } = await replica.client.threads.create();
    await replica.client.runs.wait(thread_id, "steps", { input: { total: 1 } });
    const admin = await connect(world, context);
    // As the end of a run does: first the row of the run, then that of its thread.
    await admin.lock(`select from ${schema}.runs where thread_id = '${thread_id}' for update`);
    const deletion = fetch(`${replica.url}/threads/${thread_id}`, { method: "DELETE" });
    await admin.waitsFor("delete from thread%");
    await admin.lockAlso(`select from ${schema}.thread where thread_id = '${thread_id}' for update`);
    await admin.unlock();
    assert.equal((await deletion).status, 200);
    assert.equal((await fetch(`${replica.url}/threads/${thread_id}`)).status, 404);
  });

  test("an error on the agent's own connection ends its run at once", async () => {
    const { world, replica } = await start();
    const { thread_id } = await replica.client.threads.create();
    const { run_id } = await replica.client.runs.create(thread_id, "unreachable", { input: {} });
    await replica.client.runs.join(thread_id, run_id);
    const { status, error_message: error } = await replica.client.runs.get(thread_id, run_id);
    assert.equal(status, "error");
    assert.match(error, /connection/i);
    assert.equal(readJournal(world.journal).filter((step) => step.run_id === run_id).length, 1);
  });
}

const total = 3;

/** Starts a run, and waits for its first step. */
async function startSteps({ journal }: World, { client }: Replica) {
  const { thread_id } = await client.threads.create();
  const { run_id } = await client.runs.create(thread_id, "steps", { input: { total, ms: 1_000 } });
  await eventually(
    () => readJournal(journal).some((step) => step.run_id === run_id),
    (hasBegun) => hasBegun,
    { what: "a step" },
  );
  return { thread_id, run_id };
}

/** Connects to the database of the replica twice: one connection holds locks, the other one breaks the connections that wait for them. */
async function connect({ adminUrl }: World, context: TestContext) {
  const [locking, breaking] = [1, 2].map(() => new pg.Client({ connectionString: adminUrl })) as [pg.Client, pg.Client];
  await Promise.all([locking.connect(), breaking.connect()]);
  context.after(() => Promise.all([locking.end(), breaking.end()]));
  const waitsFor = (pattern: string, least = 1) =>
    eventually(
      () =>
        breaking.query(
          "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query ilike $1",
          [pattern],
        ),
      (found: Loose) => found.rows.length >= least,
      { what: `a statement ${pattern}`, timeoutMs: 30_000 },
    );
  return {
    async lock(statement: string) {
      await locking.query("begin");
      await locking.query(statement);
    },
    lockAlso: (statement: string) => locking.query(statement),
    waitsFor,
    unlock: () => locking.query("rollback"),
    /** Waits for statements that wait for the lock, and breaks their connections. */
    async breakStatement(pattern: string, least = 1) {
      const { rows } = await waitsFor(pattern, least);
      for (const { pid } of rows as Loose[]) await breaking.query("select pg_terminate_backend($1, 5000)", [pid]);
    },
  };
}
