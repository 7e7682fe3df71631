import { latencyBoundsMs, type MetricPoint } from "../contract/logs/metrics.ts";

/** The stored metrics of one minute of one deployment. */
export interface MetricMinute {
  at: Date;
  replicas: number;
  cpuCores: number | null;
  memoryMib: number | null;
  restarts: number;
  requests: number;
  errors: number;
  latencyCounts: number[];
  /** Null: the server reports no runs. */
  runsWaiting: number | null;
  runsRunning: number | null;
  runsFailed: number | null;
  runsRecovered: number | null;
  /** Null: the server reports no tokens. */
  inputTokens: number | null;
  outputTokens: number | null;
}

type Measured =
  | "cpuCores"
  | "memoryMib"
  | "runsWaiting"
  | "runsRunning"
  | "runsFailed"
  | "runsRecovered"
  | "inputTokens"
  | "outputTokens";

/**
 * Converts minutes to chart points: one per step from `from` to `to`, also for steps without a measurement.
 * @param minutes in any order, all within the range.
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
  const measured = (name: Measured) => minutes.map((minute) => minute[name]).filter((value) => value !== null);
  return {
    at: at.toISOString(),
    replicas: average(minutes.map(({ replicas }) => replicas)),
    cpu_cores: average(measured("cpuCores")),
    memory_mib: highest(measured("memoryMib")),
    restarts: sum(minutes.map(({ restarts }) => restarts)),
    requests: sum(minutes.map(({ requests }) => requests)),
    errors: sum(minutes.map(({ errors }) => errors)),
    p50_ms: quantileMs(latencies, 0.5),
    p95_ms: quantileMs(latencies, 0.95),
    p99_ms: quantileMs(latencies, 0.99),
    runs_waiting: highest(measured("runsWaiting")),
    runs_running: highest(measured("runsRunning")),
    runs_failed: total(measured("runsFailed")),
    runs_recovered: total(measured("runsRecovered")),
    input_tokens: total(measured("inputTokens")),
    output_tokens: total(measured("outputTokens")),
  };
}

/**
 * Returns the latency below which this share of the responses lies, interpolated within its bucket; null: no responses.
 * Above the last bound it returns that bound, because nothing more is known.
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
const total = (values: readonly number[]) => (values.length === 0 ? null : sum(values));
const highest = (values: readonly number[]) => (values.length === 0 ? null : rounded(Math.max(...values)));
const average = (values: readonly number[]) => (values.length === 0 ? null : rounded(sum(values) / values.length));
const rounded = (value: number) => Math.round(value * 1_000) / 1_000;
