import assert from "node:assert/strict";
import { ApiError } from "../../src/contract/error.ts";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import {
  claimBuild,
  finishBuild,
  releaseBuilds,
  renewBuilds,
  takeAbandonedBuild,
} from "../../src/store/builds/builds.ts";
import { readDesired, writeAssignment } from "../../src/store/data-plane/assignments.ts";
import { checkEpoch, openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import { storeReports } from "../../src/store/data-plane/observations.ts";
import { findUnqueuedDeployments, readDeploymentState } from "../../src/store/deployments/deployment-state.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { appendLogEntries, appendReplicaLog, readLogEntries } from "../../src/store/logs/log-entries.ts";
import { moveRevision } from "../../src/store/revisions/revisions.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld, type World } from "./fixtures.ts";

eachDatabase("a reader of assignments never misses a late commit, because versions follow commit order", async (db) => {
  const world = await makeWorld(db);
  const ids = await Promise.all(Array.from({ length: 20 }, () => makeDeployment(db, world)));
  const seen = new Set<string>();
  let after = 0;
  const writing = Promise.all(
    ids.map(({ id }) => db.transaction((trx) => writeAssignment(trx, assignment(world, id)))),
  );
  for (let turn = 0; turn < 200 && seen.size < ids.length; turn += 1) {
    const page = await readDesired(db, world.listenerId, { after, limit: 3 });
    for (const item of page.items) seen.add(item.deployment_id);
    after = page.rv;
    if (turn === 100) await writing;
  }
  await writing;
  assert.equal(seen.size, ids.length);
});

eachDatabase("an assignment is one row with an increasing generation", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  await writeAssignment(db, assignment(world, id));
  await writeAssignment(db, { ...assignment(world, id), op: "delete", seen: 1 });
  const page = await readDesired(db, world.listenerId, { after: 0, limit: 10 });
  assert.deepEqual(
    page.items.map(({ generation, op, rv }) => ({ generation, op, rv })),
    [{ generation: 2, op: "delete", rv: 2 }],
  );
  assert.deepEqual((await readDesired(db, world.listenerId, { after: 2, limit: 10 })).items, []);
});

eachDatabase(
  "a writer that saw an older assignment writes nothing, and does not bring back a deleted one",
  async (db) => {
    const world = await makeWorld(db);
    const { id } = await makeDeployment(db, world);
    const read = async () => (await readDesired(db, world.listenerId, { after: 0, limit: 10 })).items;
    assert.equal(await writeAssignment(db, assignment(world, id)), true);
    assert.equal(await writeAssignment(db, assignment(world, id)), false, "an assignment already exists");
    assert.equal(await writeAssignment(db, { ...assignment(world, id), op: "delete", seen: 1 }), true);
    assert.equal(await writeAssignment(db, { ...assignment(world, id), seen: 1 }), false);
    assert.deepEqual(
      (await read()).map(({ generation, op }) => ({ generation, op })),
      [{ generation: 2, op: "delete" }],
    );
    const two = [2, 2].map((seen) => writeAssignment(db, { ...assignment(world, id), op: "delete", seen }));
    assert.equal((await Promise.all(two)).filter(Boolean).length, 1, "one of two concurrent writers wins");
    await db.query(sql`delete from assignments where deployment_id = ${id}`);
    assert.equal(await writeAssignment(db, { ...assignment(world, id), seen: 3 }), false);
    assert.deepEqual(await read(), []);
  },
);

eachDatabase(
  "stores each report once, in order, only for the listener's own deployments, and the newest epoch wins",
  async (db) => {
    const world = await makeWorld(db);
    const { id } = await makeDeployment(db, world);
    const first = await openListenerSession(db, world.listenerId, { instanceId: "a", version: "1", leaseMs: 1 });
    assert.equal(await storeReports(db, first, [report(id, 1)]), 0, "not assigned to this listener");
    await writeAssignment(db, assignment(world, id));
    assert.equal(await storeReports(db, first, [report(id, 2)]), 1);
    assert.equal(await storeReports(db, first, [report(id, 2)]), 0, "the same report again");
    assert.equal(await storeReports(db, first, [report(id, 1)]), 0, "an older report");
    const second = { listenerId: world.listenerId, epoch: first.epoch + 1 };
    assert.equal(await storeReports(db, second, [report(id, 1)]), 1, "a newer session counts from the start");
    assert.equal(await storeReports(db, first, [report(id, 9)]), 0, "the old session no longer counts");
    assert.equal(
      await storeReports(db, second, [report(id, 3), report(id, 4), report(id, 2)]),
      1,
      "several in one batch",
    );
    const { rows } = await db.query<{ seq: number }>(sql`select seq from observations`);
    assert.deepEqual(rows, [{ seq: 4 }]);
  },
);

eachDatabase("the exit of a replica is one event, and exits in a crash loop write none", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  await writeAssignment(db, assignment(world, id));
  const session = { listenerId: world.listenerId, epoch: 1 };
  const exit = (replica: string, at: string, restarts: number) => ({
    last_exit: {
      ...{ id: replica, replica_id: replica, revision_id: revisionId, at, restarts },
      cause: { reason: "OutOfMemory", message: "Killed.", exit_code: null, signal: "SIGKILL", last_lines: ["x"] },
    },
  });
  let seq = 0;
  const put = async (changes: Partial<DeploymentReport>) => {
    seq += 1;
    await storeReports(db, session, [{ ...report(id, seq), ...changes }]);
    const { rows } = await db.query<{ data: Record<string, unknown> }>(
      sql`select data from events where kind = 'replica.exited' order by id`,
    );
    return rows.map(({ data }) => data["replica_id"]);
  };
  assert.deepEqual(await put({}), []);
  const first = exit("r-1", "2026-11-20T10:00:00Z", 1);
  assert.deepEqual(await put({ ...first, crash_streak: 1 }), ["r-1"]);
  assert.deepEqual(await put({ ...first, crash_streak: 1, target_phase: "ready" }), ["r-1"], "the same exit again");
  assert.deepEqual(await put({}), ["r-1"], "a restarted listener does not know the exit");
  assert.deepEqual(await put(first), ["r-1"], "but the server does");
  const loop = exit("r-3", "2026-11-20T10:00:03Z", 3);
  assert.deepEqual(await put({ ...loop, crash_streak: 3 }), ["r-1"]);
  assert.deepEqual(await put({ ...first, crash_streak: 3 }), ["r-1"], "an older exit is no news");
  assert.deepEqual(await put(exit("r-4", "2026-11-20T11:00:00Z", 4)), ["r-1", "r-4"]);
  const { last_exit: chatty } = exit("r-5", "2026-11-20T12:00:00Z", 5);
  await put({ last_exit: { ...chatty, cause: { ...chatty.cause, message: "é".repeat(100_000) } } });
  const { rows: sizes } = await db.query<{ length: number }>(sql`
    select length(data ->> 'message') as length from events where kind = 'replica.exited' order by id desc limit 1`);
  assert.deepEqual(sizes, [{ length: 500 }], "an agent cannot make an event large");
  const { rows } = await db.query<{ data: object }>(sql`select data from events where kind = 'replica.exited' limit 1`);
  assert.deepEqual(rows[0]?.data, {
    ...{ replica_id: "r-1", reason: "OutOfMemory", message: "Killed.", exit_code: null, signal: "SIGKILL" },
    ...{ exited_at: "2026-11-20T10:00:00Z", restarts: 1, exits_in_a_row: 1 },
  });
});

eachDatabase("a live session blocks other instances until its lease expires, but not its own instance", async (db) => {
  const world = await makeWorld(db);
  const open = (instanceId: string, leaseMs: number) =>
    openListenerSession(db, world.listenerId, { instanceId, version: "1", leaseMs });
  const first = await open("a", 60_000);
  await assert.rejects(open("b", 60_000), (error) => error instanceof ApiError && error.code === "listenerBusy");
  const again = await open("a", 0);
  assert.equal(again.epoch, first.epoch + 1);
  await assert.rejects(checkEpoch(db, first), (error) => error instanceof ApiError && error.code === "staleEpoch");
  await db.query(sql`select pg_sleep(0.01)`);
  const third = await open("b", 60_000);
  await checkEpoch(db, third);
});

eachDatabase("a build has one owner, and others get it only after its lease expires", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await awaitingBuild(db, world);
  const claim = (owner: string, leaseMs = 60_000) =>
    claimBuild(db, { id: revisionId, deploymentId: id }, { owner, leaseMs, deadlineAt: new Date(Date.now() + 60_000) });
  const claims = await Promise.all(["a", "b", "c", "d"].map((owner) => claim(owner)));
  assert.equal(claims.filter((one) => one !== undefined).length, 1);
  const owner = ["a", "b", "c", "d"][claims.findIndex((one) => one !== undefined)] as string;
  assert.deepEqual(await renewBuilds(db, owner, [revisionId], -1_000), []);
  assert.ok(await takeAbandonedBuild(db, revisionId, { owner: "e", leaseMs: 60_000 }));
  assert.deepEqual(
    await renewBuilds(db, owner, [revisionId], 60_000),
    [revisionId],
    "the old owner learns that it lost",
  );
  const end = { status: "succeeded", result: { failure: null, artifact: {} } } as const;
  assert.equal(await finishBuild(db, revisionId, { owner, ...end }), false);
  assert.equal(await finishBuild(db, revisionId, { owner: "e", ...end }), true);
  assert.equal(await finishBuild(db, revisionId, { owner: "e", ...end }), false, "only once");
});

eachDatabase("a finished build does not restart when a late pass still sees it as abandoned", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await awaitingBuild(db, world);
  const claim = (owner: string, leaseMs: number) =>
    claimBuild(db, { id: revisionId, deploymentId: id }, { owner, leaseMs, deadlineAt: new Date(Date.now() + 60_000) });
  await claim("slow", -1_000);
  const result = { failure: null, artifact: { kind: "directory" } };
  assert.equal(await finishBuild(db, revisionId, { owner: "slow", status: "succeeded", result }), true);
  assert.equal(await claim("late", 60_000), undefined);
  const state = await readDeploymentState(db, id);
  assert.deepEqual(
    state?.builds.map(({ status, attempts }) => ({ status, attempts })),
    [{ status: "succeeded", attempts: 1 }],
  );
});

eachDatabase("records a failed build even when its last output is not valid Unicode", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await awaitingBuild(db, world);
  const deadlineAt = new Date(Date.now() + 60_000);
  await claimBuild(db, { id: revisionId, deploymentId: id }, { owner: "a", leaseMs: 60_000, deadlineAt });
  // As if a line was cut at 400 characters, in the middle of a surrogate pair.
  const failure = `Last lines:\n${"x".repeat(399)}\u{1f600}`.slice(0, -1);
  const end = { owner: "a", status: "failed", result: { failure, artifact: null } } as const;
  assert.equal(await finishBuild(db, revisionId, end), true);
  const state = await readDeploymentState(db, id);
  assert.equal(state?.builds[0]?.failure, `${failure.slice(0, -1)}\ufffd`);
});

eachDatabase(
  "a server that stops cleanly releases its build at once, with its full time limit and without counting an attempt",
  async (db) => {
    const world = await makeWorld(db);
    const { id, revisionId } = await awaitingBuild(db, world);
    const at = { id: revisionId, deploymentId: id };
    const deadlineAt = new Date(Date.now() + 60_000);
    await claimBuild(db, at, { owner: "a", leaseMs: 60_000, deadlineAt });
    await releaseBuilds(db, "a");
    const later = new Date(deadlineAt.getTime() + 50_000);
    assert.ok(await claimBuild(db, at, { owner: "b", leaseMs: 60_000, deadlineAt: later }));
    assert.equal(await claimBuild(db, at, { owner: "c", leaseMs: 60_000, deadlineAt }), undefined);
    const state = await readDeploymentState(db, id);
    assert.equal(state?.builds[0]?.attempts, 1);
    assert.equal(Date.parse(state?.unsettled[0]?.deadline_at ?? ""), later.getTime());
  },
);

eachDatabase(
  "log lines are read in pages that neither skip nor repeat, filtered by level, text and time",
  async (db) => {
    const world = await makeWorld(db);
    const { id, revisionId } = await makeDeployment(db, world);
    const levels = ["DEBUG", "INFO", "WARNING", "ERROR"] as const;
    const entries = Array.from({ length: 40 }, (_, index) => ({
      deployment_id: id,
      revision_id: revisionId,
      kind: "build" as const,
      replica_id: null,
      stream: "stdout",
      level: levels[index % 4] ?? "INFO",
      logged_at: new Date(1_700_000_000_000 + index * 1_000),
      message: `line ${index}\u0000 100%_`,
      line_key: null,
    }));
    await appendLogEntries(db, entries);
    const filter = {
      deploymentId: id,
      revisionId,
      kind: "build",
      order: "asc",
      limit: 7,
      afterId: null,
      levelMin: null,
      query: null,
      startAt: null,
      endAt: null,
    } as const;
    const read: string[] = [];
    for (let afterId: number | null = null; ; ) {
      const { rows: page } = await readLogEntries(db, { ...filter, afterId });
      read.push(...page.map((entry) => entry.message));
      afterId = page.at(-1)?.id ?? null;
      if (page.length < 7) break;
    }
    assert.deepEqual(
      read,
      entries.map((_, index) => `line ${index} 100%_`),
    );
    const messages = async (changed: object) =>
      (await readLogEntries(db, { ...filter, limit: 100, ...changed })).rows.map((entry) => entry.message);
    assert.equal((await messages({ levelMin: "WARNING" })).length, 20);
    assert.deepEqual(await messages({ query: "LINE 39" }), ["line 39 100%_"]);
    assert.equal((await messages({ query: "%_%" })).length, 0, "the query is literal text, not a pattern");
    assert.equal((await messages({ startAt: new Date(1_700_000_038_000) })).length, 2, "the start is inclusive");
    assert.equal((await messages({ order: "desc" }))[0], "line 39 100%_");
  },
);

eachDatabase("stores a replica's log line once, and only from the listener that runs the replica", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  const line = {
    deployment_id: id,
    revision_id: revisionId,
    replica_id: "r",
    key: "r/0",
    timestamp: new Date().toISOString(),
    stream: "stdout" as const,
    level: "warn",
    message: "hello",
  };
  const { signal } = new AbortController();
  await appendReplicaLog(db, { listenerId: world.listenerId, lines: [line], signal });
  await appendReplicaLog(db, { listenerId: world.listenerId, lines: [line], signal });
  await appendReplicaLog(db, { listenerId: id, lines: [{ ...line, key: "other" }], signal });
  const { rows } = await db.query<{ level: number }>(sql`select level from log_entries where deployment_id = ${id}`);
  assert.deepEqual(rows, [{ level: 30 }]);
});

eachDatabase("stores a whole batch of lines once and in order, even if its sender has disconnected", async (db) => {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  const lines = Array.from({ length: 1_000 }, (_, index) => ({
    deployment_id: id,
    revision_id: revisionId,
    replica_id: "r",
    key: `r/${index}`,
    timestamp: new Date().toISOString(),
    stream: "stdout" as const,
    level: "INFO",
    message: `line ${index}`,
  }));
  const { listenerId } = world;
  await appendReplicaLog(db, { listenerId, lines, signal: AbortSignal.abort() });
  await appendReplicaLog(db, { listenerId, lines, signal: new AbortController().signal });
  const { rows } = await db.query<{ message: string }>(sql`
    select message from log_entries where deployment_id = ${id} order by id`);
  assert.deepEqual(
    rows.map(({ message }) => message),
    lines.map(({ message }) => message),
  );
});

eachDatabase("resync finds only the deployment whose change was lost", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  await makeDeployment(db, world);
  assert.deepEqual(await findUnqueuedDeployments(db, 10), []);
  await db.query(sql`update reconcile_queue set run_at = null where deployment_id = ${id}`);
  assert.deepEqual(await findUnqueuedDeployments(db, 10), [id]);
});

async function awaitingBuild(db: Db, world: World): Promise<{ id: string; revisionId: string }> {
  const made = await makeDeployment(db, world);
  const at = { id: made.revisionId, deploymentId: made.id };
  await moveRevision(db, at, { from: "CREATING", to: "QUEUED", because: "test", deadlineAt: null });
  await moveRevision(db, at, { from: "QUEUED", to: "AWAITING_BUILD", because: "test", deadlineAt: null });
  return made;
}

function assignment(world: World, id: string) {
  return {
    seen: 0,
    deployment_id: id,
    tenant_id: world.tenantId,
    listener_id: world.listenerId,
    slug: id,
    op: "apply" as const,
    target: null,
    serving: null,
    idle_after_ms: null,
  };
}

function report(id: string, seq: number): DeploymentReport {
  return {
    deployment_id: id,
    generation: 1,
    seq,
    target_revision_id: null,
    target_phase: "none",
    serving_revision_id: null,
    asleep: false,
    deleted: false,
    server_version: null,
    cause: null,
    replicas: [],
  };
}
