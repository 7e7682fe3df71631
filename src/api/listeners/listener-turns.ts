import { setTimeout as sleep } from "node:timers/promises";
import { errors } from "../../contract/error.ts";

/** Longest pause after a call. */
const pauseMaxMs = 250;

/** Calls of one listener that wait. A listener sends few at a time, but one that starts asks for the secrets of each of its deployments. */
const waitingMax = 256;

/** Longest wait. The program of a listener gives up after the same time. */
const waitMaxMs = 30_000;

/** Pause before a call is refused, so that a listener that tries again at once costs little. */
const refusalDelayMs = 250;

/**
 * Lets the calls of one listener take turns, however many connections it sends them on. After each turn it pauses for as long as the
 * turn took, so that a listener without end gets half of the time. Its calls have no rate limit, because the number of its deployments
 * decides how many it needs. Measured without turns: samples on eight connections let another workspace's request wait for 1.3 s in the
 * median, heartbeats and sessions on 64 for 25 times the quiet value.
 */
export class ListenerTurns {
  readonly #exemptId: string;
  /** The calls that wait for each listener whose turn is taken, in order. */
  readonly #waiting = new Map<string, Set<() => void>>();

  /** @param exemptId the listener of the server itself, which serves all workspaces */
  constructor(exemptId: string) {
    this.#exemptId = exemptId;
  }

  /**
   * Acts in the next free turn.
   * @param signal aborts when the sender leaves. A call that waits then leaves the queue, one that began goes on.
   * @throws ApiError 429 when too many calls wait, or this one has waited for too long, or its sender has left
   */
  async take<T>(listenerId: string, act: () => Promise<T>, signal: AbortSignal): Promise<T> {
    if (listenerId === this.#exemptId) return act();
    await this.#begin(listenerId, signal);
    const beganAt = performance.now();
    try {
      return await act();
    } finally {
      const pauseMs = Math.min(pauseMaxMs, performance.now() - beganAt);
      void sleep(pauseMs, undefined, { ref: false }).then(() => this.#end(listenerId));
    }
  }

  async #begin(listenerId: string, signal: AbortSignal): Promise<void> {
    if (signal.aborted) throw errors.tooManyRequests(1);
    const waiting = this.#waiting.get(listenerId);
    if (waiting === undefined) {
      this.#waiting.set(listenerId, new Set());
      return;
    }
    if (waiting.size >= waitingMax) {
      await sleep(refusalDelayMs, undefined, { ref: false });
      throw errors.tooManyRequests(1);
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      waiting.delete(resolve);
      reject(errors.tooManyRequests(1));
    };
    const timer = setTimeout(leave, waitMaxMs).unref();
    signal.addEventListener("abort", leave, { once: true });
    waiting.add(resolve);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", leave);
    }
  }

  #end(listenerId: string): void {
    const waiting = this.#waiting.get(listenerId);
    const [next] = waiting ?? [];
    if (next === undefined) {
      this.#waiting.delete(listenerId);
      return;
    }
    waiting?.delete(next);
    next();
  }
}

/** The turns of a listener by kind, so that short calls need not wait for long ones. */
export interface TurnsByKind {
  /** Sessions and heartbeats, without which a listener loses its lease. */
  sessions: ListenerTurns;
  /** Reports of status, for which rollouts wait. */
  statuses: ListenerTurns;
  /** Batches of log lines and samples. */
  reports: ListenerTurns;
  /** All other calls. */
  calls: ListenerTurns;
}

export function createTurns(exemptId: string): TurnsByKind {
  const create = () => new ListenerTurns(exemptId);
  return { sessions: create(), statuses: create(), reports: create(), calls: create() };
}
