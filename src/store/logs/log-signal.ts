import { sql } from "../engine/sql.ts";
import { outsideTransaction, type Statements } from "../engine/statement-pool.ts";

/** The delay until lines written by other servers are found: below the 300 ms at which a tail seems to stall. */
const pollIntervalMs = 250;

/**
 * Notifies readers that tail logs of new lines: at once for lines that this process wrote, and by polling all watched
 * deployments four times a second for lines of other servers. On the embedded database there are no other servers.
 */
export class LogSignal {
  readonly #statements: Statements;
  readonly #hasOtherWriters: boolean;
  readonly #watched = new Map<string, { listeners: Set<() => void>; lastId: number }>();
  #timer: NodeJS.Timeout | undefined;
  #isPolling = false;

  constructor(statements: Statements, { hasOtherWriters }: { hasOtherWriters: boolean }) {
    this.#statements = statements;
    this.#hasOtherWriters = hasOtherWriters;
  }

  /** Subscribes to new lines of a deployment. @returns a function that unsubscribes. */
  watch(deploymentId: string, onLines: () => void): () => void {
    const entry = this.#watched.get(deploymentId) ?? { listeners: new Set(), lastId: 0 };
    this.#watched.set(deploymentId, entry);
    entry.listeners.add(onLines);
    if (this.#hasOtherWriters) {
      this.#timer ??= outsideTransaction(() => setInterval(() => void this.#poll(), pollIntervalMs).unref());
    }
    return () => {
      entry.listeners.delete(onLines);
      if (entry.listeners.size === 0 && this.#watched.get(deploymentId) === entry) this.#watched.delete(deploymentId);
      if (this.#watched.size === 0) this.close();
    };
  }

  /** Notifies the subscribers of these deployments after this process has committed lines of them. */
  notify(deploymentIds: Iterable<string>): void {
    for (const id of deploymentIds) for (const listener of this.#watched.get(id)?.listeners ?? []) listener();
  }

  close(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return;
    this.#isPolling = true;
    try {
      const { rows } = await this.#statements.query<{ id: string; last: number | null }>(sql`
        select id, greatest(
                 (select max(l.id) from log_entries l where l.deployment_id = w.id and l.kind = 'build'),
                 (select max(l.id) from log_entries l where l.deployment_id = w.id and l.kind = 'deploy')) as last
          from unnest(${[...this.#watched.keys()]}::uuid[]) as w (id)`);
      for (const { id, last } of rows) this.#update(id, last ?? 0);
    } catch {
      // The next poll finds the lines.
    } finally {
      this.#isPolling = false;
    }
  }

  #update(deploymentId: string, lastId: number): void {
    const entry = this.#watched.get(deploymentId);
    if (entry === undefined || entry.lastId === lastId) return;
    entry.lastId = lastId;
    for (const listener of entry.listeners) listener();
  }
}
