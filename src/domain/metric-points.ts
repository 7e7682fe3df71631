import { latencyBoundsMs, type MetricPoint } from "../contract/logs/metrics.ts";

/** One minute of one deployment, as it is kept. */
export interface MetricMinute {
  at: Date;
  replicas: number;
  cpuCores: number | null;
  memoryMib: number | null;
  restarts: number;
  requests: number;
  errors: number;
  latencyCounts: number[];
}

/**
 * Minutes as points of a chart: one for each step from `from` to `to`, also where nothing was measured.
 * @param minutes in any order, all of them within the range.
 */
export function metricPoints(minutes: MetricMinute[], range: { from: Date; to: Date; stepS: number }): MetricPoint[] {
  const stepMs = range.stepS * 1_000;
  const first = Math.floor(range.from.getTime() / stepMs);
  const count = Math.max(0, Math.ceil(range.to.getTime() / stepMs) - first);
  const steps = Array.from({ length: count }, (): MetricMinute[] => []);
  for (const minute of minutes) steps[Math.floor(minute.at.getTime() / stepMs) - first]?.push(minute);
  return steps.map((within, index) => pointOf(within, new Date((first + index) * stepMs)));
}

function pointOf(minutes: MetricMinute[], at: Date): MetricPoint {
  const latencies = latencyBoundsMs
    .map((_, bucket) => sum(minutes.map(({ latencyCounts }) => latencyCounts[bucket] ?? 0)))
    .concat(sum(minutes.map(({ latencyCounts }) => latencyCounts[latencyBoundsMs.length] ?? 0)));
  const measured = <K extends "cpuCores" | "memoryMib">(name: K) =>
    minutes.map((minute) => minute[name]).filter((value) => value !== null);
  return {
    at: at.toISOString(),
    replicas: average(minutes.map(({ replicas }) => replicas)),
    cpu_cores: average(measured("cpuCores")),
    memory_mib: measured("memoryMib").length === 0 ? null : rounded(Math.max(...measured("memoryMib"))),
    restarts: sum(minutes.map(({ restarts }) => restarts)),
    requests: sum(minutes.map(({ requests }) => requests)),
    errors: sum(minutes.map(({ errors }) => errors)),
    p50_ms: quantileMs(latencies, 0.5),
    p95_ms: quantileMs(latencies, 0.95),
    p99_ms: quantileMs(latencies, 0.99),
  };
}

/**
 * The latency below which this share of the answers came, interpolated within its bucket; null: no answers. Above the
 * last bound all that is known is that bound.
 */
export function quantileMs(counts: readonly number[], share: number): number | null {
  const total = sum(counts);
  if (total === 0) return null;
  const wanted = share * total;
  let before = 0;
  for (const [bucket, count] of counts.entries()) {
    if (before + count >= wanted && count > 0) {
      const low = latencyBoundsMs[bucket - 1] ?? 0;
      const high = latencyBoundsMs[bucket] ?? low;
      return rounded(low + ((high - low) * (wanted - before)) / count);
    }
    before += count;
  }
  return latencyBoundsMs.at(-1) ?? null;
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const average = (values: readonly number[]) => (values.length === 0 ? null : rounded(sum(values) / values.length));
const rounded = (value: number) => Math.round(value * 1_000) / 1_000;
