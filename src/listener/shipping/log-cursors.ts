import { readFile, rename, writeFile } from "node:fs/promises";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { Clock } from "../clock.ts";

/** A crash repeats at most this much; the control plane drops lines it has. */
const saveDelayMs = 5_000;

/** How far each replica's output has reached the control plane, kept over a restart in one small file. */
export class LogCursors {
  readonly #path: string | null;
  readonly #clock: Clock;
  readonly #logger: Logger;
  #cursors = new Map<string, string>();
  #isSaveScheduled = false;
  #cancelSave = () => {};
  #saving: Promise<void> = Promise.resolve();

  /** Without a path everything is read again after a restart. */
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
      if (!isMissing) this.#logger.warn({ error: describeError(error) }, "log positions are lost; logs are read again");
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

  /** Forgets replicas that were removed while nobody looked. */
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
        // Whole or not at all: a half-written file would read everything again.
        await writeFile(`${path}.new`, JSON.stringify(Object.fromEntries(this.#cursors)), { mode: 0o600 });
        await rename(`${path}.new`, path);
      } catch (error) {
        this.#logger.warn({ error: describeError(error) }, "log positions could not be saved");
      }
    });
  }
}
