import type { Refusal } from "./refusal.ts";

/** What waits in a line; each is called back at most once, and not at all after it left. */
export interface Waiter {
  /** Its turn: the route is open. */
  go(): void;
  /** It waited as long as it may. */
  giveUp(): void;
  /** The line is closed. */
  refuse(refusal: Refusal): void;
}

/**
 * Waiters let through per turn of the event loop. Each opens a connection, and a server's accept queue holds 511 by
 * default: 100 at a time leaves it room to accept between the turns.
 */
const releaseBatch = 100;

/** Requests of one deployment that wait for its route to open: first come, first served. */
export class WaitingQueue {
  readonly #waiters = new Map<Waiter, NodeJS.Timeout>();
  readonly #waitMs: number;
  readonly #waitingMax: number;
  #isReleasing = false;

  constructor({ waitMs, waitingMax }: { waitMs: number; waitingMax: number }) {
    this.#waitMs = waitMs;
    this.#waitingMax = waitingMax;
  }

  get length(): number {
    return this.#waiters.size;
  }

  /** False: the line is full. */
  join(waiter: Waiter): boolean {
    if (this.#waiters.size >= this.#waitingMax) return false;
    const timer = setTimeout(() => {
      if (this.leave(waiter)) waiter.giveUp();
    }, this.#waitMs);
    this.#waiters.set(waiter, timer.unref());
    return true;
  }

  /** False: it was not in the line. */
  leave(waiter: Waiter): boolean {
    clearTimeout(this.#waiters.get(waiter));
    return this.#waiters.delete(waiter);
  }

  /** Lets waiters through in their order for as long as `isOpen` says so; later ones still queue behind them. */
  release(isOpen: () => boolean): void {
    if (this.#isReleasing) return;
    this.#isReleasing = true;
    const turn = () => {
      let slots = releaseBatch;
      for (const waiter of this.#waiters.keys()) {
        if (slots === 0 || !isOpen()) break;
        slots -= 1;
        if (this.leave(waiter)) waiter.go();
      }
      this.#isReleasing = isOpen() && this.#waiters.size > 0;
      if (this.#isReleasing) setImmediate(turn);
    };
    turn();
  }

  /** Empties the line; `dismiss` is called for each waiter in its order. */
  removeAll(onRemoved: (waiter: Waiter) => void): void {
    for (const waiter of [...this.#waiters.keys()]) {
      if (this.leave(waiter)) onRemoved(waiter);
    }
  }
}
