import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import type { ApiError } from "../../src/contract/error.ts";
import { latencyBoundsMs, type MetricSample } from "../../src/contract/logs/metrics.ts";
import { openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import { addMetricSamples, readLatestMetrics, readMetricMinutes } from "../../src/store/data-plane/metric-minutes.ts";
import type { Db } from "../../src/store/engine/database.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { trimOlder } from "../../src/store/maintenance/retention.ts";
import { eachDatabase } from "../support/database.ts";
import { makeDeployment, makeWorld } from "./fixtures.ts";

const counts = (fast: number, slow: number) => [fast, ...new Array(latencyBoundsMs.length - 1).fill(0), slow];

const sample = (deploymentId: string, at: string, changed: Partial<MetricSample> = {}): MetricSample => ({
  deployment_id: deploymentId,
  at,
  interval_ms: 60_000,
  replicas: 1,
  cpu_cores: 0.25,
  memory_mib: 128,
  restarts: 0,
  requests: 3,
  errors: 1,
  latency_counts: counts(2, 1),
  runs_waiting: 2,
  runs_running: 1,
  runs_failed: 1,
  ...changed,
});

const openSession = (db: Db, listenerId: string) =>
  openListenerSession(db, listenerId, { instanceId: "a", version: "1", leaseMs: 60_000 });

eachDatabase("stores the other samples when an agent reports an absurd number of runs", async (db) => {
  const world = await makeWorld(db);
  const [odd, other] = [await makeDeployment(db, world), await makeDeployment(db, world)];
  const session = await openSession(db, world.listenerId);
  const absurd = { runs_waiting: Number.MAX_SAFE_INTEGER, runs_failed: Number.MAX_SAFE_INTEGER };
  await addMetricSamples(db, session, [
    sample(odd.id, "2026-01-01T10:00:10Z", absurd),
    sample(other.id, "2026-01-01T10:00:10Z"),
  ]);
  await addMetricSamples(db, session, [sample(odd.id, "2026-01-01T10:00:20Z", absurd)]);
  const range = { from: new Date("2026-01-01T10:00:00Z"), to: new Date("2026-01-01T10:01:00Z") };
  const runsOf = async (id: string) =>
    (await readMetricMinutes(db, id, range)).map(({ runsWaiting, runsFailed }) => [runsWaiting, runsFailed]);
  assert.deepEqual(await runsOf(other.id), [[2, 1]]);
  assert.deepEqual(await runsOf(odd.id), [[2_147_483_647, 2_147_483_647]]);
});

eachDatabase("the newest minute of a deployment has the tokens that its agent reported", async (db) => {
  const world = await makeWorld(db);
  const [counted, other] = [await makeDeployment(db, world), await makeDeployment(db, world)];
  const session = await openSession(db, world.listenerId);
  const now = new Date().toISOString();
  await addMetricSamples(db, session, [
    sample(counted.id, now, { input_tokens: 900, output_tokens: 40 }),
    sample(other.id, now),
  ]);
  const latest = await readLatestMetrics(db);
  const tokensOf = (id: string) => {
    const found = latest.find(({ deploymentId }) => deploymentId === id);
    return [found?.inputTokens, found?.outputTokens];
  };
  assert.deepEqual(tokensOf(counted.id), [900, 40]);
  assert.deepEqual(tokensOf(other.id), [null, null]);
});

eachDatabase("samples of one minute are one row, and only the listener's newest session adds to it", async (db) => {
  const world = await makeWorld(db);
  const { id } = await makeDeployment(db, world);
  const { listenerId } = world;
  const session = await openSession(db, listenerId);
  await addMetricSamples(db, session, [sample(id, "2026-01-01T10:00:59Z"), sample(id, "2026-01-01T10:01:10Z")]);
  const next = sample(id, "2026-01-01T10:01:40.123Z", {
    cpu_cores: null,
    memory_mib: 200,
    restarts: 1,
    latency_counts: counts(5, 0),
    runs_waiting: 5,
    runs_failed: 2,
    runs_recovered: 1,
    input_tokens: 900,
    output_tokens: 40,
  });
  await addMetricSamples(db, session, [next]);
  // A listener without a response sends the samples again, with later ones.
  await addMetricSamples(db, session, [next, sample(id, "2026-01-01T10:02:10Z", { requests: 0, replicas: 2 })]);
  const late = [sample(id, "2026-01-01T10:01:50Z")];
  const { rows } = await db.query<{ id: string }>(sql`
    insert into listeners (id, tenant_id, compute_type, compute_id, compute_config)
    values (${randomUUID()}, ${world.tenantId}, 'k8s', 'another', '{}') returning id`);
  await addMetricSamples(db, await openSession(db, rows[0]?.id ?? ""), late);
  const { epoch } = session;
  for (const stale of [
    { listenerId, epoch: epoch - 1 },
    { listenerId: randomUUID(), epoch },
  ]) {
    await assert.rejects(addMetricSamples(db, stale, late), ({ code }: ApiError) => code === "staleEpoch");
  }
  const range = { from: new Date("2026-01-01T10:00:00Z"), to: new Date("2026-01-01T10:02:00Z") };
  assert.deepEqual(
    (await readMetricMinutes(db, id, range)).map(({ at, ...rest }) => ({ at: at.toISOString(), ...rest })),
    [
      {
        at: "2026-01-01T10:00:00.000Z",
        replicas: 1,
        cpuCores: 0.25,
        memoryMib: 128,
        restarts: 0,
        requests: 3,
        errors: 1,
        latencyCounts: counts(2, 1),
        runsWaiting: 2,
        runsRunning: 1,
        runsFailed: 1,
        runsRecovered: null,
        inputTokens: null,
        outputTokens: null,
      },
      {
        at: "2026-01-01T10:01:00.000Z",
        replicas: 1,
        cpuCores: 0.25,
        memoryMib: 200,
        restarts: 1,
        requests: 6,
        errors: 2,
        latencyCounts: counts(7, 1),
        runsWaiting: 5,
        runsRunning: 1,
        runsFailed: 3,
        runsRecovered: 1,
        inputTokens: 900,
        outputTokens: 40,
      },
    ],
  );
  assert.equal(await trimOlder(db, "metric_minutes", { days: 7 }, new AbortController().signal), 3);
  assert.deepEqual(await readMetricMinutes(db, id, range), []);
});
