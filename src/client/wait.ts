import type { Deployment } from "../contract/deployments/deployment.ts";
import type { Revision } from "../contract/revisions/revision.ts";
import { type News, startNews } from "./event-updates.ts";
import { ApiFailure, isPassing, WaitTimeout } from "./failure.ts";
import { isSettled } from "./settled.ts";
import type { Watched } from "./watch.ts";

export interface WaitOptions {
  /** Default 1_800_000 (30 min): the longest that existing clients of this API wait (contract 4.7). */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** Opens a watch on what is waited for. */
export type Watch = (signal: AbortSignal) => AsyncIterable<Watched>;

/**
 * Reads a revision until its status is final: whenever something happened, and now and then where that is not told. A
 * failed status is an answer, not an exception.
 *
 * @param options.onChange Called with the first state seen and with every one whose status or message differs.
 * @throws WaitTimeout with the last state seen.
 */
export async function waitForRevision(
  read: (signal?: AbortSignal) => Promise<Revision>,
  watch: Watch,
  options: WaitOptions & { onChange?: (revision: Revision) => void } = {},
): Promise<Revision> {
  let last: Revision | null = null;
  const seen = (revision: Revision) => {
    if (last?.status !== revision.status || last.status_message !== revision.status_message)
      options.onChange?.(revision);
    last = revision;
    return isSettled(revision.status) ? revision : undefined;
  };
  return look(
    async () => seen(await read(options.signal)),
    watch,
    options,
    () => new WaitTimeout(`Revision ${last?.id ?? ""} is still ${last?.status ?? "unknown"}.`, last),
  );
}

/** Reads a deployment until it is gone. */
export async function waitForDeletion(
  read: (signal?: AbortSignal) => Promise<Deployment>,
  watch: Watch,
  options: WaitOptions = {},
): Promise<void> {
  const isGone = async () => {
    try {
      await read(options.signal);
      return undefined;
    } catch (error) {
      if (error instanceof ApiFailure && error.status === 404) return true;
      throw error;
    }
  };
  await look(isGone, watch, options, () => new WaitTimeout("The deployment is still being deleted."));
}

/** Without news: 0.25 s shows the steps of a build that reuses everything; 1 s is soon enough for all others. */
const intervalMinMs = 250;
const intervalMaxMs = 1_000;

/** With news one looks all the same: should a server lose an event, one waits this long for its successor. */
const intervalWithNewsMs = 10_000;

/** A server that restarts is back within this; one that stays away longer is reported. */
const patienceMs = 60_000;

async function look<T>(
  read: () => Promise<T | undefined>,
  watch: Watch,
  { timeoutMs = 1_800_000, signal }: WaitOptions,
  timedOut: () => Error,
): Promise<T> {
  const deadlineAt = performance.now() + timeoutMs;
  let answeredAt = performance.now();
  let news: News | undefined;
  try {
    for (let intervalMs = intervalMinMs; ; intervalMs = Math.min(intervalMs * 1.5, intervalMaxMs)) {
      try {
        const found = await read();
        if (found !== undefined) return found;
        answeredAt = performance.now();
      } catch (error) {
        if (!isPassing(error) || performance.now() - answeredAt > patienceMs) throw error;
      }
      const leftMs = deadlineAt - performance.now();
      if (leftMs <= 0) throw timedOut();
      // Not before: what has ended already needs no watch.
      news ??= startNews(watch);
      await news.next(Math.min(news.isLive ? intervalWithNewsMs : intervalMs, leftMs), signal);
    }
  } finally {
    news?.close();
  }
}
