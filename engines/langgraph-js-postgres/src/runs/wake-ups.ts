import type { Signals } from "../store/signals.ts";

/** Wakes those who wait for events of a run. One listener serves all of them. */
export class WakeUps {
  readonly #waiting = new Map<string, Set<() => void>>();

  constructor(signals: Signals) {
    signals.on("events", (runId) => this.#wake(runId));
    signals.on("reconnected", () => {
      for (const runId of [...this.#waiting.keys()]) this.#wake(runId);
    });
  }

  /**
   * Returns a promise of the next event of the run. Call it before the events are read, so that none is missed between.
   * @param timeoutMs it resolves after that time as well.
   */
  next(runId: string, timeoutMs: number, signal?: AbortSignal): { woken: Promise<void>; cancel(): void } {
    let cancel = () => {};
    const woken = new Promise<void>((resolve) => {
      const waiting = this.#waiting.get(runId) ?? new Set();
      const timer = setTimeout(() => cancel(), timeoutMs);
      cancel = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", cancel);
        waiting.delete(cancel);
        if (waiting.size === 0 && this.#waiting.get(runId) === waiting) this.#waiting.delete(runId);
        resolve();
      };
      waiting.add(cancel);
      this.#waiting.set(runId, waiting);
      if (signal?.aborted) cancel();
      else signal?.addEventListener("abort", cancel, { once: true });
    });
    return { woken, cancel };
  }

  #wake(runId: string): void {
    for (const wake of [...(this.#waiting.get(runId) ?? [])]) wake();
  }
}
