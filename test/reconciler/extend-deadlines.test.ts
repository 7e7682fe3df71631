import assert from "node:assert/strict";
import { awaitingBuildTimeoutMs, resolveTimeoutMs } from "../../src/domain/limits.ts";
import { ReconcilerLoop } from "../../src/reconciler/loop/loop.ts";
import { reconcileDeployment } from "../../src/reconciler/loop/reconcile.ts";
import { Slots } from "../../src/reconciler/slots.ts";
import { writeAssignment } from "../../src/store/data-plane/assignments.ts";
import { closeListenerSession, openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { makeDeployment, makeWorld } from "../store/fixtures.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { passDeps } from "./pass-deps.ts";

const never = new AbortController().signal;

/** Creates a revision with `leftMs` until its deadline. */
async function waiting(db: Db, status: string, leftMs: number) {
  const { id, revisionId } = await makeDeployment(db, await makeWorld(db));
  await db.query(sql`update deployments set status = 'READY' where id = ${id}`);
  const deadlineAt = new Date(db.now().getTime() + leftMs);
  await db.query(sql`
    update revisions set status = ${status}, status_since = now() - interval '1 hour', deadline_at = ${deadlineAt},
           source_config = source_config || '{"repo_url": "https://host.invalid/agent.git"}',
           source_revision_config = source_revision_config || '{"repo_ref": "main"}'
     where id = ${revisionId}`);
  const read = async () => {
    const { rows } = await db.query<{ status: string; deadline_at: Date }>(sql`
      select status, deadline_at from revisions where id = ${revisionId}`);
    return { status: rows[0]?.status, leftMs: Number(rows[0]?.deadline_at) - db.now().getTime() };
  };
  return { id, read };
}

const wait = { retryInMs: 500, because: "all build slots are taken" };
const builds = (hasFreeSlot: boolean) =>
  ({ isRunning: () => false, findWait: async () => (hasFreeSlot ? null : wait) }) as never;

eachDatabase("extends the deadline of a revision while all build slots are taken", async (db) => {
  const { id, read } = await waiting(db, "AWAITING_BUILD", 5_000);
  const outcome = await reconcileDeployment(passDeps(db, { builds: builds(false) }), id, never);
  assert.equal(outcome.because, "all build slots are taken");
  const after = await read();
  assert.equal(after.status, "AWAITING_BUILD");
  assert.ok(after.leftMs > awaitingBuildTimeoutMs / 2, "the deadline was extended");
  await reconcileDeployment(passDeps(db, { builds: builds(false) }), id, never);
  assert.ok((await read()).leftMs <= after.leftMs, "the deadline is not written again on every retry");
});

eachDatabase("fails a revision that no server has taken on before its deadline", async (db) => {
  const { id, read } = await waiting(db, "AWAITING_BUILD", -5_000);
  await reconcileDeployment(passDeps(db, { builds: builds(false) }), id, never);
  assert.equal((await read()).status, "BUILD_FAILED");
});

eachDatabase("extends the deadline of a revision while all slots for calls to other servers are taken", async (db) => {
  const { id, read } = await waiting(db, "CREATING", 5_000);
  const outcome = await reconcileDeployment(passDeps(db, { outward: new Slots(0) }), id, never);
  assert.equal(outcome.because, "too many calls to other servers are in progress");
  const after = await read();
  assert.equal(after.status, "CREATING");
  assert.ok(after.leftMs > resolveTimeoutMs / 2, "the deadline was extended");
});

eachDatabase("extends deadlines by the time in which no server worked when the next one starts", async (db) => {
  const { id, read } = await waiting(db, "AWAITING_BUILD", -60_000);
  await db.query(sql`update clock set worked_at = now() - interval '2 minutes'`);
  const deps = passDeps(db, { builds: builds(false) });
  const loop = new ReconcilerLoop(deps, createMetrics().reconciler, { owner: "me", resyncIntervalMs: 3_600_000 });
  loop.start();
  const outcomes = async () => {
    const { rows } = await db.query<{ because: string }>(sql`
      select jsonb_array_elements(outcomes) ->> 'because' as because from reconcile_queue where deployment_id = ${id}`);
    return rows.map(({ because }) => because);
  };
  try {
    await eventually(outcomes, (all) => all.includes("all build slots are taken"), { what: "a pass" });
  } finally {
    await loop.stop();
  }
  assert.equal((await read()).status, "AWAITING_BUILD");
});

/** Creates a revision in DEPLOYING whose deadline has passed. */
async function overdueRollout(db: Db) {
  const world = await makeWorld(db);
  const { id, revisionId } = await makeDeployment(db, world);
  await db.query(sql`update deployments set status = 'READY' where id = ${id}`);
  await db.query(sql`
    update revisions set status = 'DEPLOYING', status_since = now() - interval '1 hour',
           deadline_at = now() - interval '1 second' where id = ${revisionId}`);
  await writeAssignment(db, {
    deployment_id: id,
    tenant_id: world.tenantId,
    listener_id: world.listenerId,
    slug: "a",
    op: "apply",
    seen: 0,
    target: { revision_id: revisionId } as never,
    serving: null,
    idle_after_ms: null,
  });
  return {
    openSession: () => openListenerSession(db, world.listenerId, { instanceId: "one", version: "1", leaseMs: 30_000 }),
    drain: (isWanted: boolean) =>
      db.query(sql`update listeners set drain = ${isWanted} where id = ${world.listenerId}`),
    pass: () => reconcileDeployment(passDeps(db), id, never),
    async read() {
      const { rows } = await db.query<{ status: string; status_message: string | null; left_ms: number }>(sql`
        select status, status_message, extract(epoch from deadline_at - now()) * 1000 as left_ms
          from revisions where id = ${revisionId}`);
      return { status: rows[0]?.status, message: rows[0]?.status_message, leftMs: Number(rows[0]?.left_ms) };
    },
  };
}

eachDatabase("a rollout waits for a listener that is away or draining, and then has its full time", async (db) => {
  const rollout = await overdueRollout(db);
  const { because } = await rollout.pass();
  assert.match(because, /listener does not act/);
  const whileAway = await rollout.read();
  assert.equal(whileAway.status, "DEPLOYING");
  assert.ok(whileAway.leftMs > 60_000, "the rollout has its full time again");
  await closeListenerSession(db, await rollout.openSession());
  await rollout.pass();
  assert.equal((await rollout.read()).status, "DEPLOYING");
  await rollout.openSession();
  await rollout.drain(true);
  await rollout.pass();
  assert.equal((await rollout.read()).status, "DEPLOYING");
});

eachDatabase("fails a rollout at its deadline when its listener is connected", async (db) => {
  const rollout = await overdueRollout(db);
  await rollout.openSession();
  await rollout.pass();
  assert.equal((await rollout.read()).status, "DEPLOY_FAILED");
});

eachDatabase("fails a rollout whose listener has been away for a day and names the listener", async (db) => {
  const rollout = await overdueRollout(db);
  await closeListenerSession(db, await rollout.openSession());
  await db.query(sql`update listeners set last_seen_at = now() - interval '25 hours'`);
  await rollout.pass();
  const { status, message } = await rollout.read();
  assert.equal(status, "DEPLOY_FAILED");
  assert.match(message ?? "", /listener of this deployment has not been connected for a day/);
});
