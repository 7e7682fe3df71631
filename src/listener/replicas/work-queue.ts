import type { Clock } from "../clock.ts";

/** Passes in one go, about 30 us each: requests of the same process wait no longer than 6 ms for them. */
const passesAtOnceMax = 200;

/**
 * Which deployments are to be looked at. One that is marked again before its turn is looked at once, and a storm of
 * marks is worked off in slices between which everything else of the process has its turn.
 */
export class PassQueue {
  readonly #clock: Clock;
  readonly #pass: (deploymentId: string) => void;
  readonly #marked = new Set<string>();
  #isOpen = false;
  #isScheduled = false;
  #cancelNext = () => {};

  constructor({ clock, pass }: { clock: Clock; pass: (deploymentId: string) => void }) {
    this.#clock = clock;
    this.#pass = pass;
  }

  mark(deploymentId: string): void {
    this.#marked.add(deploymentId);
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
    this.#marked.clear();
    this.#cancelNext();
  }

  #schedule(): void {
    if (!this.#isOpen || this.#isScheduled || this.#marked.size === 0) return;
    this.#isScheduled = true;
    // Whatever else happens in this moment belongs to the same passes.
    queueMicrotask(() => this.#workOff());
  }

  #workOff(): void {
    let left = passesAtOnceMax;
    for (const deploymentId of this.#marked) {
      if (!this.#isOpen) return;
      left -= 1;
      if (left < 0) {
        this.#cancelNext = this.#clock.setTimeout(() => this.#workOff(), 0);
        return;
      }
      this.#marked.delete(deploymentId);
      this.#pass(deploymentId);
    }
    this.#isScheduled = false;
  }
}
