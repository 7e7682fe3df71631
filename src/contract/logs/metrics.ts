import { type Static, Type } from "typebox";
import { metricsExample } from "../examples.ts";
import { nullable, optional, timestamp, uuid } from "../schema.ts";

/** Upper bounds of the latency histogram, from health checks to runs of several minutes. One more bucket is above them. */
export const latencyBoundsMs = [
  5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000, 300_000,
] as const;

const latencyCounts = Type.Array(Type.Integer({ minimum: 0 }), {
  minItems: latencyBoundsMs.length + 1,
  maxItems: latencyBoundsMs.length + 1,
  examples: [[212, 20, 5, 2, 1, ...new Array(latencyBoundsMs.length - 4).fill(0)]],
  description: "Number of responses in each latency bucket. The last bucket is above all bounds.",
});

/** CPU and memory of one replica in an interval. */
export const ReplicaUse = Type.Object({
  replica_id: Type.String({ maxLength: 512 }),
  cpu_cores: Type.Number({ minimum: 0 }),
  memory_mib: Type.Number({ minimum: 0 }),
});
export type ReplicaUse = Static<typeof ReplicaUse>;

/** Measurements of one deployment by its listener in one interval. The counts are those of the interval, not totals. */
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
  runs_waiting: optional(nullable(Type.Integer({ minimum: 0 })), "null or absent: the server reports no runs."),
  runs_running: optional(nullable(Type.Integer({ minimum: 0 }))),
  runs_failed: optional(nullable(Type.Integer({ minimum: 0 }))),
  runs_recovered: optional(nullable(Type.Integer({ minimum: 0 }))),
  input_tokens: optional(nullable(Type.Integer({ minimum: 0 })), "null or absent: the server reports no tokens."),
  output_tokens: optional(nullable(Type.Integer({ minimum: 0 }))),
  replica_usage: optional(
    nullable(Type.Array(ReplicaUse, { maxItems: 10_000 })),
    "Use of each replica, where several run. null or absent: one replica, or nothing was measured.",
  ),
});
export type MetricSample = Static<typeof MetricSample>;

export const MetricBatch = Type.Object({ samples: Type.Array(MetricSample, { maxItems: 1_000 }) });
export type MetricBatch = Static<typeof MetricBatch>;

/** Samples are stored for this long, one a minute. */
export const metricsRetentionDays = 7;

/** Maximum points of one response: a day in steps of one minute. */
export const metricPointsMax = 1_440;

export const MetricsQuery = Type.Object({
  start_time: optional(timestamp(), "Default: an hour before the end."),
  end_time: optional(timestamp(), "Default: now."),
  step_s: Type.Integer({
    minimum: 60,
    maximum: 86_400,
    default: 60,
    description: "Seconds between two points.",
  }),
});
export type MetricsQuery = Static<typeof MetricsQuery>;

const quantile = (share: string) =>
  nullable(Type.Number(), `${share} of the responses took at most this many milliseconds.`);

/** One step of a chart. Null: nothing was measured. */
export const MetricPoint = Type.Object(
  {
    at: timestamp("Start of the step."),
    replicas: nullable(Type.Number(), "Average number of running replicas."),
    cpu_cores: nullable(Type.Number(), "Average CPU use of all replicas together."),
    memory_mib: nullable(Type.Number(), "Maximum memory use of all replicas together."),
    restarts: Type.Integer({ description: "Replicas that exited unexpectedly and were restarted." }),
    requests: Type.Integer(),
    errors: Type.Integer({
      description: "Responses with status 500 or above, and requests without a complete response.",
    }),
    p50_ms: quantile("Half"),
    p95_ms: quantile("95 %"),
    p99_ms: quantile("99 %"),
    runs_waiting: nullable(
      Type.Integer(),
      "Maximum number of runs that waited for a worker. null: the server reports no runs.",
    ),
    runs_running: nullable(Type.Integer(), "Maximum number of runs in progress."),
    runs_failed: nullable(Type.Integer(), "Runs that ended with an error. null: the server does not count them."),
    runs_recovered: nullable(
      Type.Integer(),
      "Runs that another replica continued because theirs had died. null: the server does not count them.",
    ),
    input_tokens: nullable(
      Type.Integer(),
      "Tokens that the agent sent to its models, as the models reported them. null: the server does not report tokens.",
    ),
    output_tokens: nullable(Type.Integer(), "Tokens that the models answered, likewise."),
  },
  { $id: "MetricPoint" },
);
export type MetricPoint = Static<typeof MetricPoint>;

export const DeploymentMetrics = Type.Object(
  { deployment_id: uuid(), step_s: Type.Integer(), points: Type.Array(MetricPoint, { description: "Oldest first." }) },
  { $id: "DeploymentMetrics", examples: [metricsExample] },
);
export type DeploymentMetrics = Static<typeof DeploymentMetrics>;

/** Hours of the traffic of many deployments. */
export const trafficHours = 24;

/** Deployments of one response. */
export const trafficDeploymentsMax = 100;

export const TrafficQuery = Type.Object({
  deployment_ids: Type.Optional(
    Type.Array(uuid(), {
      maxItems: trafficDeploymentsMax,
      description: "Repeated, or separated by commas. Unknown ones are left out. Absent: the newest deployments.",
    }),
  ),
});
export type TrafficQuery = Static<typeof TrafficQuery>;

const hourly = (what: string) =>
  Type.Array(Type.Integer({ minimum: 0 }), {
    description: `${what} of each of the last ${trafficHours} hours, oldest first. The last hour is not over.`,
    examples: [[...new Array(trafficHours - 2).fill(0), 240, 12]],
  });

/** Requests and errors of the last day for many deployments. */
export const Traffic = Type.Object(
  {
    start_time: timestamp("Start of the first hour."),
    deployments: Type.Array(
      Type.Object({ deployment_id: uuid(), requests: hourly("Requests"), errors: hourly("Errors") }),
    ),
  },
  { $id: "Traffic" },
);
export type Traffic = Static<typeof Traffic>;
