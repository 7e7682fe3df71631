import { rm } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { pipeline } from "node:stream/promises";
import { gzipSync } from "node:zlib";
import { operations } from "../../contract/operations.ts";
import { describeError } from "../../telemetry/log.ts";
import { type Api, adminRoute } from "../http/route.ts";
import { backupDrafts, backupName, makeBackup } from "./make-backup.ts";

/** Adds the route that returns a consistent backup of everything, for the operator. */
export function addBackupRoute(api: Api): void {
  const { logger, settings } = api.deps;
  // Drafts of a server that crashed are useless, and as large as the database.
  api.server.addHook("onReady", () => rm(backupDrafts(settings.dataDir), { recursive: true, force: true }));

  adminRoute(api, operations.getBackup, async ({ principal, signal, takeOver }) => {
    const disposition = `attachment; filename="${backupName(new Date())}"`;
    const headers = { "content-type": "application/gzip", "content-disposition": disposition };
    let begun: ServerResponse | undefined;
    const answer = () => {
      begun ??= takeOver({ ...headers, "cache-control": "no-store" });
      return begun;
    };
    const keepAlive = setInterval(() => {
      if (!signal.aborted) answer().write(emptyGzip);
    }, keepAliveMs);
    try {
      await makeBackup({ ...api.deps, ...settings }, { actor: principal.actor, signal }, (open) => {
        clearInterval(keepAlive);
        return pipeline(open(), answer(), { signal });
      });
    } catch (error) {
      // The response has started, so closing the connection is the only way left to report the failure.
      if (begun !== undefined && !signal.aborted) logger.error({ error: describeError(error) }, "backup failed");
      begun?.destroy();
      throw error;
    } finally {
      clearInterval(keepAlive);
    }
  });
}

/** Interval of keep-alive bytes. Proxies give up on a silent response after a minute, Node's `fetch` after five. */
const keepAliveMs = 10_000;

/** A gzip file may start with any number of empty members. */
const emptyGzip = gzipSync("");
