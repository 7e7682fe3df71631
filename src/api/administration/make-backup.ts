import { mkdir, mkdtemp, rm } from "node:fs/promises";
import path from "node:path";
import type { Readable } from "node:stream";
import { create } from "tar";
import type { Uploads } from "../../builds/sources/uploads.ts";
import type { Db } from "../../store/engine/database.ts";
import { auditBackup, writeBackup } from "../../store/maintenance/backup.ts";
import type { Logger } from "../../telemetry/log.ts";

export interface BackupParts {
  db: Db;
  /** null: the backup has no uploads, because they are where it is stored. */
  uploads: Uploads | null;
  logger: Logger;
  /** Version of the program. */
  version: string;
  dataDir: string;
}

/** Beside the uploads, so that they can be hard-linked. */
export const backupDrafts = (dataDir: string) => path.join(dataDir, "backup-drafts");

/** Returns the name of a backup that is made at this time. Names in order are times in order. */
export const backupName = (at: Date) => `pierhead-${at.toISOString().replaceAll(/[-:]|\.\d+/g, "")}.tar.gz`;

/**
 * Makes a backup as of one moment and writes it into the audit log.
 * @param take reads the archive to its end. It is called once the backup is complete on the disk.
 */
export async function makeBackup(
  { db, uploads, logger, version, dataDir }: BackupParts,
  { actor, signal }: { actor: string; signal: AbortSignal },
  take: (open: () => Readable) => Promise<void>,
): Promise<void> {
  const drafts = backupDrafts(dataDir);
  await mkdir(drafts, { recursive: true, mode: 0o700 });
  const directory = await mkdtemp(path.join(drafts, "draft-"));
  try {
    const written = await writeBackup(db, directory, { version, signal });
    for (const objectPath of uploads === null ? [] : written.uploads) {
      const target = path.join(directory, objectPath);
      await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
      await uploads?.copyTo(objectPath, target, signal);
    }
    await auditBackup(db, actor, written.manifest);
    logger.info({ actor, rows: written.manifest.rows["deployments"] }, "backup written");
    await take(() => {
      const archive = create({ cwd: directory, gzip: true, portable: true }, ["."]) as unknown as Readable;
      // Its reader may have left when the files are removed. An error without a listener would end the server.
      return archive.on("error", () => {});
    });
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
