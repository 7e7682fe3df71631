import type { Settings } from "../settings.ts";
import type { Database } from "./database.ts";
import { deleteThreads } from "./deletions.ts";

/** Rows that one statement deletes, so that no lock is held long. */
const batchSize = 500;

/** Deletes what is older than its time: events of ended runs, threads and items. */
export async function sweep(database: Database, settings: Settings): Promise<void> {
  while ((await sweepStreams(database, settings.eventTtlMs)) === batchSize);
  if (settings.itemTtlMs !== undefined) {
    const old = "delete from @items where updated_at < now() - $1 * interval '1 millisecond'";
    await database.query(old, [settings.itemTtlMs]);
  }
  if (settings.threadTtlMs !== undefined) await sweepThreads(database, settings.threadTtlMs);
}

/** Deletes both in one transaction: without its row here, nothing would find the events again. @returns the number of streams. */
function sweepStreams(database: Database, ttlMs: number): Promise<number> {
  return database.transaction(async (query) => {
    const streams = await query<{ run_id: string }>(
      `delete from @ended_streams where run_id in (select run_id from @ended_streams
         where ended_at < now() - $1 * interval '1 millisecond' limit ${batchSize} for update skip locked) returning run_id`,
      [ttlMs],
    );
    await query("delete from @events where run_id = any($1)", [streams.map((row) => row.run_id)]);
    return streams.length;
  });
}

function sweepThreads(database: Database, ttlMs: number): Promise<void> {
  return database.transaction(async (query) => {
    const rows = await query<{ thread_id: string }>(
      `select thread_id from @threads t where updated_at < now() - $1 * interval '1 millisecond'
         and not exists (select 1 from @runs r where r.thread_id = t.thread_id and r.status in ('pending', 'running'))
         and not exists (select 1 from @crons c where c.thread_id = t.thread_id)
       limit ${batchSize} for update skip locked`,
      [ttlMs],
    );
    await deleteThreads(
      query,
      database.schema,
      rows.map((row) => row.thread_id),
    );
  });
}
