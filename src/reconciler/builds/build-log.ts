import { randomUUID } from "node:crypto";
import type { BuildLine } from "../../builds/build.ts";
import type { NewLogEntry } from "../../store/logs/log-entries.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { retryDatabase } from "../retry-database.ts";
import type { BuildStore } from "../store.ts";

/** Lines wait at most this long before they are durable, so a client that polls every second sees them at once. */
const flushDelayMs = 100;

/** Lines written at once. A failed batch is written again; the line keys keep stored lines from being stored twice. */
const batchMax = 500;

/** Lines that cannot be written for this long are dropped, and the build ends without them. */
const databaseAwayMs = 30_000;

/** Opens the durable log of one build. Lines are stored in order, in batches; `close` resolves when the last one is stored. */
export function createBuildLog(
  store: Pick<BuildStore, "appendLog">,
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
        // A build must not fail for lost log lines: a database that is away for a moment is not the user's fault.
        await retryDatabase(() => store.appendLog(batch), { forMs: databaseAwayMs }).catch((error: unknown) => {
          const fields = { revision_id: revision.id, lines: batch.length, error: describeError(error) };
          logger.warn(fields, "build log lines lost");
        });
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
