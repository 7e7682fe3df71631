import { sql } from "kysely";
import type { Db } from "../engine/database.ts";

/** Lines that other servers wrote are found this late: below the 300 ms at which a tail seems to stand still. */
const pollIntervalMs = 250;

/**
 * Tells those who tail logs that there may be new lines: at once when this process wrote them, and by one look at all
 * watched deployments four times a second when another one did. On the embedded database there is no other one.
 */
export class LogSignal {
  readonly #db: Db;
  readonly #watched = new Map<string, { listeners: Set<() => void>; lastId: number }>();
  #timer: NodeJS.Timeout | undefined;
  #isLooking = false;

  constructor(db: Db) {
    this.#db = db;
  }

  /** @returns what ends it. */
  watch(deploymentId: string, onLines: () => void): () => void {
    const entry = this.#watched.get(deploymentId) ?? { listeners: new Set(), lastId: 0 };
    this.#watched.set(deploymentId, entry);
    entry.listeners.add(onLines);
    this.#timer ??=
      this.#db.kind === "postgres" ? setInterval(() => void this.#look(), pollIntervalMs).unref() : undefined;
    return () => {
      entry.listeners.delete(onLines);
      if (entry.listeners.size === 0 && this.#watched.get(deploymentId) === entry) this.#watched.delete(deploymentId);
      if (this.#watched.size === 0) this.close();
    };
  }

  /** Lines of these deployments were committed by this process. */
  tell(deploymentIds: Iterable<string>): void {
    for (const id of deploymentIds) for (const listener of this.#watched.get(id)?.listeners ?? []) listener();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return;
    this.#isLooking = true;
    try {
      const { rows } = await sql<{ id: string; last: number | null }>`
        select id, greatest(
                 (select max(l.id) from log_entries l where l.deployment_id = w.id and l.kind = 'build'),
                 (select max(l.id) from log_entries l where l.deployment_id = w.id and l.kind = 'deploy')) as last
          from unnest(${[...this.#watched.keys()]}::uuid[]) as w (id)`.execute(this.#db.kysely);
      for (const { id, last } of rows) this.#note(id, last ?? 0);
    } catch {
      // The next look says more.
    } finally {
      this.#isLooking = false;
    }
  }

  #note(deploymentId: string, lastId: number): void {
    const entry = this.#watched.get(deploymentId);
    if (entry === undefined || entry.lastId === lastId) return;
    entry.lastId = lastId;
    for (const listener of entry.listeners) listener();
  }
}
