import { randomUUID } from "node:crypto";
import type { BuildLine } from "../../builds/build.ts";
import type { Db } from "../../store/engine/database.ts";
import { appendLogEntries, type NewLogEntry } from "../../store/logs/log-entries.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { tryAgain } from "../retry-database.ts";

/** Lines wait at most this long before they are durable: a watcher who polls each second sees them at once. */
const flushDelayMs = 100;

/** Written at once; what fails is tried again, and lines that are stored already are passed over by their keys. */
const batchMax = 500;

/** After this long without a database the lines are given up, and the build ends without them. */
const databaseAwayMs = 30_000;

/** Durable log of one build. Lines are written in order, in batches; `close` resolves when the last one is stored. */
export function createBuildLog(
  db: Db,
  revision: { id: string; deploymentId: string },
  logger: Logger,
): { write(line: BuildLine): void; close(): Promise<void> } {
  const waiting: NewLogEntry[] = [];
  let timer: NodeJS.Timeout | undefined;
  let flushed: Promise<void> = Promise.resolve();
  const run = randomUUID();
  let count = 0;

  const flush = () => {
    timer = undefined;
    flushed = flushed.then(async () => {
      while (waiting.length > 0) {
        const batch = waiting.splice(0, batchMax);
        // Losing log lines must not fail a build: the database being away for a moment is not the user's fault.
        await tryAgain(() => appendLogEntries(db, batch), { forMs: databaseAwayMs }).catch((error: unknown) =>
          logger.warn(
            { revision_id: revision.id, lines: batch.length, error: describeError(error) },
            "build log lines lost",
          ),
        );
      }
    });
  };

  return {
    write(line) {
      count += 1;
      waiting.push({
        deployment_id: revision.deploymentId,
        revision_id: revision.id,
        kind: "build",
        replica_id: null,
        stream: line.stream,
        level: line.level,
        logged_at: line.timestamp,
        message: line.message,
        line_key: `${run}/${count}`,
      });
      timer ??= setTimeout(flush, flushDelayMs);
    },
    async close() {
      if (timer !== undefined) clearTimeout(timer);
      flush();
      await flushed;
    },
  };
}
