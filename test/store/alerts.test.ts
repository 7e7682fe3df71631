import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { latencyBoundsMs } from "../../src/contract/logs/metrics.ts";
import { listAlerts, muteAlert, muteAlerts, readAlertFacts, recordAlerts } from "../../src/store/alerts/alerts.ts";
import {
  changeAlertRule,
  changeDeploymentAlertRule,
  listDeploymentAlertRules,
  readRuleChanges,
} from "../../src/store/alerts/rules.ts";
import { readSubjectFacts, recordServerFacts } from "../../src/store/alerts/subject-facts.ts";
import { openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import { addMetricSamples } from "../../src/store/data-plane/metric-minutes.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { trimOlder } from "../../src/store/maintenance/retention.ts";
import { createApiKey, revokeApiKey } from "../../src/store/tenants/api-keys.ts";
import { evaluateAlerts } from "../../src/webhooks/alert-worker.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld } from "./fixtures.ts";

async function ownerIn(db: Db) {
  const world = await makeWorld(db);
  const { rows } = await db.query<{ id: string }>(sql`
    select organization_id as id from workspaces where id = ${world.tenantId}`);
  return { world, owner: { organizationId: rows[0]?.id ?? "", tenantId: world.tenantId, actor: "test" } };
}

const noSubject = { subjectId: null, subject: null };
const noLatency = { tenantIds: [], deploymentIds: [] };

/** A deployment for which one rule holds while `holds` is set. */
async function watched(db: Db) {
  const { world, owner } = await ownerIn(db);
  const { id } = await makeDeployment(db, world);
  const firing = {
    tenantId: world.tenantId,
    deploymentId: id,
    kind: "failed",
    ...noSubject,
    message: "Failed.",
  } as const;
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

eachDatabase(
  "a subject that is not a deployment is muted through one of its alerts, for its workspace only",
  async (db) => {
    const { world, owner } = await ownerIn(db);
    const firing = {
      ...{ tenantId: world.tenantId, deploymentId: null, subjectId: "s-1", subject: "host-1" },
      ...({ kind: "disk_used", message: "Full." } as const),
    } as const;
    const events = async () => {
      const { rows } = await db.query<{ kind: string }>(
        sql`select kind from events where kind like 'alert.%' order by id`,
      );
      return rows.map(({ kind }) => kind);
    };
    await recordAlerts(db, [firing]);
    await recordAlerts(db, []);
    const [alert] = await listAlerts(db, world.tenantId, { state: null, limit: 10, offset: 0 });
    await assert.rejects(muteAlert(db, { ...owner, tenantId: randomUUID() }, alert?.id ?? "", future), /not found/);
    await muteAlert(db, owner, alert?.id ?? "", future);
    await recordAlerts(db, [firing]);
    assert.deepEqual(
      await events(),
      ["alert.firing", "alert.resolved"],
      "the second one waits for the end of the mute",
    );
    await muteAlert(db, owner, alert?.id ?? "", null);
    await recordAlerts(db, [firing]);
    assert.deepEqual(await events(), ["alert.firing", "alert.resolved", "alert.firing"]);
  },
);

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
  assert.deepEqual(await readAlertFacts(db, noLatency), [], "no rule can hold");
  assert.deepEqual(
    (await readAlertFacts(db, { ...noLatency, tenantIds: [world.tenantId] })).map(({ requests, latencyCounts }) => [
      requests,
      latencyCounts,
    ]),
    [[20, latencies]],
  );
  assert.equal(await evaluateAlerts(db), 0);
  const change = { kind: "latency_p95", threshold: null, isOnByDefault: false } as const;
  await changeAlertRule(db, owner, { ...change, enabled: null });
  assert.equal(await evaluateAlerts(db), 0, "the change was empty");
  await changeAlertRule(db, owner, { ...change, enabled: true });
  assert.equal(await evaluateAlerts(db), 1);
});

eachDatabase("resolved alerts are deleted after their retention time, firing ones stay", async (db) => {
  const { evaluate, states } = await watched(db);
  await evaluate(true);
  await evaluate(false);
  await db.query(sql`update alerts set resolved_at = now() - interval '31 days', since = now() - interval '32 days'`);
  await evaluate(true);
  await db.query(sql`update alerts set since = now() - interval '31 days' where state = 'firing'`);
  assert.equal(await trimOlder(db, "alerts", { days: 30 }, new AbortController().signal), 1);
  assert.deepEqual(await states(), ["firing"]);
});

eachDatabase("the length of a queue is its minimum in ten minutes, once enough minutes are measured", async (db) => {
  const { world } = await ownerIn(db);
  const { id } = await makeDeployment(db, world);
  const session = await openListenerSession(db, world.listenerId, { instanceId: "a", version: "1", leaseMs: 60_000 });
  const latency_counts = new Array(latencyBoundsMs.length + 1).fill(0);
  const sample = (minutesAgo: number, runs_waiting: number | null) => ({
    ...{ deployment_id: id, at: new Date(Date.now() - minutesAgo * 60_000).toISOString(), interval_ms: 60_000 },
    ...{ replicas: 1, cpu_cores: null, memory_mib: null, restarts: 0, requests: 0, errors: 0, latency_counts },
    runs_waiting,
  });
  const queued = async () => (await readAlertFacts(db, noLatency)).map(({ queuedRuns }) => queuedRuns);
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

eachDatabase("a rule of a deployment is set, inherited again, and written only when it changes", async (db) => {
  const { world, owner } = await ownerIn(db);
  const { id } = await makeDeployment(db, world);
  const change = (values: object) => changeDeploymentAlertRule(db, owner, id, { kind: "restarts", ...values });
  const own = () => listDeploymentAlertRules(db, world.tenantId, id);
  await change({ enabled: null });
  assert.deepEqual(await own(), [], "it inherits already");
  await change({ threshold: 3 });
  await change({ enabled: false });
  await change({ enabled: false });
  assert.deepEqual(await own(), [{ kind: "restarts", enabled: false, threshold: 3 }]);
  await change({ enabled: null, threshold: null });
  assert.deepEqual(await own(), [{ kind: "restarts", enabled: null, threshold: null }]);
  assert.equal((await readRuleChanges(db)).deployments.length, 1);
  const { rows } = await db.query(sql`select 1 from audit_log where action = 'deployment.alert_rule'`);
  assert.equal(rows.length, 3);
  const other = { ...owner, tenantId: randomUUID() };
  const foreign = changeDeploymentAlertRule(db, other, id, { kind: "restarts", threshold: 1 });
  await assert.rejects(foreign, /not found/);
  await assert.rejects(listDeploymentAlertRules(db, other.tenantId, id), /not found/);
});

eachDatabase(
  "a key that expires soon and a full disk are alerts of the oldest workspace, until they are over",
  async (db) => {
    const { world, owner } = await ownerIn(db);
    const alerts = async () =>
      (await listAlerts(db, world.tenantId, { state: null, limit: 10, offset: 0 })).map(
        ({ kind, state, subject, deployment_id }) => `${kind} ${subject} ${state} ${deployment_id}`,
      );
    const { organizationId } = owner;
    const about = { organizationId, workspaceId: null, listenerId: null, name: "ci", role: "deployer" } as const;
    const expiresAt = new Date(db.now().getTime() + 5 * 86_400_000);
    const key = await createApiKey(db, { ...about, prefix: "pk", hash: Buffer.from("hash"), expiresAt }, "test");
    assert.equal(await evaluateAlerts(db), 0, "a key for five days is meant to expire");
    await db.query(sql`update api_keys set created_at = now() - interval '90 days'`);
    const disk = {
      server: "s-1",
      name: "host-1",
      diskSizeBytes: 1e11,
      diskFreeBytes: 1e9,
      certificates: [],
      hosts: [],
    };
    await recordServerFacts(db, disk);
    assert.equal(await evaluateAlerts(db), 2);
    assert.equal(await evaluateAlerts(db), 0, "nothing changed");
    assert.deepEqual((await alerts()).toSorted(), ["disk_used host-1 firing null", "key_expiry ci firing null"]);
    const { rows } = await db.query<{ data: object; deployment_id: string | null }>(sql`
    select data - 'alert_id' - 'message' as data, deployment_id from events where kind = 'alert.firing' order by id desc`);
    const event = { data: { rule: "key_expiry", state: "firing", subject: "ci" }, deployment_id: null };
    assert.deepEqual(rows[0], event);
    await recordServerFacts(db, { ...disk, diskFreeBytes: 9e10 });
    await revokeApiKey(db, { organizationId: null, workspaceId: null }, key.id, "test");
    assert.equal(await evaluateAlerts(db), 2);
    assert.deepEqual((await alerts()).toSorted(), ["disk_used host-1 resolved null", "key_expiry ci resolved null"]);
    await db.query(sql`update server_facts set measured_at = now() - interval '11 minutes'`);
    assert.deepEqual((await readSubjectFacts(db, 7)).servers, [], "a stopped server has no disk");
  },
);

eachDatabase("a restarted server keeps the certificates of its hosts until it reads them again", async (db) => {
  const own = { server: "s-1", name: "host-1", diskSizeBytes: 1e11, diskFreeBytes: 9e10 };
  const record = async (hosts: string[], read: Record<string, string>) => {
    const certificates = Object.entries(read).map(([host, expires_at]) => ({ host, expires_at }));
    await recordServerFacts(db, { ...own, hosts, certificates });
    const [server] = (await readSubjectFacts(db, 7)).servers;
    return Object.fromEntries((server?.certificates ?? []).map(({ host, expires_at }) => [host, expires_at]));
  };
  await makeWorld(db);
  assert.deepEqual(await record(["a", "b"], {}), {});
  assert.deepEqual(await record(["a", "b"], { a: "2026-12-01", b: "2026-12-02" }), {
    a: "2026-12-01",
    b: "2026-12-02",
  });
  assert.deepEqual(await record(["a", "b"], {}), { a: "2026-12-01", b: "2026-12-02" });
  assert.deepEqual(await record(["a"], { a: "2027-03-01" }), { a: "2027-03-01" }, "b is no address of it any more");
});
