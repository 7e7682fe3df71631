import assert from "node:assert/strict";
import { test } from "node:test";
import { latencyBoundsMs, type MetricSample } from "../../src/contract/logs/metrics.ts";
import { openListenerSession } from "../../src/store/data-plane/listener-sessions.ts";
import { addMetricSamples } from "../../src/store/data-plane/metric-minutes.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
type Use = Pick<MetricSample, "cpu_cores" | "memory_mib">;
const unmeasured = { cpu_cores: null, memory_mib: null };

test("lists the replicas of the last report, with the number of their revision and the last exit", async () => {
  const { body } = await t.ask({
    method: "POST",
    url: "/v2/deployments",
    payload: {
      name: "replicated",
      source: "github",
      source_config: { repo_url: "https://github.com/acme/bot", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    },
  });
  const url = `/v2/deployments/${body.id}/replicas`;
  const none = (await t.ask({ url })).body;
  assert.deepEqual([none.replicas, none.reported_at, none.last_exit], [[], null, null]);
  const cause = {
    reason: "OutOfMemory",
    message: "It needed more than 512 MiB.",
    exit_code: null,
    signal: "SIGKILL",
    last_lines: [],
  };
  const replica = {
    replica_id: "replicated-1",
    revision_id: body.latest_revision_id,
    phase: "ready",
    address: "10.0.0.1:8000",
    restarts: 2,
    started_at: "2026-11-20T10:04:09.000Z",
    limits: { memory: "enforced", cpu: "enforced" },
  };
  const report = {
    deployment_id: body.id,
    generation: 1,
    seq: 1,
    asleep: false,
    cause,
    crash_streak: 2,
    replicas: [replica],
  };
  await t.db.query(sql`
    insert into observations (deployment_id, listener_id, epoch, seq, generation, report)
    values (${body.id}, ${t.deps.listenerId}, 1, 1, 1, ${JSON.stringify(report)}::jsonb)`);
  const found = (await t.ask({ url })).body;
  const measure = async (measured: Pick<MetricSample, "replicas" | "cpu_cores" | "memory_mib" | "replica_usage">) => {
    const latency_counts = new Array(latencyBoundsMs.length + 1).fill(0);
    const counts = { interval_ms: 60_000, restarts: 0, requests: 0, errors: 0, latency_counts };
    const session = await openListenerSession(t.db, t.deps.listenerId, {
      instanceId: "a",
      version: "1",
      leaseMs: 60_000,
    });
    const at = new Date().toISOString();
    await addMetricSamples(t.db, session, [{ deployment_id: body.id, at, ...counts, ...measured }]);
    return t.ask({ url });
  };
  assert.deepEqual(found.replicas, [
    {
      id: "replicated-1",
      revision_id: body.latest_revision_id,
      revision_number: 1,
      phase: "ready",
      started_at: "2026-11-20T10:04:09.000Z",
      restarts: 2,
      limits: { memory: "enforced", cpu: "enforced" },
      ...unmeasured,
    },
  ]);
  const use = { cpu_cores: 0.4, memory_mib: 90 };
  const { body: measured } = await measure({ replicas: 1, ...use });
  assert.deepEqual(measured.replicas[0], { ...found.replicas[0], ...use }, "one replica has the whole use");
  await t.db.query(sql`
    update observations set report = jsonb_set(report, '{replicas,1}', ${JSON.stringify({ ...replica, replica_id: "replicated-2" })}::jsonb)
     where deployment_id = ${body.id}`);
  const each = [{ replica_id: "replicated-2", cpu_cores: 0.1, memory_mib: 30 }];
  const { body: several } = await measure({ replicas: 2, ...use, replica_usage: each });
  assert.deepEqual(
    several.replicas.map(({ cpu_cores, memory_mib }: Use) => ({ cpu_cores, memory_mib })),
    [unmeasured, { cpu_cores: 0.1, memory_mib: 30 }],
  );
  assert.deepEqual([found.last_exit.reason, found.exits_in_a_row], ["OutOfMemory", 2]);
  assert.equal((await t.ask({ url, key: await t.mintKey({ tenant: t.stranger }) })).status, 404);
});
