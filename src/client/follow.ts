import type { LogEntry, LogLevel, LogPage, LogType } from "../contract/logs/log.ts";
import { isPassing } from "./failure.ts";
import { pause } from "./pause.ts";
import type { Watched } from "./watch.ts";

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
  /** Pause after a page without news, where the server cannot be watched. Default 1_000. */
  intervalMs?: number;
  signal?: AbortSignal;
}

export type ReadLogPage = (
  question: FollowLogs & { order: "asc" | "desc"; limit: number; offset?: string },
  signal?: AbortSignal,
) => Promise<LogPage>;

/** Opens a stream of lines of one log after a line, with what happens to the deployment. */
export type WatchLog = (logsAfter: string, signal?: AbortSignal) => AsyncIterable<Watched>;

/** Lines a page; the API gives at most 1_000. */
const pageSize = 500;

/** A server that restarts is back within this; one that stays away longer is reported. */
const patienceMs = 60_000;

/**
 * Log lines, oldest first, each once, without a gap over lost connections: the cursor is the client's. Pages until it
 * has caught up, then lines as they are written, or pages again where the server cannot be watched. Ends when the server
 * says that the stream is finished and exhausted, which the logs of a build do.
 */
export async function* followLogs(
  { read, watch }: { read: ReadLogPage; watch: WatchLog },
  question: FollowLogs,
  options: FollowOptions = {},
): AsyncGenerator<LogEntry, void, undefined> {
  const { tail, intervalMs = 1_000, signal } = options;
  const lastOfAll = await endOfLog(read, question, signal);
  // Of none at all the newest is read, too: it says where to begin.
  const newest = tail === undefined ? [] : await readTail(read, question, Math.max(1, tail), signal);
  if (tail !== 0) yield* newest;
  const isNew = behind(newest);
  let from: { start_time?: string; offset?: string } = startingAt(newest.at(-1)?.timestamp ?? question.start_time);
  let canWatch = true;
  for (let answeredAt = performance.now(); ; ) {
    const ask = () => read({ ...question, ...from, order: "asc", limit: pageSize }, signal);
    const page = await patiently(ask, answeredAt);
    if (page !== undefined) {
      answeredAt = performance.now();
      yield* page.logs.filter(isNew);
      if (page.next_offset === null) return;
      from = { ...from, offset: placeBehind(page.logs, page.next_offset, lastOfAll) };
      if (page.logs.length >= pageSize) continue;
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
 * The newest line of all, where only some are wanted: the last of those may be long ago, and a stream from there would send
 * the whole log. Asked for before anything else, so that all wanted ones up to it are on the pages.
 */
async function endOfLog(
  read: ReadLogPage,
  { deployment_id, type, revision_id, level, query }: FollowLogs,
  signal?: AbortSignal,
): Promise<string | undefined> {
  if (revision_id === undefined && level === undefined && query === undefined) return undefined;
  const ask = () => read({ deployment_id, type, order: "desc", limit: 1 }, signal);
  return (await patiently(ask, performance.now()))?.logs[0]?.id;
}

/** A page that is not full was the last one: of what came before the end of the log, nothing is left. */
function placeBehind(logs: readonly LogEntry[], offset: string, lastOfAll: string | undefined): string {
  if (lastOfAll === undefined || logs.length >= pageSize) return offset;
  return Number(lastOfAll) > Number(offset) ? lastOfAll : offset;
}

/**
 * Lines as they come, until something else happened that may have ended the log, or the stream cannot be had.
 * @returns the last line's place, and whether it is worth to read a page at once.
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

/** What the server would have left out of a page. */
function isWanted(line: LogEntry, { revision_id: revisionId, level, query = "", start_time }: FollowLogs): boolean {
  if (revisionId !== undefined && line.revision_id !== revisionId) return false;
  if (level !== undefined && levels.indexOf(line.level) < levels.indexOf(level)) return false;
  if (start_time !== undefined && line.timestamp < start_time) return false;
  return line.message.toLowerCase().includes(query.toLowerCase());
}

/**
 * Tells the lines behind a tail, of pages that begin with the moment of its last one: what was written at once has one
 * moment, so lines before it come again, those that were left out of the tail among them.
 */
function behind(tail: readonly LogEntry[]): (entry: LogEntry) => boolean {
  const last = tail.at(-1);
  const told = new Set(tail.map(({ id }) => id));
  let isReached = false;
  return (entry) => {
    if (told.has(entry.id)) {
      isReached ||= entry.id === last?.id;
      return false;
    }
    return isReached || last === undefined || entry.timestamp > last.timestamp;
  };
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
    if (isPassing(error) && performance.now() - answeredAt < patienceMs) return undefined;
    throw error;
  }
}
