import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import type { TrafficCounts } from "../gateway/counts.ts";
import { type LatestMetrics, readLatestMetrics } from "../store/data-plane/metric-minutes.ts";
import type { Db } from "../store/engine/database.ts";

/** Prometheus waits 10 s by default. */
const levelsTimeoutMs = 3_000;

interface Family {
  name: string;
  type: "counter" | "gauge";
  help: string;
  /** Returns the lines of one deployment: value and additional labels. */
  of(counts: TrafficCounts): [value: number, labels?: string][];
}

const families: Family[] = [
  {
    name: "requests_total",
    type: "counter",
    help: "Requests through the gateway.",
    of: ({ requests }) => [[requests]],
  },
  {
    name: "answers_total",
    type: "counter",
    help: "Answers by the class of their status.",
    of: ({ answers }) => Object.entries(answers).map(([status, count]) => [count, `status="${status}"`]),
  },
  {
    name: "failures_total",
    type: "counter",
    help: "Requests without a complete answer, by cause.",
    of: ({ failures }) => Object.entries(failures).map(([cause, count]) => [count, `cause="${cause}"`]),
  },
  {
    name: "requests_in_flight",
    type: "gauge",
    help: "Requests in progress or waiting.",
    of: ({ inFlight }) => [[inFlight]],
  },
  {
    name: "cold_starts_total",
    type: "counter",
    help: "Requests that woke the deployment.",
    of: ({ coldStarts }) => [[coldStarts.count]],
  },
];

/**
 * Returns metrics of all deployments in the Prometheus text format 0.0.4: traffic of those with a route since this server
 * started, health, and resource use, runs and tokens of the last minute.
 */
export function deploymentMetrics(traffic: TrafficCounts[], levels: LatestMetrics[]): string {
  const lines = families.flatMap(({ name, type, help, of }) => [
    ...head(name, type, help),
    ...traffic.flatMap((counts) =>
      of(counts).map(([value, label]) => line(name, `${identity(counts)}${label ? `,${label}` : ""}`, value)),
    ),
  ]);
  return `${[...lines, ...latencyLines(traffic), ...healthLines(levels), ...levelLines(levels)].join("\n")}\n`;
}

/** Reads resource use from the database. Returns nothing if the database is down or slow, so that the other metrics still appear. */
export function readLevels(db: Db): Promise<LatestMetrics[]> {
  const late = sleep<LatestMetrics[]>(levelsTimeoutMs, [], { ref: false });
  return Promise.race([readLatestMetrics(db).catch(() => []), late]);
}

function latencyLines(traffic: TrafficCounts[]): string[] {
  const name = "request_duration_seconds";
  const lines = traffic.flatMap((counts) => {
    const { boundsMs, counts: buckets, count, sumMs } = counts.latency;
    let below = 0;
    const cumulative = boundsMs.map((boundMs, bucket) => {
      below += buckets[bucket] ?? 0;
      return line(`${name}_bucket`, `${identity(counts)},le="${boundMs / 1_000}"`, below);
    });
    return [
      ...cumulative,
      line(`${name}_bucket`, `${identity(counts)},le="+Inf"`, count),
      line(`${name}_sum`, identity(counts), sumMs / 1_000),
      line(`${name}_count`, identity(counts), count),
    ];
  });
  return [...head(name, "histogram", "Time to the response headers, including waiting time."), ...lines];
}

function healthLines(levels: LatestMetrics[]): string[] {
  return [
    ...head(
      "health",
      "gauge",
      "1, with the health as a label: live, deploying, degraded, crash_looping, failed and others.",
    ),
    ...levels.map((one) => line("health", `${identity(one)},health="${one.health}"`, 1)),
  ];
}

function levelLines(levels: LatestMetrics[]): string[] {
  const shown = [
    ["replicas", "Running replicas.", (one: LatestMetrics) => one.replicas],
    ["cpu_cores", "CPU cores in use by all replicas together.", (one: LatestMetrics) => one.cpuCores],
    ["memory_mebibytes", "Memory of all replicas together.", (one: LatestMetrics) => one.memoryMib],
    ["runs_waiting", "Runs that wait for a worker.", (one: LatestMetrics) => one.runsWaiting],
    ["runs_running", "Runs in progress.", (one: LatestMetrics) => one.runsRunning],
    ["runs_failed", "Runs that failed in the last minute.", (one: LatestMetrics) => one.runsFailed],
    [
      "runs_recovered",
      "Runs of the last minute that another replica continued because theirs had died.",
      (one: LatestMetrics) => one.runsRecovered,
    ],
    [
      "input_tokens",
      "Tokens that the agent sent to its models in the last minute.",
      (one: LatestMetrics) => one.inputTokens,
    ],
    ["output_tokens", "Tokens that the models answered in the last minute.", (one: LatestMetrics) => one.outputTokens],
  ] as const;
  return shown.flatMap(([name, help, read]) => [
    ...head(name, "gauge", help),
    ...levels.flatMap((one) => {
      const value = read(one);
      return value === null ? [] : [line(name, identity(one), value)];
    }),
  ]);
}

const head = (name: string, type: string, help: string) => [
  `# HELP pierhead_deployment_${name} ${help}`,
  `# TYPE pierhead_deployment_${name} ${type}`,
];

const line = (name: string, labels: string, value: number) => `pierhead_deployment_${name}{${labels}} ${value}`;

/** Ids and slugs are generated or validated: they need no escaping. */
const identity = ({ deploymentId, slug }: { deploymentId: string; slug: string }) =>
  `deployment_id="${deploymentId}",deployment="${slug}"`;

/**
 * Returns which metrics a caller may see: all of them with the operator's token; without it nothing, or, where anonymous callers
 * are allowed, those of the server, and also those of deployments if the operator set no token.
 */
export function metricsRights(
  request: IncomingMessage,
  { isAnonymous, token }: { isAnonymous: boolean; token: string | undefined },
): "none" | "own" | "all" {
  if (token !== undefined && hasToken(request, token)) return "all";
  if (!isAnonymous) return "none";
  return token === undefined ? "all" : "own";
}

function hasToken(request: IncomingMessage, token: string): boolean {
  const given = Buffer.from(request.headers.authorization ?? "");
  const wanted = Buffer.from(`Bearer ${token}`);
  return given.length === wanted.length && timingSafeEqual(given, wanted);
}
