import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { latencyBoundsMs } from "../../src/contract/logs/metrics.ts";
import { openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import { addMetricSamples } from "../../src/store/data-plane/metric-minutes.ts";
import { startApi } from "./harness.ts";

const t = await startApi();

async function make() {
  const payload = {
    name: `charted-${randomUUID()}`,
    source: "internal_docker",
    source_config: { deployment_type: "dev" },
    source_revision_config: {},
  };
  const { body } = await t.ask({ method: "POST", url: "/v2/deployments", payload });
  return { id: body.id as string, url: `/v2/deployments/${body.id}/metrics` };
}

test("charts have one point per step from the samples of listeners", async () => {
  const { id, url } = await make();
  const latency_counts = [4, ...new Array(latencyBoundsMs.length).fill(0)];
  const sample = { deployment_id: id, interval_ms: 60_000, restarts: 0, requests: 4, errors: 0, latency_counts };
  const runs = {
    runs_waiting: 7,
    runs_running: 3,
    runs_failed: 2,
    runs_recovered: 0,
    input_tokens: 5_000,
    output_tokens: 70,
  };
  const { listenerId } = t.deps;
  const session = await openListenerSession(t.db, listenerId, { instanceId: "a", version: "1", leaseMs: 60_000 });
  await addMetricSamples(t.db, session, [
    { ...sample, at: "2026-01-01T10:00:30Z", replicas: 2, cpu_cores: 0.5, memory_mib: 100, ...runs },
    { ...sample, at: "2026-01-01T10:01:30Z", replicas: 1, cpu_cores: 0.25, memory_mib: 90 },
  ]);
  const { status, body } = await t.ask({
    url: `${url}?start_time=2026-01-01T10:00:00Z&end_time=2026-01-01T10:04:00Z&step_s=120`,
  });
  assert.equal(status, 200);
  assert.deepEqual(body, {
    deployment_id: id,
    step_s: 120,
    points: [
      {
        at: "2026-01-01T10:00:00.000Z",
        replicas: 1.5,
        cpu_cores: 0.375,
        memory_mib: 100,
        restarts: 0,
        requests: 8,
        errors: 0,
        p50_ms: 2.5,
        p95_ms: 4.75,
        p99_ms: 4.95,
        runs_waiting: 7,
        runs_running: 3,
        runs_failed: 2,
        runs_recovered: 0,
        input_tokens: 5_000,
        output_tokens: 70,
      },
      {
        at: "2026-01-01T10:02:00.000Z",
        replicas: null,
        cpu_cores: null,
        memory_mib: null,
        restarts: 0,
        requests: 0,
        errors: 0,
        p50_ms: null,
        p95_ms: null,
        p99_ms: null,
        runs_waiting: null,
        runs_running: null,
        runs_failed: null,
        runs_recovered: null,
        input_tokens: null,
        output_tokens: null,
      },
    ],
  });
  assert.equal((await t.ask({ url })).body.points.length > 59, true, "the last hour, without a query");
});

test("rejects an invalid range, or one with too many points, and says what to change", async () => {
  const { url } = await make();
  const asked = async (query: string) => {
    const { status, body } = await t.ask({ url: `${url}?${query}` });
    return [status, body.detail];
  };
  const swapped = await asked("start_time=2026-01-02T00:00:00Z&end_time=2026-01-01T00:00:00Z");
  assert.equal(swapped[0], 400);
  assert.match(swapped[1], /'start_time' must be before 'end_time'/);
  const long = await asked("start_time=2026-01-01T00:00:00Z&end_time=2026-01-07T00:00:00Z");
  assert.equal(long[0], 400);
  assert.match(long[1], /'step_s' is too small: it gives more than 1440 points/);
  assert.equal((await asked("step_s=5"))[0], 422);
});

test("the traffic of a day has 24 hours for each deployment of the workspace, in the order of the request", async () => {
  const [busy, quiet] = [await make(), await make()];
  const latency_counts = [4, ...new Array(latencyBoundsMs.length).fill(0)];
  const sample = { deployment_id: busy.id, interval_ms: 60_000, restarts: 0, latency_counts };
  const { listenerId } = t.deps;
  const session = await openListenerSession(t.db, listenerId, { instanceId: "a", version: "1", leaseMs: 60_000 });
  const hour = Math.floor(t.db.now().getTime() / 3_600_000) * 3_600_000;
  const at = (hoursAgo: number, minute: number) =>
    new Date(hour - hoursAgo * 3_600_000 + minute * 60_000).toISOString();
  const levels = { replicas: 1, cpu_cores: null, memory_mib: null };
  await addMetricSamples(t.db, session, [
    { ...sample, ...levels, at: at(1, 5), requests: 3, errors: 1 },
    { ...sample, ...levels, at: at(1, 6), requests: 4, errors: 0 },
    { ...sample, ...levels, at: at(23, 0), requests: 9, errors: 9 },
    { ...sample, ...levels, at: at(24, 59), requests: 1, errors: 0 },
  ]);
  const ids = [quiet.id, randomUUID(), busy.id].join(",");
  const { status, body } = await t.ask({ url: `/v2/deployments/traffic?deployment_ids=${ids}` });
  assert.equal(status, 200);
  assert.equal(body.start_time, at(23, 0));
  const found = body.deployments.map((one: { deployment_id: string }) => one.deployment_id);
  assert.deepEqual(found, [quiet.id, busy.id]);
  const nothing = new Array(21).fill(0);
  assert.deepEqual(body.deployments[1].requests, [9, ...nothing, 7, 0]);
  assert.deepEqual(body.deployments[1].errors, [9, ...nothing, 1, 0]);
  const foreign = {
    url: `/v2/deployments/traffic?deployment_ids=${busy.id}`,
    key: await t.mintKey({ tenant: t.stranger }),
  };
  assert.deepEqual((await t.ask(foreign)).body.deployments, []);
});
