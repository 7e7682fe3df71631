import { pause } from "../base/pause.ts";
import type { FoundLogEntry, LogSearch, SearchLogsQuery } from "../contract/logs/search.ts";
import { isPassing } from "./failure.ts";

export interface FollowSearch {
  /** In the language of log searches. */
  query?: string;
  /** Time of the first line, ISO 8601. */
  start_time: string;
}

export type SearchLogs = (input: Partial<SearchLogsQuery>, signal?: AbortSignal) => Promise<LogSearch>;

export interface FollowSearchOptions {
  /** Pause between two searches. Default 2_000. */
  intervalMs?: number;
  /** Lines that the caller has already. */
  seen?: Iterable<FoundLogEntry>;
  signal?: AbortSignal;
}

const pageSize = 1_000;

/** Listeners send lines in batches, and clocks differ, so a line may arrive after newer ones. Each search goes back this far. */
const overlapMs = 15_000;

/** A restarting server is back within this time. A longer outage is reported. */
const outageMaxMs = 60_000;

/**
 * Yields the matching lines of all deployments as they are stored, each once, as batches in the order of their times. A line
 * that arrives more than 15 seconds after newer ones is left out. Ends only with the signal.
 */
export async function* followSearch(
  search: SearchLogs,
  { query, start_time }: FollowSearch,
  { intervalMs = 2_000, seen = [], signal }: FollowSearchOptions = {},
): AsyncGenerator<FoundLogEntry[], void, undefined> {
  let startMs = Date.parse(start_time);
  let known = new Map([...seen].map(({ id, timestamp }) => [id, Date.parse(timestamp)]));
  for (let answeredAt = performance.now(); ; ) {
    try {
      const fresh: FoundLogEntry[] = [];
      for (let cursor: string | undefined; ; ) {
        const at = new Date(startMs).toISOString();
        const page = await search(
          { ...(query && { query }), start_time: at, limit: pageSize, ...(cursor && { cursor }) },
          signal,
        );
        answeredAt = performance.now();
        fresh.push(...page.logs.filter(({ id }) => !known.has(id)));
        if (page.next_cursor === null) break;
        cursor = page.next_cursor;
      }
      for (const { id, timestamp } of fresh) known.set(id, Date.parse(timestamp));
      if (fresh.length > 0) yield fresh.reverse();
      for (const ms of known.values()) startMs = Math.max(startMs, ms - overlapMs);
      known = new Map([...known].filter(([, ms]) => ms >= startMs));
    } catch (error) {
      if (!isPassing(error) || performance.now() - answeredAt > outageMaxMs) throw error;
    }
    await pause(intervalMs, signal);
  }
}
