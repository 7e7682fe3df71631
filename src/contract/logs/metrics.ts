import { type Static, Type } from "typebox";
import { metricsExample } from "../examples.ts";
import { given, nullable, timestamp, uuid } from "../schema.ts";

/** Upper bounds of the latency histogram: from a health check to a run that thinks for minutes. One more bucket is above. */
export const latencyBoundsMs = [
  5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
] as const;

const latencyCounts = Type.Array(Type.Integer({ minimum: 0 }), {
  minItems: latencyBoundsMs.length + 1,
  maxItems: latencyBoundsMs.length + 1,
  examples: [[212, 20, 5, 2, 1, ...new Array(latencyBoundsMs.length - 4).fill(0)]],
  description: "Answers by the bucket of their latency; the last one is above all bounds.",
});

/** What a listener saw of one deployment between two looks. Counts are of this interval, not since the start. */
export const MetricSample = Type.Object({
  deployment_id: uuid(),
  at: timestamp("End of the interval."),
  interval_ms: Type.Integer({ minimum: 1 }),
  replicas: Type.Integer({ minimum: 0 }),
  cpu_cores: nullable(Type.Number({ minimum: 0 })),
  memory_mib: nullable(Type.Number({ minimum: 0 })),
  restarts: Type.Integer({ minimum: 0 }),
  requests: Type.Integer({ minimum: 0 }),
  errors: Type.Integer({ minimum: 0 }),
  latency_counts: latencyCounts,
});
export type MetricSample = Static<typeof MetricSample>;

export const MetricBatch = Type.Object({ samples: Type.Array(MetricSample, { maxItems: 1_000 }) });
export type MetricBatch = Static<typeof MetricBatch>;

/** Samples are kept this long, one a minute. */
export const metricsRetentionDays = 7;

/** Points of one answer: a week in steps of ten minutes, or a day in steps of a minute and a half. */
export const metricPointsMax = 1_440;

export const MetricsQuery = Type.Object({
  start_time: given(timestamp(), "Default: an hour before the end."),
  end_time: given(timestamp(), "Default: now."),
  step_s: Type.Integer({
    minimum: 60,
    maximum: 86_400,
    default: 60,
    description: "Seconds that one point stands for.",
  }),
});
export type MetricsQuery = Static<typeof MetricsQuery>;

const quantile = (share: string) =>
  nullable(Type.Number(), `${share} of the answers came within this many milliseconds.`);

/** One step of the chart. Null: nothing was measured. */
export const MetricPoint = Type.Object(
  {
    at: timestamp("Begin of the step."),
    replicas: nullable(Type.Number(), "Running, on average."),
    cpu_cores: nullable(Type.Number(), "Of all replicas together, on average."),
    memory_mib: nullable(Type.Number(), "Of all replicas together, at most."),
    restarts: Type.Integer({ description: "Replicas that ended by themselves and were started again." }),
    requests: Type.Integer(),
    errors: Type.Integer({ description: "Answers of 500 and above, and requests without a whole answer." }),
    p50_ms: quantile("Half"),
    p95_ms: quantile("95 %"),
    p99_ms: quantile("99 %"),
  },
  { $id: "MetricPoint" },
);
export type MetricPoint = Static<typeof MetricPoint>;

export const DeploymentMetrics = Type.Object(
  { deployment_id: uuid(), step_s: Type.Integer(), points: Type.Array(MetricPoint, { description: "Oldest first." }) },
  { $id: "DeploymentMetrics", examples: [metricsExample] },
);
export type DeploymentMetrics = Static<typeof DeploymentMetrics>;
