import { type Dispatch, type RefObject, type SetStateAction, useCallback, useEffect, useRef, useState } from "react";
import type { Client } from "../../../src/client/client.ts";
import { isPassing } from "../../../src/client/failure.ts";
import type { FoundLogEntry, LogCounts, LogSearch } from "../../../src/contract/logs/search.ts";
import { textOf } from "../server.ts";
import { useSession } from "../session.tsx";
import { useIsVisible } from "../visibility.ts";
import { countLines, mergeCounts } from "./merge-counts.ts";
import { youngCounts } from "./young-counts.ts";

export interface LogQuestion {
  query: string;
  /** The range looks back this many seconds from now. Used without `from`. */
  span: number;
  /** ISO 8601. */
  from: string | undefined;
  to: string | undefined;
  /** When the deployment was made, if the empty time before it need not fill the histogram. */
  bornAt?: string | undefined;
}

export interface FoundLogs {
  /** Oldest first. */
  lines: FoundLogEntry[];
  counts: LogCounts | null;
  /** The range that was searched. null: no response yet. */
  range: { from: string; to: string } | null;
  /** The question that was answered. Until the next one is answered, the lines of the previous one stay. */
  answered: string | null;
  /** All matching lines of the range at or after this time are in `lines`. */
  searchedTo: string | null;
  hasOlder: boolean;
  isReading: boolean;
  problem: string | null;
}

/** Lines of one request. */
const pageLines = 500;

/** Lines that the page keeps. Older ones need a narrower range. */
export const shownLinesMax = 50_000;

/** A follow that begins knows this many of the last lines. */
const seenMax = 2_000;

/** One request reads 10,000 lines. If none of them matches, the page reads on this often before it asks the user. */
const emptyPagesMax = 5;

const nothing: FoundLogs = {
  ...{ lines: [], counts: null, range: null, searchedTo: null, answered: null },
  ...{ hasOlder: false, isReading: true, problem: null },
};

/** How long a follow that lost its server waits before it tries again. */
const retryMs = 5_000;

interface SearchInput {
  query: string;
  start_time: string;
  end_time?: string;
}

/** Searches the logs of all deployments, reads older lines on demand, and follows new ones. */
export function useLogSearch(question: LogQuestion, isFollowing: boolean) {
  const { client } = useSession();
  const [found, setFound] = useState(nothing);
  const [round, setRound] = useState(0);
  const latest = useRef(found);
  latest.current = found;
  const cursor = useRef<string | null>(null);
  const ending = useRef(new AbortController());
  const input = useRef<SearchInput>({ query: "", start_time: "" });
  const key = JSON.stringify({ ...question, round });

  const run = useRun(ending, setFound);

  const readOlder = useCallback(
    (signal: AbortSignal) => {
      const addPage = (page: LogSearch) => setFound((before) => withOlder(before, page));
      return readUntilFound(client, { ...input.current, limit: pageLines }, cursor, signal, addPage);
    },
    [client],
  );

  useEffect(() => {
    const own = new AbortController();
    ending.current = own;
    cursor.current = null;
    const { query, span, from, to, bornAt } = JSON.parse(key) as LogQuestion;
    const start_time = from ?? new Date(Date.now() - span * 1_000).toISOString();
    input.current = { query, start_time, ...(to !== undefined && { end_time: to }) };
    const search = run(async (signal) => {
      const ask = (more: object) => client.searchLogs({ ...input.current, counts: true, ...more }, { signal });
      const answer = await ask({ limit: pageLines });
      const { start, counts } = await youngCounts(answer, bornAt, ask);
      signal.throwIfAborted();
      cursor.current = answer.next_cursor;
      const lines = answer.logs.reverse();
      const range = { from: start, to: to ?? endOf(lines) };
      const { searched_to: searchedTo, next_cursor: next } = answer;
      setFound({ ...nothing, lines, counts, range, searchedTo, hasOlder: next !== null, answered: key });
      if (lines.length === 0) await readOlder(signal);
    });
    retryLater(search, () => setRound((before) => before + 1), own.signal);
    return () => own.abort();
  }, [client, key, run, readOlder]);

  useFollow(isFollowing && found.answered === key, { latest, input: input.current, setFound });

  return {
    ...found,
    older: () => {
      const { isReading, lines } = latest.current;
      if (isReading || cursor.current === null || lines.length >= shownLinesMax) return;
      // Another scroll before the next render must not read the same lines again.
      latest.current = { ...latest.current, isReading: true };
      void run(readOlder);
    },
    countOlder: () => {
      const from = latest.current.counts?.next_cursor;
      if (!from || latest.current.isReading) return;
      latest.current = { ...latest.current, isReading: true };
      void run(async (signal) => {
        const answer = await client.searchLogs({ ...input.current, limit: 1, counts: true, cursor: from }, { signal });
        signal.throwIfAborted();
        const { counts } = answer;
        setFound((before) => ({ ...before, counts: before.counts && counts && mergeCounts(before.counts, counts) }));
      });
    },
    again: () => setRound((before) => before + 1),
  };
}

/** Returns now, or the time of the last line, because the clock of a replica may be ahead. */
const endOf = (lines: readonly FoundLogEntry[]) =>
  new Date(Math.max(Date.now(), Date.parse(lines.at(-1)?.timestamp ?? "") || 0)).toISOString();

/** Begins a search again whose server was away. A follow, which tries again, begins only after the first answer. */
function retryLater(search: Promise<unknown>, again: () => void, signal: AbortSignal): void {
  void search.then((error) => {
    if (signal.aborted || error === undefined || !isPassing(error)) return;
    const timer = setTimeout(again, retryMs);
    signal.addEventListener("abort", () => clearTimeout(timer), { once: true });
  });
}

const withOlder = (before: FoundLogs, { logs, next_cursor, searched_to }: LogSearch): FoundLogs => ({
  ...before,
  lines: [...logs.toReversed(), ...before.lines],
  searchedTo: searched_to,
  hasOlder: next_cursor !== null,
});

/** Returns a function that runs calls, which end with the question, and shows and returns their failure. */
function useRun(ending: RefObject<AbortController>, setFound: Dispatch<SetStateAction<FoundLogs>>) {
  return useCallback(
    async (work: (signal: AbortSignal) => Promise<void>): Promise<unknown> => {
      const { signal } = ending.current;
      setFound((before) => ({ ...before, isReading: true, problem: null }));
      let failure: unknown;
      try {
        await work(signal);
      } catch (error) {
        failure = error;
        if (!signal.aborted) setFound((before) => ({ ...before, problem: textOf(error) }));
      }
      if (!signal.aborted) setFound((before) => ({ ...before, isReading: false }));
      return failure;
    },
    [ending, setFound],
  );
}

/** Reads pages from the cursor on, until one has lines, the range ends, or enough pages had none. */
async function readUntilFound(
  client: Client,
  input: SearchInput & { limit: number },
  cursor: RefObject<string | null>,
  signal: AbortSignal,
  onPage: (page: LogSearch) => void,
): Promise<void> {
  for (let page = 0; page < emptyPagesMax && cursor.current !== null; page += 1) {
    const answer = await client.searchLogs({ ...input, cursor: cursor.current }, { signal });
    signal.throwIfAborted();
    cursor.current = answer.next_cursor;
    const isFound = answer.logs.length > 0;
    onPage(answer);
    if (isFound) return;
  }
}

/** Adds new lines to the found ones while the page is visible. A range with an end gets none. */
function useFollow(
  isOn: boolean,
  {
    latest,
    input,
    setFound,
  }: { latest: RefObject<FoundLogs>; input: SearchInput; setFound: Dispatch<SetStateAction<FoundLogs>> },
): void {
  const { client } = useSession();
  const isVisible = useIsVisible();
  const { query, start_time: startTime, end_time: endTime } = input;
  const isActive = isOn && isVisible && endTime === undefined;
  useEffect(() => {
    if (!isActive) return;
    const own = new AbortController();
    let retry: ReturnType<typeof setTimeout> | undefined;
    const { signal } = own;
    const follow = async (isAgain: boolean) => {
      const { lines } = latest.current;
      const options = { seen: lines.slice(-seenMax), signal };
      const from = { query, start_time: lines.at(-1)?.timestamp ?? startTime };
      if (isAgain) {
        // A follow says nothing until there is a new line.
        await client.searchLogs({ ...from, limit: 1 }, { signal });
        setFound((before) => ({ ...before, problem: null }));
      }
      for await (const fresh of client.followSearch(from, options)) {
        setFound((before) => ({
          ...before,
          lines: [...before.lines, ...fresh].slice(-shownLinesMax),
          counts: before.counts && countLines(before.counts, fresh),
          range: before.range && { ...before.range, to: new Date().toISOString() },
        }));
      }
    };
    const keepFollowing = (isAgain: boolean) => {
      follow(isAgain).catch((error: unknown) => {
        if (signal.aborted) return;
        setFound((before) => ({ ...before, problem: textOf(error) }));
        if (isPassing(error)) retry = setTimeout(() => keepFollowing(true), retryMs);
      });
    };
    keepFollowing(false);
    return () => {
      own.abort();
      clearTimeout(retry);
    };
  }, [client, isActive, query, startTime, latest, setFound]);
}
