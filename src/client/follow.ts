import type { LogEntry, LogLevel, LogPage, LogType } from "../contract/log.ts";
import { isPassing } from "./failure.ts";
import { pause } from "./pause.ts";

export interface FollowLogs {
  deployment_id: string;
  /** Absent: all revisions, and the stream never ends by itself. */
  revision_id?: string;
  type: LogType;
  level?: LogLevel;
  query?: string;
  /** First moment of interest, ISO 8601. */
  start_time?: string;
}

export interface FollowOptions {
  /** Start with so many of the newest lines instead of all of them. */
  tail?: number;
  /** Pause after a page without news. Default 1_000. */
  intervalMs?: number;
  signal?: AbortSignal;
}

export type ReadLogPage = (
  question: FollowLogs & { order: "asc" | "desc"; limit: number; offset?: string },
  signal?: AbortSignal,
) => Promise<LogPage>;

/** Lines a page; the API gives at most 1_000. */
const pageSize = 500;

/** A server that restarts is back within this; one that stays away longer is reported. */
const patienceMs = 60_000;

/**
 * Log lines, oldest first, each once, without a gap over lost connections: the cursor is the client's. Ends when the
 * server says that the stream is finished and exhausted, which the logs of a build do.
 */
export async function* followLogs(
  read: ReadLogPage,
  question: FollowLogs,
  options: FollowOptions = {},
): AsyncGenerator<LogEntry, void, undefined> {
  const { tail, intervalMs = 1_000, signal } = options;
  const newest = tail === undefined ? [] : await readTail(read, question, tail, signal);
  yield* newest;
  // Inclusive: lines of the same moment come again and are known by their ids.
  let seen = new Set(newest.map(({ id }) => id));
  let from: { start_time?: string; offset?: string } = startingAt(newest.at(-1)?.timestamp ?? question.start_time);
  for (let answeredAt = Date.now(); ; ) {
    const ask = () => read({ ...question, ...from, order: "asc", limit: pageSize }, signal);
    const page = await patiently(ask, answeredAt);
    if (page !== undefined) {
      answeredAt = Date.now();
      yield* page.logs.filter((entry) => !seen.has(entry.id));
      if (page.next_offset === null) return;
      seen = new Set([...(from.offset === undefined ? seen : []), ...page.logs.map(({ id }) => id)]);
      from = { ...from, offset: page.next_offset };
    }
    if (page === undefined || page.logs.length < pageSize) await pause(intervalMs, signal);
  }
}

const startingAt = (moment: string | undefined) => (moment === undefined ? {} : { start_time: moment });

/** The newest `count` lines, oldest first. */
export async function readTail(
  read: ReadLogPage,
  question: FollowLogs,
  count: number,
  signal?: AbortSignal,
): Promise<LogEntry[]> {
  const newest: LogEntry[] = [];
  for (let offset: string | undefined; newest.length < count; ) {
    const limit = Math.min(count - newest.length, pageSize);
    const from = offset === undefined ? {} : { offset };
    const page = await read({ ...question, ...from, order: "desc", limit }, signal);
    newest.push(...page.logs);
    if (page.next_offset === null || page.logs.length < limit) break;
    offset = page.next_offset;
  }
  return newest.reverse();
}

async function patiently(read: () => Promise<LogPage>, answeredAt: number): Promise<LogPage | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isPassing(error) && Date.now() - answeredAt < patienceMs) return undefined;
    throw error;
  }
}
