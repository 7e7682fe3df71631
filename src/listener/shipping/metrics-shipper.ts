import type { Clock } from "../../base/clock.ts";
import { withDeadline } from "../../base/deadline.ts";
import { type ListenerSession, StaleEpoch } from "../../client/listener-client.ts";
import type { ReplicaLoad, ReplicaRuns, ReplicaUsage, RunCounts } from "../../compute/compute.ts";
import { latencyBoundsMs, type MetricSample } from "../../contract/logs/metrics.ts";
import type { TrafficCounts } from "../../gateway/counts.ts";
import type { Traffic } from "../../gateway/route.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { RunningDeployment } from "../fleet.ts";
import { RunCountReader, runFields } from "./run-counts.ts";

const defaultIntervalMs = 60_000;

/** Spreads the samples of thousands of listeners over time. */
const jitterMaxMs = 20_000;

const usageTimeoutMs = 10_000;
const sendTimeoutMs = 30_000;

/** The protocol's limit per call. Unsent samples kept while the control plane is away: an hour of 100 deployments, or one round. */
const batchMax = 1_000;
const unsentMin = 6_000;

/** Deployments without replicas whose totals are kept. Whether one sleeps or was deleted does not show here. */
const totalsMax = 10_000;

type Used = ReplicaUsage | ReplicaLoad;

export interface MetricsOptions {
  /** Null, or resolves to null, when the compute measures nothing. */
  readUsage: ((signal: AbortSignal) => Promise<Used[] | null>) | null;
  /** Null when the compute cannot ask replicas for their runs. */
  readRunCounts: ReplicaRuns["readRunCounts"] | null;
  traffic: Pick<Traffic, "counts">;
  clock: Clock;
  logger: Logger;
  running(): RunningDeployment[];
  onStale(error: StaleEpoch): void;
  /** Default: one minute. */
  intervalMs?: number | undefined;
}

/** The counters that samples need. Keeping all counters of ten thousand deployments for a minute would waste memory. */
interface TrafficTotals {
  requests: number;
  errors: number;
  latencies: readonly number[];
}

/** The values of all counters at one time. */
interface Counters {
  atMs: number;
  cpuSeconds: Map<string, number>;
  /** Only deployments that ever had a request. */
  traffic: Map<string, TrafficTotals>;
  restarts: Map<string, number>;
  /** Only deployments whose server reports runs. */
  runs: Map<string, RunCounts>;
}

/** Ships, once a minute, the usage and traffic of each deployment that runs or had requests since the previous sample. */
export class MetricsShipper {
  readonly #options: MetricsOptions;
  readonly #runCounts: RunCountReader | null;
  #session: ListenerSession | null = null;
  #signal = new AbortController();
  #cancel = () => {};
  #previous: Counters | null = null;
  #unsent: MetricSample[] = [];

  constructor(options: MetricsOptions) {
    this.#options = options;
    this.#runCounts = options.readRunCounts && new RunCountReader(options.readRunCounts);
  }

  /** Switches to a new session. Null: another instance leads and ships its own samples. */
  follow(session: ListenerSession | null): void {
    this.#cancel();
    this.#signal.abort();
    this.#signal = new AbortController();
    this.#session = session;
    this.#previous = null;
    if (session !== null) void this.#round();
  }

  close(): void {
    this.follow(null);
  }

  async #round(): Promise<void> {
    const { signal } = this.#signal;
    const { clock, logger, intervalMs = defaultIntervalMs } = this.#options;
    try {
      await this.#sample(signal);
      await this.#send(signal);
    } catch (error) {
      if (error instanceof StaleEpoch) return this.#options.onStale(error);
      if (!signal.aborted) logger.debug({ error: describeError(error) }, "metrics not accepted");
    }
    if (signal.aborted) return;
    const untilNextMs = intervalMs - (clock.now() % intervalMs);
    const jitterMs = clock.random() * Math.min(jitterMaxMs, intervalMs);
    this.#cancel = clock.setTimeout(() => void this.#round(), untilNextMs + jitterMs);
  }

  /** Samples all counters. The first round only records their values. */
  async #sample(signal: AbortSignal): Promise<void> {
    const { readUsage, clock, traffic } = this.#options;
    const running = this.#options.running();
    const deploymentIds = new Set(running.map(({ deploymentId }) => deploymentId));
    const deadline = { clock, timeoutMs: usageTimeoutMs, signal };
    const [usage, runs] = await Promise.all([
      readUsage && withDeadline(deadline, readUsage),
      this.#readRuns(running, signal),
    ]);
    const now: Counters = {
      atMs: clock.now(),
      cpuSeconds: new Map(
        usage?.flatMap((one) => ("cpuSeconds" in one ? [[one.replicaId, one.cpuSeconds] as const] : [])),
      ),
      traffic: trafficOf(traffic.counts()),
      restarts: new Map(running.map(({ deploymentId, restarts }) => [deploymentId, restarts])),
      runs: totalsOf(this.#previous?.runs, runs, deploymentIds),
    };
    const before = this.#previous;
    this.#previous = now;
    if (before === null || now.atMs <= before.atMs) return;
    const usageOf = usage && new Map(usage.map((one) => [one.replicaId, one]));
    const samples = [...running, ...withoutReplicas(running, now)]
      .map((deployment) => sampleOf(deployment, { before, now, usageOf, runs }))
      .filter(isNonZero);
    this.#unsent = [...this.#unsent, ...samples].slice(-Math.max(unsentMin, samples.length));
  }

  /** Replicas that have not answered at the deadline are left out of this round. */
  async #readRuns(running: RunningDeployment[], signal: AbortSignal): Promise<Map<string, RunCounts>> {
    const found = new Map<string, RunCounts>();
    const reader = this.#runCounts;
    if (reader === null) return found;
    const deadline = { clock: this.#options.clock, timeoutMs: usageTimeoutMs, signal };
    await withDeadline(deadline, (ending) => reader.readInto(found, running, ending)).catch(() => {});
    return new Map(found);
  }

  async #send(signal: AbortSignal): Promise<void> {
    const session = this.#session;
    while (session !== null && this.#unsent.length > 0 && !signal.aborted) {
      const samples = this.#unsent.slice(0, batchMax);
      const options = { clock: this.#options.clock, timeoutMs: sendTimeoutMs, signal };
      await withDeadline(options, (ending) => session.sendMetrics({ samples }, ending));
      this.#unsent = this.#unsent.slice(samples.length);
    }
  }
}

/**
 * Returns the totals of all deployments. A server that was too busy to answer keeps its totals, and so does one that sleeps and has
 * counted tokens: of these, the ones that ran last.
 */
function totalsOf(
  before: Map<string, RunCounts> = new Map(),
  now: Map<string, RunCounts>,
  running: Set<string>,
): Map<string, RunCounts> {
  const kept = [...before].filter(([id]) => running.has(id));
  const asleep = [...before].filter(([id, { tokens }]) => !running.has(id) && tokens);
  return new Map([...asleep.slice(-totalsMax), ...kept, ...now]);
}

/** Returns deployments without replicas that have traffic: the gateway answers for them while they are down or asleep. */
function withoutReplicas(running: RunningDeployment[], { traffic }: Counters): RunningDeployment[] {
  const known = new Set(running.map(({ deploymentId }) => deploymentId));
  const others = [...traffic.keys()].filter((deploymentId) => !known.has(deploymentId));
  return others.map((deploymentId) => ({ deploymentId, replicaIds: [], restarts: 0 }));
}

const isNonZero = ({ replicas, restarts, requests, errors }: MetricSample) =>
  replicas + restarts + requests + errors > 0;

function sampleOf(
  { deploymentId, replicaIds, restarts }: RunningDeployment,
  counters: { before: Counters; now: Counters; usageOf: Map<string, Used> | null; runs: Map<string, RunCounts> },
): MetricSample {
  const { before, now, usageOf, runs } = counters;
  const intervalMs = now.atMs - before.atMs;
  const used = usageOf && replicaIds.map((replicaId) => usageOf.get(replicaId)).filter((one) => one !== undefined);
  const isMeasured = used != null && used.length > 0;
  const coresOf = (one: Used) => {
    if ("cpuCores" in one) return one.cpuCores;
    const seconds = Math.max(0, one.cpuSeconds - (before.cpuSeconds.get(one.replicaId) ?? 0));
    return seconds / (intervalMs / 1_000);
  };
  const useOf = (one: Used) => ({ replica_id: one.replicaId, cpu_cores: coresOf(one), memory_mib: one.memoryMib });
  return {
    deployment_id: deploymentId,
    at: new Date(now.atMs).toISOString(),
    interval_ms: intervalMs,
    replicas: replicaIds.length,
    cpu_cores: isMeasured ? used.reduce((sum, one) => sum + coresOf(one), 0) : null,
    memory_mib: isMeasured ? used.reduce((sum, { memoryMib }) => sum + memoryMib, 0) : null,
    ...(isMeasured && replicaIds.length > 1 && { replica_usage: used.map(useOf) }),
    restarts: Math.max(0, restarts - (before.restarts.get(deploymentId) ?? 0)),
    ...runFields(before.runs.get(deploymentId), runs.get(deploymentId)),
    ...trafficBetween(before.traffic.get(deploymentId), now.traffic.get(deploymentId)),
  };
}

/** Sums the counters. Errors are failures that clients saw: status 5xx and answers that broke off. */
function trafficOf(all: TrafficCounts[]): Map<string, TrafficTotals> {
  const shipped = new Map<string, TrafficTotals>();
  for (const { deploymentId, requests, answers, failures, latency } of all) {
    if (requests === 0) continue;
    shipped.set(deploymentId, { requests, errors: answers["5xx"] + failures.cut, latencies: latency.counts });
  }
  return shipped;
}

/** Returns the traffic between two samples. Counters start at 0 when a route is removed and set again. */
function trafficBetween(
  earlier: TrafficTotals | undefined,
  later: TrafficTotals = noTraffic,
): Pick<MetricSample, "requests" | "errors" | "latency_counts"> {
  const base = earlier !== undefined && hasGrown(earlier, later) ? earlier : noTraffic;
  return {
    requests: later.requests - base.requests,
    errors: later.errors - base.errors,
    latency_counts: later.latencies.map((count, bucket) => count - (base.latencies[bucket] ?? 0)),
  };
}

/** Whether all counters grew. After a restart from 0, a counter may already have exceeded its old value. */
function hasGrown(earlier: TrafficTotals, later: TrafficTotals): boolean {
  const pairs = later.latencies.map((count, bucket) => [earlier.latencies[bucket] ?? 0, count] as const);
  pairs.push([earlier.requests, later.requests], [earlier.errors, later.errors]);
  return pairs.every(([before, after]) => before <= after);
}

const noTraffic: TrafficTotals = { requests: 0, errors: 0, latencies: new Array(latencyBoundsMs.length + 1).fill(0) };
