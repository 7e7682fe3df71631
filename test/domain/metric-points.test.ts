import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { latencyBoundsMs } from "../../src/contract/logs/metrics.ts";
import { type MetricMinute, metricPoints, quantileMs } from "../../src/domain/metric-points.ts";

const histogram = (counts: Record<number, number>) =>
  Array.from({ length: latencyBoundsMs.length + 1 }, (_, bucket) => counts[bucket] ?? 0);

const minute = (at: string, changed: Partial<MetricMinute> = {}): MetricMinute => ({
  at: new Date(at),
  replicas: 1,
  cpuCores: 0.5,
  memoryMib: 100,
  restarts: 0,
  requests: 10,
  errors: 1,
  latencyCounts: histogram({ 3: 10 }),
  runsWaiting: null,
  runsRunning: null,
  runsFailed: null,
  runsRecovered: null,
  inputTokens: null,
  outputTokens: null,
  ...changed,
});

test("a quantile lies within its bucket and grows with its share", () => {
  assert.equal(quantileMs(histogram({}), 0.5), null);
  assert.equal(quantileMs(histogram({ 0: 10 }), 0.5), 2.5);
  assert.equal(quantileMs(histogram({ 0: 50, 4: 50 }), 0.5), 5);
  assert.equal(quantileMs(histogram({ [latencyBoundsMs.length]: 1 }), 0.99), latencyBoundsMs.at(-1));
  fc.assert(
    fc.property(fc.array(fc.nat(1_000), { minLength: 15, maxLength: 15 }), (counts) => {
      const [half, most, nearly] = [0.5, 0.95, 0.99].map((share) => quantileMs(counts, share));
      if (counts.every((count) => count === 0)) return half === null;
      return (half as number) <= (most as number) && (most as number) <= (nearly as number);
    }),
  );
});

test("returns a point per step: sums of counts, averages or maxima of levels, null without data", () => {
  const points = metricPoints(
    [
      minute("2026-01-01T00:00:00Z", { cpuCores: 0.2, memoryMib: 100 }),
      minute("2026-01-01T00:04:00Z", { cpuCores: 0.4, memoryMib: 300, restarts: 2 }),
      minute("2026-01-01T00:11:00Z", { cpuCores: null, memoryMib: null, requests: 0, latencyCounts: histogram({}) }),
    ],
    { from: new Date("2026-01-01T00:00:00Z"), to: new Date("2026-01-01T00:15:00Z"), stepS: 300 },
  );
  assert.deepEqual(
    points.map(({ at, replicas, cpu_cores, memory_mib, restarts, requests, errors, p50_ms }) => [
      at,
      replicas,
      cpu_cores,
      memory_mib,
      restarts,
      requests,
      errors,
      p50_ms,
    ]),
    [
      ["2026-01-01T00:00:00.000Z", 1, 0.3, 300, 2, 20, 2, 37.5],
      ["2026-01-01T00:05:00.000Z", null, null, null, 0, 0, 0, null],
      ["2026-01-01T00:10:00.000Z", 1, null, null, 0, 0, 1, null],
    ],
  );
});
