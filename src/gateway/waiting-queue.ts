import type { Refusal } from "./refusal.ts";

/** A request in the queue. At most one of its functions is called, once, and none after it has left. */
export interface Waiter {
  /** The route is open, and it is this request's turn. */
  go(): void;
  /** The request has waited for the maximum time. */
  giveUp(): void;
  /** The queue is closed. */
  refuse(refusal: Refusal): void;
}

/**
 * Requests released per turn of the event loop. Each opens a connection, and a server's accept queue holds 511 by default.
 * Batches of 100 let the server accept in between.
 */
const releaseBatch = 100;

/** The requests of one deployment that wait for its route to open, first come, first served. */
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

  /** Adds a request. Returns false if the queue is full. */
  join(waiter: Waiter): boolean {
    if (this.#waiters.size >= this.#waitingMax) return false;
    const timer = setTimeout(() => {
      if (this.leave(waiter)) waiter.giveUp();
    }, this.#waitMs);
    this.#waiters.set(waiter, timer.unref());
    return true;
  }

  /** Removes a request. Returns false if it was not in the queue. */
  leave(waiter: Waiter): boolean {
    clearTimeout(this.#waiters.get(waiter));
    return this.#waiters.delete(waiter);
  }

  /** Releases requests in order while `isOpen` returns true. Later requests still queue behind them. */
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

  /** Empties the queue and calls `onRemoved` for each request in order. */
  removeAll(onRemoved: (waiter: Waiter) => void): void {
    for (const waiter of [...this.#waiters.keys()]) {
      if (this.leave(waiter)) onRemoved(waiter);
    }
  }
}
