import type { Deployment } from "../contract/deployments/deployment.ts";
import type { Revision } from "../contract/revisions/revision.ts";
import { startUpdates, type Updates } from "./event-updates.ts";
import { ApiFailure, isPassing, WaitTimeout } from "./failure.ts";
import { isSettled } from "./settled.ts";
import type { Watched } from "./watch.ts";

export interface WaitOptions {
  /** Default 1_800_000 (30 min): the longest time that existing clients of this API wait (contract 4.7). */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** Opens a watch on the awaited object. */
export type Watch = (signal: AbortSignal) => AsyncIterable<Watched>;

/**
 * Reads a revision until its status is final: after each event, or by polling if there are no events. A failed status is a
 * result, not an exception.
 *
 * @param options.onChange Called with the first state, and with every one whose status or message differs.
 * @throws WaitTimeout with the last known state.
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
  return poll(
    async () => seen(await read(options.signal)),
    watch,
    options,
    () => new WaitTimeout(`Revision ${last?.id ?? ""} is still ${last?.status ?? "unknown"}.`, last),
  );
}

/** Polls a deployment until it is deleted. */
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
  await poll(isGone, watch, options, () => new WaitTimeout("The deployment is still being deleted."));
}

/** Intervals without notifications: 0.25 s shows the steps of a build that reuses everything, 1 s is enough for all others. */
const intervalMinMs = 250;
const intervalMaxMs = 1_000;

/** Interval with notifications, in case the server loses an event. */
const intervalWithUpdatesMs = 10_000;

/** A restarting server is back within this time. A longer outage is reported. */
const outageMaxMs = 60_000;

async function poll<T>(
  read: () => Promise<T | undefined>,
  watch: Watch,
  { timeoutMs = 1_800_000, signal }: WaitOptions,
  timedOut: () => Error,
): Promise<T> {
  const deadlineAt = performance.now() + timeoutMs;
  let answeredAt = performance.now();
  let updates: Updates | undefined;
  try {
    for (let intervalMs = intervalMinMs; ; intervalMs = Math.min(intervalMs * 1.5, intervalMaxMs)) {
      try {
        const found = await read();
        if (found !== undefined) return found;
        answeredAt = performance.now();
      } catch (error) {
        if (!isPassing(error) || performance.now() - answeredAt > outageMaxMs) throw error;
      }
      const leftMs = deadlineAt - performance.now();
      if (leftMs <= 0) throw timedOut();
      // Started only now, because an object that is already final needs no watch.
      updates ??= startUpdates(watch);
      await updates.next(Math.min(updates.isLive ? intervalWithUpdatesMs : intervalMs, leftMs), signal);
    }
  } finally {
    updates?.close();
  }
}
