import type { Clock } from "../../base/clock.ts";

/** A pass takes about 30 us, so requests of the same process wait at most 6 ms for a batch. */
const batchMax = 200;

/**
 * The deployments that need a pass. A deployment that is added again before its turn gets one pass. A burst is processed in
 * batches, and the event loop runs in between.
 */
export class WorkQueue {
  readonly #clock: Clock;
  readonly #process: (deploymentId: string) => void;
  readonly #pending = new Set<string>();
  #isOpen = false;
  #isScheduled = false;
  #cancelNext = () => {};

  constructor({ clock, process }: { clock: Clock; process: (deploymentId: string) => void }) {
    this.#clock = clock;
    this.#process = process;
  }

  add(deploymentId: string): void {
    this.#pending.add(deploymentId);
    this.#schedule();
  }

  /** Starts processing. Earlier additions wait until then. */
  open(): void {
    this.#isOpen = true;
    this.#schedule();
  }

  /** Stops processing and empties the queue. */
  close(): void {
    this.#isOpen = false;
    this.#isScheduled = false;
    this.#pending.clear();
    this.#cancelNext();
  }

  #schedule(): void {
    if (!this.#isOpen || this.#isScheduled || this.#pending.size === 0) return;
    this.#isScheduled = true;
    // Changes that happen in the same tick share their passes.
    queueMicrotask(() => this.#processBatch());
  }

  #processBatch(): void {
    let remaining = batchMax;
    for (const deploymentId of this.#pending) {
      if (!this.#isOpen) return;
      remaining -= 1;
      if (remaining < 0) {
        this.#cancelNext = this.#clock.setTimeout(() => this.#processBatch(), 0);
        return;
      }
      this.#pending.delete(deploymentId);
      this.#process(deploymentId);
    }
    this.#isScheduled = false;
  }
}
