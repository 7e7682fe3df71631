import { mkdir, mkdtemp, rm } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import path from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { gzipSync } from "node:zlib";
import { create } from "tar";
import { operations } from "../../contract/operations.ts";
import { auditBackup, writeBackup } from "../../store/maintenance/backup.ts";
import { describeError } from "../../telemetry/log.ts";
import { type Api, adminRoute } from "../http/route.ts";

/** Adds the route that returns a consistent backup of everything, for the operator. */
export function addBackupRoute(api: Api): void {
  const { db, logger, settings } = api.deps;
  // Beside the uploads, so that they can be hard-linked.
  const drafts = path.join(settings.dataDir, "backup-drafts");
  // Drafts of a server that crashed are useless, and as large as the database.
  api.server.addHook("onReady", () => rm(drafts, { recursive: true, force: true }));

  adminRoute(api, operations.getBackup, async ({ principal, signal, takeOver }) => {
    const name = `pierhead-${new Date().toISOString().replaceAll(/[-:]|\.\d+/g, "")}.tar.gz`;
    const headers = { "content-type": "application/gzip", "content-disposition": `attachment; filename="${name}"` };
    let begun: ServerResponse | undefined;
    const answer = () => {
      begun ??= takeOver({ ...headers, "cache-control": "no-store" });
      return begun;
    };
    await mkdir(drafts, { recursive: true, mode: 0o700 });
    const directory = await mkdtemp(path.join(drafts, "draft-"));
    const keepAlive = setInterval(() => {
      if (!signal.aborted) answer().write(emptyGzip);
    }, keepAliveMs);
    try {
      const { manifest, uploads } = await writeBackup(db, directory, { version: settings.version, signal });
      for (const objectPath of uploads) {
        const target = path.join(directory, objectPath);
        await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
        await api.deps.uploads.copyTo(objectPath, target, signal);
      }
      await auditBackup(db, principal.actor, manifest);
      logger.info({ actor: principal.actor, rows: manifest.rows["deployments"] }, "backup written");
      clearInterval(keepAlive);
      const archive = create({ cwd: directory, gzip: true, portable: true }, ["."]) as unknown as Readable;
      await pipeline(archive, answer(), { signal });
    } catch (error) {
      // The response has started, so closing the connection is the only way left to report the failure.
      if (begun !== undefined && !signal.aborted) logger.error({ error: describeError(error) }, "backup failed");
      begun?.destroy();
      throw error;
    } finally {
      clearInterval(keepAlive);
      await rm(directory, { recursive: true, force: true });
    }
  });
}

/** Interval of keep-alive bytes. Proxies give up on a silent response after a minute, Node's `fetch` after five. */
const keepAliveMs = 10_000;

/** A gzip file may start with any number of empty members. */
const emptyGzip = gzipSync("");
