import assert from "node:assert/strict";
import { latencyBoundsMs } from "../../src/contract/logs/metrics.ts";
import {
  changeAlertRule,
  listAlerts,
  muteAlerts,
  readAlertFacts,
  recordAlerts,
} from "../../src/store/alerts/alerts.ts";
import { openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import { addMetricSamples } from "../../src/store/data-plane/metric-minutes.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { trimOlder } from "../../src/store/maintenance/retention.ts";
import { evaluateAlerts } from "../../src/webhooks/alert-worker.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld } from "./fixtures.ts";

async function ownerIn(db: Db) {
  const world = await makeWorld(db);
  const { rows } = await db.query<{ id: string }>(sql`
    select organization_id as id from workspaces where id = ${world.tenantId}`);
  return { world, owner: { organizationId: rows[0]?.id ?? "", tenantId: world.tenantId, actor: "test" } };
}

/** A deployment for which one rule holds while `holds` is set. */
async function watched(db: Db) {
  const { world, owner } = await ownerIn(db);
  const { id } = await makeDeployment(db, world);
  const firing = { tenantId: world.tenantId, deploymentId: id, kind: "failed", message: "Failed." } as const;
  return {
    mute: (until: string | null) => muteAlerts(db, owner, id, until),
    evaluate: (holds: boolean) => recordAlerts(db, holds ? [firing] : []),
    states: async () =>
      (await listAlerts(db, world.tenantId, { state: null, limit: 10, offset: 0 })).map(({ state }) => state),
    events: async () => {
      const { rows } = await db.query<{ kind: string }>(sql`
        select kind from events where deployment_id = ${id} and kind like 'alert.%' order by id`);
      return rows.map(({ kind }) => kind);
    },
  };
}

const future = new Date(Date.now() + 3_600_000).toISOString();
const past = new Date(Date.now() - 1_000).toISOString();

eachDatabase("an alert that begins during a mute fires once when the mute ends", async (db) => {
  const { mute, evaluate, events, states } = await watched(db);
  await mute(future);
  await evaluate(true);
  await evaluate(true);
  assert.deepEqual([await states(), await events()], [["firing"], []]);
  await mute(past);
  await Promise.all([evaluate(true), evaluate(true)]);
  await evaluate(true);
  assert.deepEqual(await events(), ["alert.firing"]);
  await evaluate(false);
  assert.deepEqual([await states(), await events()], [["resolved"], ["alert.firing", "alert.resolved"]]);
});

eachDatabase("an alert that fired before a mute is resolved during it", async (db) => {
  const { mute, evaluate, events } = await watched(db);
  await evaluate(true);
  await mute(future);
  await evaluate(true);
  assert.deepEqual(await events(), ["alert.firing"]);
  await evaluate(false);
  await evaluate(false);
  assert.deepEqual(await events(), ["alert.firing", "alert.resolved"]);
});

eachDatabase("an alert that begins and ends during a mute writes no event, also after the mute", async (db) => {
  const { mute, evaluate, events, states } = await watched(db);
  await mute(future);
  await evaluate(true);
  await evaluate(false);
  await mute(null);
  await evaluate(false);
  assert.deepEqual([await states(), await events()], [["resolved"], []]);
});

eachDatabase("latencies are read only for workspaces whose latency rule is on", async (db) => {
  const { world, owner } = await ownerIn(db);
  const { id } = await makeDeployment(db, world);
  const session = await openListenerSession(db, world.listenerId, { instanceId: "a", version: "1", leaseMs: 60_000 });
  const latencies = [...latencyBoundsMs.map((bound) => (bound === 10_000 ? 20 : 0)), 0];
  await addMetricSamples(db, session, [
    {
      ...{ deployment_id: id, at: new Date().toISOString(), interval_ms: 60_000, replicas: 1 },
      ...{ cpu_cores: null, memory_mib: null, restarts: 0, requests: 20, errors: 0, latency_counts: latencies },
    },
  ]);
  assert.deepEqual(await readAlertFacts(db, []), [], "no rule can hold");
  assert.deepEqual(
    (await readAlertFacts(db, [world.tenantId])).map(({ requests, latencyCounts }) => [requests, latencyCounts]),
    [[20, latencies]],
  );
  assert.equal(await evaluateAlerts(db), 0);
  const change = { kind: "latency_p95", threshold: null, isOnByDefault: false } as const;
  await changeAlertRule(db, owner, { ...change, enabled: null });
  assert.equal(await evaluateAlerts(db), 0, "the change was empty");
  await changeAlertRule(db, owner, { ...change, enabled: true });
  assert.equal(await evaluateAlerts(db), 1);
});

eachDatabase("resolved alerts are deleted after their days, firing ones stay", async (db) => {
  const { evaluate, states } = await watched(db);
  await evaluate(true);
  await evaluate(false);
  await db.query(sql`update alerts set resolved_at = now() - interval '31 days', since = now() - interval '32 days'`);
  await evaluate(true);
  await db.query(sql`update alerts set since = now() - interval '31 days' where state = 'firing'`);
  assert.equal(await trimOlder(db, "alerts", { days: 30 }, new AbortController().signal), 1);
  assert.deepEqual(await states(), ["firing"]);
});

eachDatabase("a queue counts with its shortest length in ten minutes, once enough minutes are measured", async (db) => {
  const { world } = await ownerIn(db);
  const { id } = await makeDeployment(db, world);
  const session = await openListenerSession(db, world.listenerId, { instanceId: "a", version: "1", leaseMs: 60_000 });
  const latency_counts = new Array(latencyBoundsMs.length + 1).fill(0);
  const sample = (minutesAgo: number, runs_waiting: number | null) => ({
    ...{ deployment_id: id, at: new Date(Date.now() - minutesAgo * 60_000).toISOString(), interval_ms: 60_000 },
    ...{ replicas: 1, cpu_cores: null, memory_mib: null, restarts: 0, requests: 0, errors: 0, latency_counts },
    runs_waiting,
  });
  const queued = async () => (await readAlertFacts(db, [])).map(({ queuedRuns }) => queuedRuns);
  await addMetricSamples(
    db,
    session,
    [1, 2, 3, 4, 5, 6, 7].map((minutes) => sample(minutes, 90)),
  );
  assert.deepEqual(await queued(), [], "too few minutes");
  await addMetricSamples(db, session, [sample(8, 60)]);
  assert.deepEqual(await queued(), [60]);
  await addMetricSamples(db, session, [sample(0, 0)]);
  assert.deepEqual(await queued(), []);
});
