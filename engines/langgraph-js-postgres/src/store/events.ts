import type { Database, Query } from "./database.ts";
import { plainText } from "./json.ts";
import { channelOf } from "./signals.ts";

export interface NewEvent {
  seq: number;
  event: string;
  /** JSON text. */
  data: string;
  normalized: boolean | null;
}

export interface StoredEvent {
  seq: number;
  event: string;
  data: unknown;
  normalized: boolean | null;
}

/** Most events that one read returns. */
const pageSize = 500;

/** Appends events to the stream of a run and tells all replicas. @returns false if the lease is lost. */
export async function append(database: Database, runId: string, lease: string, events: NewEvent[]): Promise<boolean> {
  const [row] = await database.query<{ n: string }>(
    `with lease as (select 1 from @runs where run_id = $1 and lease_owner = $2 and status = 'running' for share),
     written as (
       insert into @events (run_id, seq, event, data, normalized)
       select $1, e.* from unnest($3::integer[], $4::text[], $5::json[], $6::boolean[]) e, lease
       on conflict do nothing returning 1)
     select count(*) as n, pg_notify($7, $8)::text from lease`,
    [
      runId,
      lease,
      events.map((event) => event.seq),
      events.map((event) => plainText(event.event)),
      events.map((event) => event.data),
      events.map((event) => event.normalized),
      channelOf(database.schema),
      `events ${runId}`,
    ],
  );
  return row?.n !== "0";
}

/** Returns the next events after one, and whether the stream was complete before they were read. */
export async function read(
  query: Query,
  runId: string,
  after: number,
): Promise<{ events: StoredEvent[]; ended: boolean }> {
  const ended = await isEnded(query, runId);
  const events = await query<StoredEvent>(
    `select seq, event, data, normalized from @events where run_id = $1 and seq > $2 order by seq limit ${pageSize}`,
    [runId, after],
  );
  return { events, ended: ended && events.length < pageSize };
}

/** Whether the run has ended or is gone. */
export async function isEnded(query: Query, runId: string): Promise<boolean> {
  const [row] = await query(
    `select 1 from @runs where run_id = $1 and status in ('pending', 'running')
       and not exists (select 1 from @ended_streams where run_id = $1)`,
    [runId],
  );
  return row === undefined;
}

/** Returns the number of the last event; -1 before the first. */
export async function lastSeq(query: Query, runId: string): Promise<number> {
  const [row] = await query<{ last: number | null }>("select max(seq) as last from @events where run_id = $1", [runId]);
  return row?.last ?? -1;
}

/** Returns what a client that waits for the run gets: its last values or error. */
export async function lastOutput(query: Query, runId: string): Promise<StoredEvent | undefined> {
  const [row] = await query<StoredEvent>(
    `select seq, event, data, normalized from @events where run_id = $1 and event in ('values', 'error')
     order by seq desc limit 1`,
    [runId],
  );
  return row;
}
