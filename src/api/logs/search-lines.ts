import { setTimeout as sleep } from "node:timers/promises";
import { logSearchLinesMax } from "../../contract/logs/search.ts";
import type { Db } from "../../store/engine/database.ts";
import {
  type FoundLogRow,
  type LogCountRow,
  type LogPosition,
  type LogStep,
  searchLogStep,
} from "../../store/logs/search-logs.ts";

export interface LinesToSearch extends Pick<LogStep, "tenantId" | "query" | "startAt" | "limit" | "stepMs"> {
  /** Only lines before this position. */
  from: LogPosition;
  signal: AbortSignal;
}

export interface SearchedLines {
  found: FoundLogRow[];
  /** Where the search for more lines continues. null: the range was searched. */
  next: LogPosition | null;
  read: number;
  matches: number;
  /** Where reading, and so counting, ended. null: the range was read. */
  readTo: LogPosition | null;
  counts: LogCountRow[];
}

/** A statement on lines of 64 KiB takes a hundred times as long as on usual ones, so the first one reads few. */
const firstLines = 500;
const stepLinesMax = 2_500;

/** The next statement reads more lines if this one was faster, and fewer if it was slower. */
const stepMs = 25;

/** A search that takes longer ends with what it has, so that callers see progress. */
const searchMsMax = 2_000;

/**
 * Searches the newest lines before a position, in short statements with pauses, so that other statements get half of the
 * time of the embedded database. Without counts, it ends when `limit` lines are found.
 */
export async function searchLines(db: Db, { from, limit, signal, ...search }: LinesToSearch): Promise<SearchedLines> {
  const beganAt = performance.now();
  const result: SearchedLines = { found: [], next: null, read: 0, matches: 0, readTo: null, counts: [] };
  let before = from;
  let lines = firstLines;
  for (;;) {
    const asked = Math.min(lines, logSearchLinesMax - result.read);
    const stepAt = performance.now();
    const step = await searchLogStep(db, { ...search, before, lines: asked, limit: limit - result.found.length });
    const tookMs = performance.now() - stepAt;
    result.read += step.read;
    result.matches += step.matches;
    result.found.push(...step.found);
    result.counts.push(...step.counts);
    const isWhole = step.read < asked;
    const isFound = result.found.length === limit;
    const isEnough = (search.stepMs === null && isFound) || result.read >= logSearchLinesMax;
    if (isWhole || isEnough || performance.now() - beganAt > searchMsMax || signal.aborted) {
      result.readTo = isWhole ? null : step.last;
      // More lines may match than were asked for. The next page begins after the last one that is returned.
      result.next = isFound && result.matches > limit ? positionOf(result.found.at(-1)) : result.readTo;
      return result;
    }
    before = step.last ?? before;
    lines = Math.max(100, Math.min(stepLinesMax, Math.round(lines * Math.min(4, stepMs / tookMs))));
    await sleep(Math.min(stepMs, tookMs), undefined, { signal }).catch(() => undefined);
  }
}

const positionOf = (row: FoundLogRow | undefined): LogPosition | null =>
  row === undefined ? null : { atMs: row.at_ms, id: row.id };
