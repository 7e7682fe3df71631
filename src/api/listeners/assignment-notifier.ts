import { readListenerVersions } from "../../store/data-plane/listener-sessions.ts";
import type { Db } from "../../store/engine/database.ts";
import { ChangeCheck } from "./change-check.ts";

interface Waiter {
  listenerId: string;
  after: number;
  notify(): void;
}

/**
 * Wakes only the listeners whose assignments changed. One database query per change serves all waiting listeners; if
 * each of a thousand polled for itself, every change would cost a thousand queries.
 */
export class AssignmentNotifier {
  readonly #db: Db;
  readonly #waiters = new Set<Waiter>();
  readonly #changes: ChangeCheck;

  constructor(db: Db) {
    this.#db = db;
    this.#changes = new ChangeCheck(
      (wake) => db.changes.onWake(wake),
      () => this.#check(),
    );
  }

  /**
   * Waits for a change. Call it before reading, so that no change in between is missed. `came` settles within `maxMs`.
   */
  wait(cursor: { listenerId: string; after: number }, signal: AbortSignal, maxMs: number) {
    const { promise: came, resolve } = Promise.withResolvers<void>();
    const notify = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", notify);
      this.#waiters.delete(waiter);
      if (this.#waiters.size === 0) this.#changes.stop();
      resolve();
    };
    const waiter = { ...cursor, notify };
    const timer = setTimeout(notify, maxMs);
    signal.addEventListener("abort", notify);
    this.#waiters.add(waiter);
    this.#changes.start();
    return { came, cancel: notify };
  }

  async #check(): Promise<void> {
    const ids = new Set(Array.from(this.#waiters, ({ listenerId }) => listenerId));
    const versions = await readListenerVersions(this.#db, [...ids]);
    // A listener without a version was deleted; its next read reports that.
    for (const { listenerId, after, notify } of [...this.#waiters]) {
      if ((versions.get(listenerId) ?? Infinity) > after) notify();
    }
  }
}
