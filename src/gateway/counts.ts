import { latencyBoundsMs } from "../contract/logs/metrics.ts";

/**
 * Why a request got no complete answer from its agent server. unavailable: 503, no replica in time; 429, over the share. unreachable: 502.
 * overdue: over the duration limit. oversize: 413. refused: 501 and 400 for malformed requests. cut: the agent server
 * broke off within an answer. aborted: the client left first.
 */
const failureKinds = ["unavailable", "unreachable", "overdue", "oversize", "refused", "cut", "aborted"] as const;
export type FailureKind = (typeof failureKinds)[number];

export type StatusClass = "1xx" | "2xx" | "3xx" | "4xx" | "5xx";

/** Traffic of one deployment since its route was first set. A plain copy, safe to keep and to serialize. */
export interface TrafficCounts {
  slug: string;
  deploymentId: string;
  revisionId: string | null;
  /** All requests to this deployment, in flight or ended. */
  requests: number;
  /** By the status that the client saw. An opened WebSocket counts as 1xx. */
  answers: Record<StatusClass, number>;
  failures: Record<FailureKind, number>;
  /** From arrival to the headers of the agent server's answer, including the time in the waiting queue. */
  latency: { boundsMs: readonly number[]; counts: number[]; count: number; sumMs: number };
  bytesIn: number;
  bytesOut: number;
  inFlight: number;
  waiting: number;
  /** From the request that woke the deployment until its route was open. */
  coldStarts: { count: number; sumMs: number; lastMs: number | null; maxMs: number };
}

/** Counters of one deployment, cheap enough to update for every chunk. */
export class TrafficCounter {
  requests = 0;
  bytesIn = 0;
  bytesOut = 0;
  inFlight = 0;
  /** When the last admitted request began or ended, in epoch milliseconds of a clock that does not jump. */
  lastRequestAtMs: number | null = null;
  readonly #answers: Record<StatusClass, number> = { "1xx": 0, "2xx": 0, "3xx": 0, "4xx": 0, "5xx": 0 };
  readonly #failures = Object.fromEntries(failureKinds.map((kind) => [kind, 0])) as Record<FailureKind, number>;
  /** One bucket more than bounds: the last one counts everything slower. */
  readonly #latencies: number[] = new Array(latencyBoundsMs.length + 1).fill(0);
  #latencySumMs = 0;
  readonly #coldStarts = { count: 0, sumMs: 0, lastMs: null as number | null, maxMs: 0 };

  countAnswer(status: number): void {
    this.#answers[`${Math.min(5, Math.max(1, Math.floor(status / 100)))}xx` as StatusClass] += 1;
  }

  countFailure(kind: FailureKind): void {
    this.#failures[kind] += 1;
  }

  recordLatency(ms: number): void {
    const slot = latencyBoundsMs.findIndex((bound) => ms <= bound);
    const at = slot === -1 ? latencyBoundsMs.length : slot;
    this.#latencies[at] = (this.#latencies[at] ?? 0) + 1;
    this.#latencySumMs += ms;
  }

  countColdStart(ms: number): void {
    this.#coldStarts.count += 1;
    this.#coldStarts.sumMs += ms;
    this.#coldStarts.lastMs = ms;
    this.#coldStarts.maxMs = Math.max(this.#coldStarts.maxMs, ms);
  }

  read(): Omit<TrafficCounts, "slug" | "deploymentId" | "revisionId" | "waiting"> {
    const counts = [...this.#latencies];
    return {
      requests: this.requests,
      answers: { ...this.#answers },
      failures: { ...this.#failures },
      latency: {
        boundsMs: latencyBoundsMs,
        counts,
        count: counts.reduce((sum, count) => sum + count, 0),
        sumMs: this.#latencySumMs,
      },
      bytesIn: this.bytesIn,
      bytesOut: this.bytesOut,
      inFlight: this.inFlight,
      coldStarts: { ...this.#coldStarts },
    };
  }
}
