import { type BackupParts, backupName, makeBackup } from "../api/administration/make-backup.ts";
import type { ObjectStorage } from "../integrations/object-storage.ts";
import { acquireLease, releaseLease, renewLease } from "../store/queue/leases.ts";
import { describeError } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";

const folder = "backups/";
const checkIntervalMs = 300_000;
const firstCheckMs = 3_000;
const hourMs = 3_600_000;
const leaseName = "backup";
const leaseMs = 60_000;
/** Limit for a list or a deletion. */
const callTimeoutMs = 60_000;

export interface ScheduledBackupsOptions extends Omit<BackupParts, "uploads"> {
  storage: ObjectStorage;
  newestAt: Metrics["newestBackup"];
  settings: {
    /** Unique to this start of the server. */
    owner: string;
    everyHours: number;
    keptMax: number;
  };
}

/**
 * Writes a backup of the installation into the bucket every few hours, from one server at a time, and deletes the oldest ones. The
 * names of the backups are all it remembers.
 */
export class ScheduledBackups {
  readonly #options: ScheduledBackupsOptions;
  readonly #stopping = new AbortController();
  #running: Promise<void> = Promise.resolve();
  #timers: NodeJS.Timeout[] = [];

  constructor(options: ScheduledBackupsOptions) {
    this.#options = options;
  }

  start(): void {
    const check = () => {
      this.#running = this.#running.then(() => this.check());
    };
    this.#timers = [setTimeout(check, firstCheckMs).unref(), setInterval(check, checkIntervalMs).unref()];
  }

  /** Writes a backup if one is due and no other server writes one. A failure is logged, and the next check tries again. */
  async check(): Promise<void> {
    try {
      const names = await this.#names();
      this.#report(names);
      if (!this.#isDue(names)) return;
      await this.#alone((signal) => this.#write(signal));
      this.#report(await this.#names());
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#options.logger.error({ error: describeError(error) }, "scheduled backup failed");
    }
  }

  #report(names: string[]): void {
    const newest = timeOf(names.at(-1));
    if (newest !== null) this.#options.newestAt.set(newest.getTime() / 1_000);
  }

  async stop(): Promise<void> {
    for (const timer of this.#timers) clearTimeout(timer);
    this.#stopping.abort(new Error("the server is stopping"));
    await this.#running;
  }

  #names(): Promise<string[]> {
    return listBackups(this.#options.storage, this.#signal());
  }

  #isDue(names: string[]): boolean {
    const newest = timeOf(names.at(-1));
    const { db, settings } = this.#options;
    return newest === null || db.now().getTime() - newest.getTime() >= settings.everyHours * hourMs;
  }

  async #write(signal: AbortSignal): Promise<void> {
    const { db, storage, logger, settings } = this.#options;
    // Another server may have written one while this one waited for the lease.
    if (!this.#isDue(await this.#names())) return;
    const name = backupName(db.now());
    // The bucket has the uploads already. A copy of all of them for each backup could fill the disk and the bucket.
    await makeBackup({ ...this.#options, uploads: null }, { actor: "system", signal }, (open) =>
      storage.putStream(folder + name, open, signal),
    );
    logger.info({ name }, "backup stored in the bucket");
    for (const old of (await this.#names()).slice(0, -settings.keptMax)) await storage.remove(folder + old, signal);
  }

  /** Does work under the lease, if it is free. Stops the work when another server has taken the lease. */
  async #alone(act: (signal: AbortSignal) => Promise<void>): Promise<void> {
    const { db, settings } = this.#options;
    const lease = { name: leaseName, owner: settings.owner };
    if (!(await acquireLease(db, { ...lease, leaseMs }))) return;
    const lost = new AbortController();
    const renewal = setInterval(async () => {
      const isOurs = await renewLease(db, { ...lease, leaseMs }).catch(() => true);
      if (!isOurs) lost.abort(new Error("another server writes the backup"));
    }, leaseMs / 3);
    try {
      await act(AbortSignal.any([this.#stopping.signal, lost.signal]));
    } finally {
      clearInterval(renewal);
      await releaseLease(db, lease);
    }
  }

  #signal(): AbortSignal {
    return AbortSignal.any([this.#stopping.signal, AbortSignal.timeout(callTimeoutMs)]);
  }
}

/** Returns the names of the backups, oldest first. Other objects beside them are left out. */
async function listBackups(storage: ObjectStorage, signal: AbortSignal): Promise<string[]> {
  const keys = await storage.list(folder, signal);
  return keys.map((key) => key.slice(folder.length)).filter((name) => timeOf(name) !== null);
}

/** Returns when a backup of this name was made; null: it is not the name of a backup. */
function timeOf(name: string | undefined): Date | null {
  const parts = /^pierhead-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z\.tar\.gz$/.exec(name ?? "");
  if (parts === null) return null;
  const [, year, month, day, hours, minutes, seconds] = parts;
  return new Date(`${year}-${month}-${day}T${hours}:${minutes}:${seconds}Z`);
}

/**
 * Downloads a backup from the bucket into a new file.
 * @param name `latest`, or the name of a backup
 * @throws Error naming the backups that are there
 */
export async function fetchBackup(
  storage: ObjectStorage,
  name: string,
  { target, signal }: { target: string; signal: AbortSignal },
): Promise<void> {
  const names = await listBackups(storage, signal);
  const chosen = name === "latest" ? names.at(-1) : names.find((one) => one === name);
  if (chosen === undefined) {
    const some = names.slice(-5).reverse().join(", ");
    throw new Error(`the bucket has no backup '${name}'. ${some === "" ? "It has none." : `The newest: ${some}.`}`);
  }
  if (!(await storage.fetchTo(folder + chosen, target, signal)))
    throw new Error(`the backup '${chosen}' was deleted meanwhile: restore another one`);
}
