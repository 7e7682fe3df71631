import assert from "node:assert/strict";
import { latencyBoundsMs, type ReplicaUse } from "../../src/contract/logs/metrics.ts";
import { addMetricSamples } from "../../src/store/data-plane/metric-minutes.ts";
import { sql } from "../../src/store/engine/sql.ts";
import type { TestServer } from "../support/server.ts";

/** The measurements of one minute. `slow`: the number of answers that took a second. The others took 50 to 100 ms. */
interface Minute {
  requests: number;
  errors: number;
  /** null: the host measures none. */
  cpu_cores: number | null;
  memory_mib: number | null;
  slow: number;
  input_tokens?: number;
  output_tokens?: number;
  replica_usage?: ReplicaUse[];
}

/** Writes past minutes of metrics and 10 future ones, because a slow test may open the charts later. */
export async function addMetrics(
  { server }: TestServer,
  deploymentId: string,
  minuteOf: (ago: number) => Minute,
  pastMinutes = 30,
): Promise<void> {
  const { rows } = await server.db.query<{ listenerId: string; epoch: number }>(sql`
    select id as "listenerId", epoch from listeners where builtin`);
  const [session] = rows;
  assert.ok(session !== undefined);
  const thisMinute = Math.floor(Date.now() / 60_000) * 60_000;
  const samples = Array.from({ length: pastMinutes + 10 }, (_, index) => {
    const { slow, ...minute } = minuteOf(index);
    const counts = latencyBoundsMs.map((bound) =>
      bound === 100 ? minute.requests - slow : bound === 1_000 ? slow : 0,
    );
    return {
      ...{
        deployment_id: deploymentId,
        at: new Date(thisMinute - (index - 10) * 60_000).toISOString(),
      },
      ...{ interval_ms: 60_000, replicas: 2, restarts: 0, latency_counts: [...counts, 0] },
      ...minute,
    };
  });
  await addMetricSamples(server.db, session, samples);
}
