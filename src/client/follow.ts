import { pause } from "../base/pause.ts";
import type { LogEntry, LogLevel, LogPage, LogType } from "../contract/logs/log.ts";
import { isPassing } from "./failure.ts";
import type { Watched } from "./watch.ts";

export interface FollowLogs {
  deployment_id: string;
  /** Absent: all revisions, and the log never ends. */
  revision_id?: string;
  type: LogType;
  level?: LogLevel;
  query?: string;
  /** Time of the first line, ISO 8601. */
  start_time?: string;
}

export interface FollowOptions {
  /** Start with this many of the newest lines instead of all lines. */
  tail?: number;
  /** Pause after a page without new lines, if the server cannot be watched. Default 1_000. */
  intervalMs?: number;
  signal?: AbortSignal;
}

export type ReadLogPage = (
  question: FollowLogs & { order: "asc" | "desc"; limit: number; offset?: string },
  signal?: AbortSignal,
) => Promise<LogPage>;

/** Opens a stream of the lines of one log after a given line, together with the events of the deployment. */
export type WatchLog = (logsAfter: string, signal?: AbortSignal) => AsyncIterable<Watched>;

/** Lines per page. The API allows at most 1_000. */
const pageSize = 500;

/** The server ends a page early when its lines are large. Such a page has at least this many characters. */
const largePage = 1_024 * 1_024;

/** Reports whether a page may have ended before the log did. */
const mayHaveMore = (logs: readonly LogEntry[], limit: number): boolean =>
  logs.length >= limit || logs.reduce((sum, { message }) => sum + message.length, 0) >= largePage;

/** A restarting server is back within this time. A longer outage is reported. */
const outageMaxMs = 60_000;

/**
 * Yields log lines, oldest first and each once, without gaps when connections are lost, because the client holds the
 * cursor. Reads pages until it has caught up, then follows a stream, or polls pages if the server cannot be watched. Ends
 * when the server reports that the log is complete and was read to the end, which happens for build logs.
 */
export async function* followLogs(
  { read, watch }: { read: ReadLogPage; watch: WatchLog },
  question: FollowLogs,
  options: FollowOptions = {},
): AsyncGenerator<LogEntry, void, undefined> {
  const { tail, intervalMs = 1_000, signal } = options;
  const lastOfAll = await endOfLog(read, question, signal);
  // With a tail of 0, the newest line is read anyway, because it marks the start.
  const newest = tail === undefined ? [] : await readTail(read, question, Math.max(1, tail), signal);
  if (tail !== 0) yield* newest;
  const isNew = behind(newest);
  let from: { start_time?: string; offset?: string } = startingAt(newest.at(-1)?.timestamp ?? question.start_time);
  let canWatch = true;
  for (let answeredAt = performance.now(); ; ) {
    const ask = () => read({ ...question, ...from, order: "asc", limit: pageSize }, signal);
    const page = await duringOutage(ask, answeredAt);
    if (page !== undefined) {
      answeredAt = performance.now();
      yield* page.logs.filter(isNew);
      if (page.next_offset === null) return;
      from = { ...from, offset: placeBehind(page.logs, page.next_offset, lastOfAll) };
      if (mayHaveMore(page.logs, pageSize)) continue;
    }
    if (canWatch && from.offset !== undefined) {
      const end = yield* streamed(watch, question, from.offset, signal);
      canWatch = end.canWatch;
      from = { ...from, offset: end.offset };
      if (end.isNews) continue;
    }
    await pause(intervalMs, signal);
  }
}

/**
 * Returns the id of the newest line of the whole log when only some lines are wanted. The last wanted line may be old, and a
 * stream from there would send the whole log. It is read first, so that all wanted lines up to it are on the pages.
 */
async function endOfLog(
  read: ReadLogPage,
  { deployment_id, type, revision_id, level, query }: FollowLogs,
  signal?: AbortSignal,
): Promise<string | undefined> {
  if (revision_id === undefined && level === undefined && query === undefined) return undefined;
  const ask = () => read({ deployment_id, type, order: "desc", limit: 1 }, signal);
  return (await duringOutage(ask, performance.now()))?.logs[0]?.id;
}

/** Returns where to continue. A page that is not full was the last one, so nothing before the end of the log is left. */
function placeBehind(logs: readonly LogEntry[], offset: string, lastOfAll: string | undefined): string {
  if (lastOfAll === undefined || mayHaveMore(logs, pageSize)) return offset;
  return Number(lastOfAll) > Number(offset) ? lastOfAll : offset;
}

/**
 * Yields lines as they arrive, until an event that may have ended the log, or until the stream fails.
 * @returns the position of the last line, and whether to read a page at once.
 */
async function* streamed(
  watch: WatchLog,
  question: FollowLogs,
  after: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<LogEntry, { offset: string; isNews: boolean; canWatch: boolean }, undefined> {
  let offset = after;
  try {
    for await (const watched of watch(offset, signal)) {
      if (watched.kind === "log") {
        offset = watched.line.id;
        if (isWanted(watched.line, question)) yield watched.line;
      } else if (watched.kind === "event" && question.revision_id !== undefined) break;
    }
    return { offset, isNews: true, canWatch: true };
  } catch (error) {
    signal?.throwIfAborted();
    return { offset, isNews: false, canWatch: isPassing(error) };
  }
}

const levels: readonly string[] = ["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"];

/** Reports whether a line passes the filters that the server applies to pages. */
function isWanted(line: LogEntry, { revision_id: revisionId, level, query = "", start_time }: FollowLogs): boolean {
  if (revisionId !== undefined && line.revision_id !== revisionId) return false;
  if (level !== undefined && levels.indexOf(line.level) < levels.indexOf(level)) return false;
  if (start_time !== undefined && line.timestamp < start_time) return false;
  return line.message.toLowerCase().includes(query.toLowerCase());
}

/**
 * Returns a filter for the lines after a tail, on pages that start at the time of the tail's last line. Several lines can
 * have the same time, so these pages repeat earlier lines, including lines that the tail left out.
 */
function behind(tail: readonly LogEntry[]): (entry: LogEntry) => boolean {
  const last = tail.at(-1);
  const sent = new Set(tail.map(({ id }) => id));
  let isReached = false;
  return (entry) => {
    if (sent.has(entry.id)) {
      isReached ||= entry.id === last?.id;
      return false;
    }
    return isReached || last === undefined || entry.timestamp > last.timestamp;
  };
}

const startingAt = (moment: string | undefined) => (moment === undefined ? {} : { start_time: moment });

/** Returns the newest `count` lines, oldest first. */
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
    if (page.next_offset === null || !mayHaveMore(page.logs, limit)) break;
    offset = page.next_offset;
  }
  return newest.reverse();
}

async function duringOutage(read: () => Promise<LogPage>, answeredAt: number): Promise<LogPage | undefined> {
  try {
    return await read();
  } catch (error) {
    if (isPassing(error) && performance.now() - answeredAt < outageMaxMs) return undefined;
    throw error;
  }
}
