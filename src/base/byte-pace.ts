import { setTimeout as sleep } from "node:timers/promises";

export interface BytePaceOptions {
  /** Bytes per second of one owner, all together. */
  bytesPerS: number;
  /** Bytes of an idle owner that pass at any speed. */
  burstBytes: number;
}

/** Slows the bytes of each owner down to a pace. */
export class BytePace {
  readonly #options: BytePaceOptions;
  /** When the bytes of each owner would have passed at that pace, in milliseconds of `performance.now()`. */
  readonly #dueMs = new Map<string, number>();

  constructor(options: BytePaceOptions) {
    this.#options = options;
  }

  /** Counts bytes. Waits while the owner is ahead of its pace, at most until the signal aborts. */
  async wait(owner: string, bytes: number, signal: AbortSignal): Promise<void> {
    const aheadMs = this.count(owner, bytes);
    if (aheadMs > 0) await sleep(aheadMs, undefined, { signal, ref: false }).catch(() => {});
  }

  /** Counts bytes. @returns by how many milliseconds the owner is ahead of its pace; 0: it is not */
  count(owner: string, bytes: number): number {
    const { bytesPerS, burstBytes } = this.#options;
    const nowMs = performance.now();
    const dueMs = Math.max(this.#dueMs.get(owner) ?? 0, nowMs) + (bytes / bytesPerS) * 1_000;
    this.#dueMs.set(owner, dueMs);
    return Math.max(0, dueMs - nowMs - (burstBytes / bytesPerS) * 1_000);
  }

  /** Forgets owners that are not ahead of their pace. Call it regularly. */
  forgetIdle(): void {
    const nowMs = performance.now();
    for (const [owner, dueMs] of this.#dueMs) if (dueMs <= nowMs) this.#dueMs.delete(owner);
  }
}
