import { mkdir, mkdtemp, rm } from "node:fs/promises";
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
import { readMasterKeys } from "./master-keys.ts";
import { fetchBackup } from "./scheduled-backups.ts";
import { openBucket, openUploads } from "./uploads.ts";

/** Begins the name of a backup in the bucket, where a file is expected. */
const bucketPrefix = "bucket:";

/** Limits for unpacking. The archive is the operator's own file, so they only stop absurd sizes. */
const limits = { bytesMax: Number.MAX_SAFE_INTEGER, entriesMax: 10_000_000 };

export interface Restored {
  madeAt: string;
  deployments: number;
  redeployed: number;
}

/**
 * Fills an empty database from a file of `GET /v2/admin/backup`, or from a backup in the bucket (`bucket:NAME`), completely or not at all, and puts the uploads where this
 * installation keeps them. The operator starts the server afterwards.
 * @throws Error when the database was used before, the master key does not match, or the file is not a Pierhead backup.
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
    const bucket = await openBucket(config, signal);
    const named = file.startsWith(bucketPrefix) ? file.slice(bucketPrefix.length) : null;
    const archive = named === null ? file : `${directory}.tar.gz`;
    if (named !== null) {
      if (bucket === null) throw new Error(`${file} needs PIERHEAD_S3_BUCKET`);
      closing.add("downloaded backup", () => rm(archive, { force: true }));
      await fetchBackup(bucket, named, { target: archive, signal });
    }
    await unpackArchive(archive, directory, { limits, signal });
    const manifest = await readManifest(directory);
    const uploads = await openUploads(dataDir, bucket, signal);
    const masterKeys = await readMasterKeys(config, { mayCreate: false });
    const template = databaseTemplateDir === undefined ? {} : { templateDirectory: databaseTemplateDir };
    const db = await openDatabase({ databaseUrl, dataDir, logger, ...template });
    closing.add("database", () => db.close());
    if (!(await isFresh(db)))
      throw new Error(`a server has used this database before: restore into ${emptyTarget(config)}`);
    // Before the database is filled: if this failed afterwards, the filled database would block another try.
    const putBack = await uploads.takeOver(directory, signal);
    const redeployed = await load(db, directory, { manifest, masterKeys, logger }).catch(async (error: unknown) => {
      await putBack();
      throw error;
    });
    return { madeAt: manifest.madeAt, deployments: manifest.rows["deployments"] ?? 0, redeployed };
  } finally {
    await closing.run();
  }
}

const emptyTarget = ({ databaseUrl }: Config) =>
  databaseUrl === undefined ? "another --data-dir" : "an empty one (DATABASE_URL)";

/** Creates the tables as the backup has them, loads the rows, then applies the migrations that this version adds. */
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
    if (missing.length > 0) logger.warn({ migrations: missing }, "data of a newer version was not restored");
    await loadBackup(db, directory, manifest, { leavesOutUnknown: missing.length > 0 });
    await migrate(db);
    // Fails now with a wrong master key, instead of later on the first sealed secret.
    (await openSealer(db, ...masterKeys)).close();
    return activateRestored(db, manifest);
  };
  // Foreign keys are checked in one statement per table, which takes longer for large tables.
  return db.atomically(fill, { timeoutMs: migrationTimeoutMs });
}
