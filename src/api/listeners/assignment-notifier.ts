import { changePollIntervalMs } from "../../domain/limits.ts";
import { readListenerVersions } from "../../store/data-plane/listener-sessions.ts";
import type { Db } from "../../store/engine/database.ts";

interface Waiter {
  listenerId: string;
  after: number;
  ring(): void;
}

/**
 * Wakes the listeners for which something changed, and only those: whatever happens, one question to the database answers
 * for all who wait. A thousand that each looked for themselves would be a thousand questions for every change.
 */
export class DesiredBell {
  readonly #db: Db;
  readonly #waiters = new Set<Waiter>();
  #isLooking = false;
  #mustLook = false;
  #stop: (() => void) | null = null;

  constructor(db: Db) {
    this.#db = db;
  }

  /** Ask for it before reading, so that a change in between is not missed. `came` settles at latest after `maxMs`. */
  wait(what: { listenerId: string; after: number }, signal: AbortSignal, maxMs: number) {
    const { promise: came, resolve } = Promise.withResolvers<void>();
    const ring = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", ring);
      this.#waiters.delete(waiter);
      if (this.#waiters.size === 0) this.#rest();
      resolve();
    };
    const waiter = { ...what, ring };
    const timer = setTimeout(ring, maxMs);
    signal.addEventListener("abort", ring);
    this.#waiters.add(waiter);
    this.#begin();
    return { came, cancel: ring };
  }

  #begin(): void {
    if (this.#stop !== null) return;
    const look = () => void this.#look();
    const stopListening = this.#db.changes.onWake(look);
    const poll = setInterval(look, changePollIntervalMs);
    this.#stop = () => {
      stopListening();
      clearInterval(poll);
    };
  }

  #rest(): void {
    this.#stop?.();
    this.#stop = null;
  }

  async #look(): Promise<void> {
    this.#mustLook = true;
    if (this.#isLooking) return;
    this.#isLooking = true;
    while (this.#mustLook && this.#waiters.size > 0) {
      this.#mustLook = false;
      try {
        const ids = new Set(Array.from(this.#waiters, ({ listenerId }) => listenerId));
        const versions = await readListenerVersions(this.#db, [...ids]);
        // One that is gone is told by the next read.
        for (const { listenerId, after, ring } of [...this.#waiters]) {
          if ((versions.get(listenerId) ?? Infinity) > after) ring();
        }
      } catch {
        // The next look asks again.
      }
    }
    this.#isLooking = false;
  }
}
