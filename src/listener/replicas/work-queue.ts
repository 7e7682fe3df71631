import type { Clock } from "../clock.ts";

/** Passes in one go, about 30 us each: requests of the same process wait no longer than 6 ms for them. */
const batchMax = 200;

/**
 * Which deployments are to be looked at. One that is marked again before its turn is looked at once, and a storm of
 * marks is worked off in slices between which everything else of the process has its turn.
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

  /** Marks are kept until then. */
  open(): void {
    this.#isOpen = true;
    this.#schedule();
  }

  /** Forgets all marks. */
  close(): void {
    this.#isOpen = false;
    this.#isScheduled = false;
    this.#pending.clear();
    this.#cancelNext();
  }

  #schedule(): void {
    if (!this.#isOpen || this.#isScheduled || this.#pending.size === 0) return;
    this.#isScheduled = true;
    // Whatever else happens in this moment belongs to the same passes.
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
