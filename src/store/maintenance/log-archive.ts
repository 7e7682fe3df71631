import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import type { LogEntryRow } from "../logs/log-entries.ts";
import { deleteLogLines, findLongLogs } from "./retention.ts";

/** Consecutive agent log lines of one deployment, which leave the database. */
export interface OldLines {
  deploymentId: string;
  /** In the order of their ids. The first one names the batch. */
  lines: [LogEntryRow, ...LogEntryRow[]];
}

/** Lines of one batch, which are in memory at once. */
const batchLines = 1_000;

/** A batch ends with the line that reaches this size. A line has at most 64 KiB, so the lines alone could make 64 MiB. */
const batchBytes = 4 * 1024 * 1024;

/** A long log loses lines in batches of at least this many, because each batch becomes a file. */
const excessMin = 5_000;

/**
 * Moves agent log lines out of the database, batch by batch: `keep` stores a batch, then its lines are deleted. A server that dies
 * in between stores a batch twice. Moves lines from before `before`, and all but the newest `linesMax` lines of each deployment.
 * @returns how many lines.
 * @throws what `keep` throws; the lines of that batch stay
 */
export async function moveOldLines(
  db: Db,
  { before, linesMax }: { before: Date; linesMax: number },
  keep: (old: OldLines) => Promise<void>,
  signal: AbortSignal,
): Promise<number> {
  let total = 0;
  const { rows } = await db.query<{ deployment_id: string; last_id: number }>(sql`
    select deployment_id, max(id) as last_id from log_entries where logged_at < ${before} and kind = 'deploy'
     group by deployment_id`);
  for (const { deployment_id: deploymentId, last_id: lastId } of rows)
    total += await moveLines(db, { deploymentId, before, lastId }, keep, signal);
  for await (const { id: deploymentId, lastId } of findLongLogs(db, linesMax, signal)) {
    const { rows: found } = await db.query<{ id: number }>(sql`
      select id from log_entries where deployment_id = ${deploymentId} and kind = 'deploy' and id <= ${lastId}
       order by id desc offset ${excessMin - 1} limit 1`);
    if (found.length > 0) total += await moveLines(db, { deploymentId, before: null, lastId }, keep, signal);
  }
  return total;
}

async function moveLines(
  db: Db,
  { deploymentId, before, lastId }: { deploymentId: string; before: Date | null; lastId: number },
  keep: (old: OldLines) => Promise<void>,
  signal: AbortSignal,
): Promise<number> {
  let total = 0;
  // Deleted rows stay in the index for a while. Starting after the last one avoids skipping them again in each batch.
  let after = 0;
  while (!signal.aborted) {
    const { rows } = await db.query<LogEntryRow>(sql`
      select id, revision_id, replica_id, stream, level, logged_at, message from (
        select *, sum(octet_length(message)) over (order by id) - octet_length(message) as bytes_before from log_entries
         where deployment_id = ${deploymentId} and kind = 'deploy' and id > ${after} and id <= ${lastId}
           and (${before}::timestamptz is null or logged_at < ${before}::timestamptz)
         order by id limit ${batchLines}) next
       where bytes_before < ${batchBytes} order by id`);
    const lines = firstDayOf(rows);
    const last = lines?.at(-1);
    if (lines === null || last === undefined) break;
    await keep({ deploymentId, lines });
    await deleteLogLines(
      db,
      lines.map(({ id }) => id),
    );
    total += lines.length;
    after = last.id;
  }
  return total;
}

/** Returns the leading rows of one day, because files are named by their day. */
function firstDayOf([first, ...rest]: LogEntryRow[]): OldLines["lines"] | null {
  if (first === undefined) return null;
  const next = rest.findIndex((row) => dayOf(row.logged_at) > dayOf(first.logged_at));
  return [first, ...(next === -1 ? rest : rest.slice(0, next))];
}

/** The day in UTC: `2026-11-29`. */
export const dayOf = (time: Date): string => time.toISOString().slice(0, 10);
