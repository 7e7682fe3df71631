import { deploymentLeaseMs } from "../../src/domain/limits.ts";

interface Entry {
  runAtMs: number | null;
  leaseUntilMs: number;
  holder: string | null;
  generation: number;
}

/** The keyed queue with the rules of the store (src/store/queue/reconcile-queue.ts), on virtual time. */
export class VirtualQueue {
  readonly #entries = new Map<string, Entry>();
  readonly #now: () => number;
  readonly #onEnqueue: () => void;

  constructor(now: () => number, onEnqueue: () => void) {
    this.#now = now;
    this.#onEnqueue = onEnqueue;
  }

  /** Returns when the next deployment becomes due or the next lease runs out. */
  nextAtMs(): number {
    const times = [...this.#entries.values()].map(({ holder, runAtMs, leaseUntilMs }) =>
      holder === null ? (runAtMs ?? Number.POSITIVE_INFINITY) : leaseUntilMs + 1,
    );
    return Math.min(...times);
  }

  enqueue(id: string, atMs = this.#now()): void {
    const entry = this.#entries.get(id) ?? { runAtMs: null, leaseUntilMs: 0, holder: null, generation: 0 };
    entry.runAtMs = Math.min(entry.runAtMs ?? Number.POSITIVE_INFINITY, atMs);
    this.#entries.set(id, entry);
    this.#onEnqueue();
  }

  /** Leases a deployment that is due and returns the holder that settles the pass; null when nothing is due. */
  claim(owner: string): { id: string; holder: string } | null {
    const nowMs = this.#now();
    for (const [id, entry] of this.#entries) {
      const isDue =
        entry.holder === null ? (entry.runAtMs ?? Number.POSITIVE_INFINITY) <= nowMs : entry.leaseUntilMs < nowMs;
      if (!isDue) continue;
      entry.generation += 1;
      entry.holder = `${owner}/${entry.generation}`;
      entry.leaseUntilMs = nowMs + deploymentLeaseMs;
      entry.runAtMs = null;
      return { id, holder: entry.holder };
    }
    return null;
  }

  /**
   * Ends a pass. A pass that lost its lease makes the deployment due again.
   * @param retryAtMs null: only a change makes the deployment due
   */
  settle(id: string, holder: string, retryAtMs: number | null): void {
    const entry = this.#entries.get(id);
    if (entry === undefined) return;
    if (entry.holder !== holder) {
      this.enqueue(id);
      return;
    }
    entry.holder = null;
    if (retryAtMs !== null) this.enqueue(id, retryAtMs);
  }

  forget(id: string): void {
    this.#entries.delete(id);
  }
}
