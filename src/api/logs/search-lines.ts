import { setTimeout as sleep } from "node:timers/promises";
import { logSearchLinesMax } from "../../contract/logs/search.ts";
import type { Db } from "../../store/engine/database.ts";
import {
  type FoundLogRow,
  type LogCountRow,
  type LogPosition,
  type LogStep,
  searchedLength,
  searchLogStep,
} from "../../store/logs/search-logs.ts";
import type { SearchTurns } from "./search-turns.ts";

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

const firstLines = 500;
const stepLinesMax = 2_500;

/** The next statement reads more if this one was faster, and less if it was slower. */
const stepMs = 25;

/**
 * Bytes of messages that one statement searches, times the length of what it searches for: a message of repeated characters
 * is compared with the whole text at each of its bytes, 5 ns each. So a statement ends within half a second, also the first
 * one after many short lines. Lower case costs as much as 40 characters.
 */
const workMax = 100_000_000;
const lowerCaseLength = 40;

/** A search that takes longer ends with what it has, so that callers see progress. */
const searchMsMax = 2_000;

/** A response with more bytes of messages ends there. */
const foundBytesMax = 8 * 1024 * 1024;

/**
 * Searches the newest lines before a position, in short statements with pauses, so that other statements get half of the
 * time of the embedded database. Without counts, it ends when `limit` lines are found.
 */
export async function searchLines(
  { db, turns }: { db: Db; turns: SearchTurns },
  { from, limit: wanted, signal, ...search }: LinesToSearch,
): Promise<SearchedLines> {
  const beganAt = performance.now();
  const result: SearchedLines = { found: [], next: from, read: 0, matches: 0, readTo: from, counts: [] };
  const bytesMax = Math.floor(workMax / (lowerCaseLength + searchedLength(search.query)));
  let limit = wanted;
  let foundBytes = 0;
  let before = from;
  let lines = firstLines;
  let bytes = bytesMax / 8;
  while (!signal.aborted) {
    const asked = Math.min(lines, logSearchLinesMax - result.read);
    const left = limit - result.found.length;
    const read = async () => {
      const stepAt = performance.now();
      const step = await searchLogStep(db, { ...search, before, lines: asked, bytes: Math.floor(bytes), limit: left });
      const tookMs = performance.now() - stepAt;
      await sleep(Math.min(stepMs, tookMs), undefined, { signal }).catch(() => undefined);
      return { step, tookMs };
    };
    const { step, tookMs } = await turns.take(search.tenantId, read, signal);
    result.read += step.read;
    result.matches += step.matches;
    result.found.push(...step.found);
    result.counts.push(...step.counts);
    for (const { message } of step.found) foundBytes += message.length;
    if (foundBytes > foundBytesMax) limit = result.found.length;
    const isFound = result.found.length === limit;
    const isEnough = (search.stepMs === null && isFound) || result.read >= logSearchLinesMax;
    result.readTo = step.isWhole ? null : step.last;
    // More lines may match than were asked for. The next page begins after the last one that is returned.
    result.next = isFound && result.matches > limit ? positionOf(result.found.at(-1)) : result.readTo;
    if (step.isWhole || isEnough || performance.now() - beganAt > searchMsMax) break;
    before = step.last ?? before;
    const speed = Math.min(4, stepMs / tookMs);
    lines = Math.max(100, Math.min(stepLinesMax, Math.round(lines * speed)));
    bytes = Math.max(1_024, Math.min(bytesMax, bytes * speed));
  }
  return result;
}

const positionOf = (row: FoundLogRow | undefined): LogPosition | null =>
  row === undefined ? null : { atMs: row.at_ms, id: row.id };
