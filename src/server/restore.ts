import { chmod, mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import path from "node:path";
import { unpackArchive } from "../builds/sources/archive.ts";
import { type Db, openDatabase } from "../store/engine/database.ts";
import { lockDirectory } from "../store/engine/embedded/directory-lock.ts";
import { migrate, migrationTimeoutMs } from "../store/engine/migrate.ts";
import {
  activateRestored,
  type BackupManifest,
  isFresh,
  loadBackup,
  readManifest,
} from "../store/maintenance/backup.ts";
import { openSealer } from "../store/secrets/seal.ts";
import type { Logger } from "../telemetry/log.ts";
import { Closing } from "./closing.ts";
import type { Config } from "./config.ts";
import { isThere } from "./files.ts";
import { readMasterKeys } from "./master-keys.ts";

/** An operator's own file: only nonsense is refused. */
const limits = { bytesMax: Number.MAX_SAFE_INTEGER, entriesMax: 10_000_000 };

export interface Restored {
  madeAt: string;
  deployments: number;
  redeployed: number;
}

/**
 * Fills an empty database with what `GET /v2/admin/backup` gave, all of it or nothing, and puts the uploads into the data
 * directory. The server is started afterwards.
 * @throws Error when the database was used before, the master key is another one, or the file is none of ours.
 */
export async function restoreBackup(
  config: Config,
  file: string,
  { logger, signal }: { logger: Logger; signal: AbortSignal },
): Promise<Restored> {
  const { databaseUrl, dataDir, databaseTemplateDir } = config;
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const closing = new Closing(logger);
  try {
    const lock = await lockDirectory(path.join(dataDir, "server.lock"), logger);
    closing.add("data directory", () => lock.release());
    const directory = await mkdtemp(path.join(dataDir, "restore-"));
    closing.add("unpacked backup", () => rm(directory, { recursive: true, force: true }));
    await unpackArchive(file, directory, { limits, signal });
    const manifest = await readManifest(directory);
    const masterKeys = await readMasterKeys(config, { mayMake: false });
    const template = databaseTemplateDir === undefined ? {} : { templateDirectory: databaseTemplateDir };
    const db = await openDatabase({ databaseUrl, dataDir, logger, ...template });
    closing.add("database", () => db.close());
    if (!(await isFresh(db)))
      throw new Error(`a server has used this database before: restore into ${anotherOne(config)}`);
    // Before the database is filled: with one that is, nobody could try again.
    const putBack = await placeUploads(directory, dataDir);
    const redeployed = await load(db, directory, { manifest, masterKeys, logger }).catch(async (error: unknown) => {
      await putBack();
      throw error;
    });
    return { madeAt: manifest.madeAt, deployments: manifest.rows["deployments"] ?? 0, redeployed };
  } finally {
    await closing.run();
  }
}

const anotherOne = ({ databaseUrl }: Config) =>
  databaseUrl === undefined ? "another --data-dir" : "an empty one (DATABASE_URL)";

/** Tables as they were when the backup was made, then as this program has them. */
function load(
  db: Db,
  directory: string,
  { manifest, masterKeys, logger }: { manifest: BackupManifest; masterKeys: [Buffer, Buffer | null]; logger: Logger },
): Promise<number> {
  const fill = async () => {
    const applied = await migrate(db, { only: manifest.migrations });
    const missing = manifest.migrations.filter((name) => !applied.includes(name));
    const needed = missing.find((name) => !manifest.additive?.includes(name));
    if (needed !== undefined) {
      throw new Error(
        `the backup was made by version ${manifest.version}, which has ${needed}: restore it with that version`,
      );
    }
    if (missing.length > 0) logger.warn({ migrations: missing }, "what a newer version had added is left out");
    await loadBackup(db, directory, manifest, { leavesOutUnknown: missing.length > 0 });
    await migrate(db);
    // With another master key nobody could read what is sealed: better said now.
    (await openSealer(db, ...masterKeys)).close();
    return activateRestored(db, manifest);
  };
  // Keys between tables are checked in one statement each, as large as the tables are.
  return db.atomically(fill, { timeoutMs: migrationTimeoutMs });
}

/** @returns what undoes it. */
async function placeUploads(directory: string, dataDir: string): Promise<() => Promise<void>> {
  const [from, to, before] = [
    path.join(directory, "uploads"),
    path.join(dataDir, "uploads"),
    path.join(directory, "before"),
  ];
  if (!(await isThere(from))) return async () => {};
  // As the server makes it, wherever the data directory lies: sources may hold what is nobody else's business.
  await chmod(from, 0o700);
  const wasThere = await isThere(to);
  if (wasThere) await rename(to, before);
  await rename(from, to);
  return async () => {
    await rename(to, from);
    if (wasThere) await rename(before, to);
  };
}
