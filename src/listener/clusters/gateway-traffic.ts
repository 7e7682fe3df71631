import type { Clock } from "../../base/clock.ts";
import { sleep } from "../../base/clock.ts";
import { withDeadline } from "../../base/deadline.ts";
import { latencyBoundsMs } from "../../contract/logs/metrics.ts";
import { TrafficCounter, type TrafficCounts } from "../../gateway/counts.ts";
import type { Traffic } from "../../gateway/route.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";

/** What one replica of the gateway in the cluster has counted since its start. */
export interface GatewayReading {
  /** A new one for each start. */
  instance_id: string;
  uptime_ms: number;
  deployments: GatewayCounts[];
}

/** Traffic of one deployment that had requests. */
export interface GatewayCounts {
  deployment_id: string;
  requests: number;
  /** Answers with a status of 5xx. */
  failed: number;
  /** Answers that broke off. */
  cut: number;
  latency_counts: number[];
  /** Requests in flight or waiting. */
  open: number;
  /** Since an admitted request last began or ended. Null: none has. */
  idle_ms: number | null;
}

/** Reads all replicas of the gateway. `isComplete`: no replica is missing. */
export type ReadGateways = (signal: AbortSignal) => Promise<{ readings: GatewayReading[]; isComplete: boolean }>;

/** The last use of a deployment. */
export interface Activity {
  /** By the monotonic clock. Null: none is known. */
  lastRequestAtMs: number | null;
  isBusy: boolean;
}

/** The requests that pass the gateway in the cluster, as the leading listener sees them. */
export interface ClusterTraffic extends Pick<Traffic, "counts"> {
  /** Begins to read the gateway when this instance leads, and ends when it no longer does. */
  follow(isLeading: boolean): void;
  /** Returns the last use of a deployment; null while a replica of the gateway has not answered for some time. */
  activityOf(deploymentId: string): Activity | null;
}

const readIntervalMs = 5_000;
const readTimeoutMs = 4_000;

/** A complete reading holds for this long: several attempts may fail. */
const completeForMs = 30_000;

/** Replicas and deployments are remembered for this long after they were last read: a name server may leave out one that exists. */
const forgetAfterMs = 600_000;

type Sums = Pick<GatewayCounts, "requests" | "failed" | "cut" | "latency_counts">;

interface Total extends Sums {
  lastRequestAtMs: number | null;
  isBusy: boolean;
  seenAtMs: number;
}

/**
 * Sums the counters of all replicas of the gateway. The sums only grow, although replicas come and go. What a replica has counted
 * before this instance led was shipped by its predecessor, so its first reading counts as zero. So does that of a replica which may
 * have been forgotten.
 */
export class GatewayTraffic implements ClusterTraffic {
  readonly #read: ReadGateways;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #following: AbortController | null = null;
  #totals = new Map<string, Total>();
  /** The last counters of each replica by deployment. */
  #replicas = new Map<string, { seenAtMs: number; counted: Map<string, Sums> }>();
  #sinceMs = 0;
  #completeAtMs: number | null = null;

  constructor({ read, clock, logger }: { read: ReadGateways; clock: Clock; logger: Logger }) {
    this.#read = read;
    this.#clock = clock;
    this.#logger = logger;
  }

  follow(isLeading: boolean): void {
    this.#following?.abort(new Error("another instance leads"));
    this.#following = null;
    this.#totals = new Map();
    this.#replicas = new Map();
    this.#completeAtMs = null;
    this.#sinceMs = this.#clock.monotonicMs();
    if (!isLeading) return;
    this.#following = new AbortController();
    void this.#poll(this.#following.signal).catch(() => {});
  }

  counts(): TrafficCounts[] {
    return Array.from(this.#totals, ([deploymentId, total]) => countsOf(deploymentId, total));
  }

  activityOf(deploymentId: string): Activity | null {
    const nowMs = this.#clock.monotonicMs();
    if (this.#completeAtMs === null || nowMs - this.#completeAtMs > completeForMs) return null;
    const { lastRequestAtMs = null, isBusy = false } = this.#totals.get(deploymentId) ?? {};
    return { lastRequestAtMs, isBusy };
  }

  async #poll(signal: AbortSignal): Promise<void> {
    for (;;) {
      try {
        const options = { clock: this.#clock, timeoutMs: readTimeoutMs, signal };
        const { readings, isComplete } = await withDeadline(options, this.#read);
        signal.throwIfAborted();
        this.#add(readings);
        if (isComplete) this.#completeAtMs = this.#clock.monotonicMs();
      } catch (error) {
        signal.throwIfAborted();
        this.#logger.debug({ error: describeError(error) }, "gateway in the cluster not read");
      }
      await sleep(this.#clock, readIntervalMs, signal);
    }
  }

  #add(readings: GatewayReading[]): void {
    const nowMs = this.#clock.monotonicMs();
    for (const total of this.#totals.values()) total.isBusy = false;
    for (const { instance_id: instanceId, uptime_ms: uptimeMs, deployments } of readings) {
      const before = this.#replicas.get(instanceId)?.counted;
      const isOlder = before === undefined && (nowMs - uptimeMs < this.#sinceMs || uptimeMs > forgetAfterMs);
      const counted = new Map(deployments.map((one) => [one.deployment_id, one]));
      this.#replicas.set(instanceId, { seenAtMs: nowMs, counted });
      for (const one of deployments) {
        const earlier = isOlder ? one : before?.get(one.deployment_id);
        // A deployment whose route was removed and set again starts at 0.
        this.#count(one, earlier === undefined || one.requests < earlier.requests ? none : earlier, nowMs);
      }
    }
    for (const seen of [this.#replicas, this.#totals]) {
      for (const [id, { seenAtMs }] of seen) if (nowMs - seenAtMs > forgetAfterMs) seen.delete(id);
    }
  }

  #count(counted: GatewayCounts, earlier: Sums, nowMs: number): void {
    const { deployment_id: id, idle_ms: idleMs } = counted;
    const total = this.#totals.get(id) ?? { ...none, lastRequestAtMs: null, isBusy: false, seenAtMs: nowMs };
    const atMs = idleMs === null ? null : nowMs - idleMs;
    this.#totals.set(id, {
      requests: total.requests + counted.requests - earlier.requests,
      failed: total.failed + counted.failed - earlier.failed,
      cut: total.cut + counted.cut - earlier.cut,
      latency_counts: none.latency_counts.map(
        (_, slot) =>
          (total.latency_counts[slot] ?? 0) + (counted.latency_counts[slot] ?? 0) - (earlier.latency_counts[slot] ?? 0),
      ),
      lastRequestAtMs: atMs === null ? total.lastRequestAtMs : Math.max(total.lastRequestAtMs ?? atMs, atMs),
      isBusy: total.isBusy || counted.open > 0,
      seenAtMs: nowMs,
    });
  }
}

const none: Sums = { requests: 0, failed: 0, cut: 0, latency_counts: new Array(latencyBoundsMs.length + 1).fill(0) };
const nothing = new TrafficCounter().read();

function countsOf(deploymentId: string, { requests, failed, cut, latency_counts: counts }: Total): TrafficCounts {
  return {
    ...nothing,
    ...{ deploymentId, slug: "", revisionId: null, waiting: 0, requests },
    answers: { ...nothing.answers, "5xx": failed },
    failures: { ...nothing.failures, cut },
    latency: { ...nothing.latency, counts },
  };
}

/** Returns what one gateway has counted since `startedAtMs`, for deployments that had requests. */
export function readTraffic(
  traffic: Pick<Traffic, "counts" | "lastRequestAt">,
  { instanceId, startedAtMs, nowMs }: { instanceId: string; startedAtMs: number; nowMs: number },
): GatewayReading {
  const deployments = traffic
    .counts()
    .filter(({ requests }) => requests > 0)
    .map(({ slug, deploymentId, requests, answers, failures, latency, inFlight, waiting }): GatewayCounts => {
      const lastMs = traffic.lastRequestAt(slug)?.getTime();
      return {
        ...{ deployment_id: deploymentId, requests, failed: answers["5xx"], cut: failures.cut },
        ...{ latency_counts: latency.counts, open: inFlight + waiting },
        idle_ms: lastMs === undefined ? null : Math.max(0, nowMs - lastMs),
      };
    });
  return { instance_id: instanceId, uptime_ms: nowMs - startedAtMs, deployments };
}
