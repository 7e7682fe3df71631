import { readFile, rename, writeFile } from "node:fs/promises";
import type { Clock } from "../../base/clock.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";

/** After a crash, at most this much is sent again. The control plane drops duplicate lines. */
const saveDelayMs = 5_000;

/** How far each replica's logs were shipped, stored in one small file across restarts. */
export class LogCursors {
  readonly #path: string | null;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #cursors = new Map<string, string>();
  #isSaveScheduled = false;
  #cancelSave = () => {};
  #saving: Promise<void> = Promise.resolve();

  /** Without a path, all logs are read again after a restart. */
  constructor({ path, clock, logger }: { path: string | null; clock: Clock; logger: Logger }) {
    this.#path = path;
    this.#clock = clock;
    this.#logger = logger;
  }

  async load(): Promise<void> {
    if (this.#path === null) return;
    try {
      this.#cursors = new Map(Object.entries(JSON.parse(await readFile(this.#path, "utf8"))));
    } catch (error) {
      const isMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
      if (!isMissing) this.#logger.warn({ error: describeError(error) }, "log cursors unreadable, reading logs again");
    }
  }

  get(replicaId: string): string | null {
    return this.#cursors.get(replicaId) ?? null;
  }

  set(replicaId: string, cursor: string): void {
    if (this.#cursors.get(replicaId) === cursor) return;
    this.#cursors.set(replicaId, cursor);
    this.#scheduleSave();
  }

  delete(replicaId: string): void {
    if (this.#cursors.delete(replicaId)) this.#scheduleSave();
  }

  /** Forgets replicas that were removed while no listener was running. */
  keepOnly(replicaIds: ReadonlySet<string>): void {
    for (const replicaId of this.#cursors.keys()) if (!replicaIds.has(replicaId)) this.delete(replicaId);
  }

  async close(): Promise<void> {
    this.#cancelSave();
    if (this.#isSaveScheduled) this.#save();
    await this.#saving;
  }

  #scheduleSave(): void {
    if (this.#isSaveScheduled || this.#path === null) return;
    this.#isSaveScheduled = true;
    this.#cancelSave = this.#clock.setTimeout(() => this.#save(), saveDelayMs);
  }

  #save(): void {
    this.#isSaveScheduled = false;
    const path = this.#path;
    if (path === null) return;
    this.#saving = this.#saving.then(async () => {
      try {
        // Write to a new file and rename it. After a partial write, all logs would be read again.
        await writeFile(`${path}.new`, JSON.stringify(Object.fromEntries(this.#cursors)), { mode: 0o600 });
        await rename(`${path}.new`, path);
      } catch (error) {
        this.#logger.warn({ error: describeError(error) }, "log cursors could not be saved");
      }
    });
  }
}
