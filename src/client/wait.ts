import type { Deployment } from "../contract/deployment.ts";
import type { Revision, RevisionStatus } from "../contract/revision.ts";
import { ApiFailure, isPassing, WaitTimeout } from "./failure.ts";
import { pause } from "./pause.ts";

export interface WaitOptions {
  /** Default 1_800_000 (30 min): the longest that existing clients of this API wait (contract 4.7). */
  timeoutMs?: number;
  signal?: AbortSignal;
}

/** A status that a revision never leaves (contract 5.2). */
export function isSettled(status: RevisionStatus): boolean {
  return status === "DEPLOYED" || status === "SKIPPED" || status === "INTERRUPTED" || status.endsWith("_FAILED");
}

/**
 * Reads a revision until its status is final. A failed status is an answer, not an exception.
 *
 * @param options.onChange Called with the first state seen and with every one whose status or message differs.
 * @throws WaitTimeout with the last state seen.
 */
export async function waitForRevision(
  read: (signal?: AbortSignal) => Promise<Revision>,
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
    options,
    () => new WaitTimeout(`Revision ${last?.id ?? ""} is still ${last?.status ?? "unknown"}.`, last),
  );
}

/** Reads a deployment until it is gone. */
export async function waitForDeletion(
  read: (signal?: AbortSignal) => Promise<Deployment>,
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
  await poll(isGone, options, () => new WaitTimeout("The deployment is still being deleted."));
}

/** 0.25 s shows the steps of a build that reuses everything; 1 s is soon enough for all others. */
const intervalMinMs = 250;
const intervalMaxMs = 1_000;

/** A server that restarts is back within this; one that stays away longer is reported. */
const patienceMs = 60_000;

async function poll<T>(
  look: () => Promise<T | undefined>,
  { timeoutMs = 1_800_000, signal }: WaitOptions,
  timedOut: () => Error,
): Promise<T> {
  const deadlineAt = Date.now() + timeoutMs;
  let answeredAt = Date.now();
  for (let intervalMs = intervalMinMs; ; intervalMs = Math.min(intervalMs * 1.5, intervalMaxMs)) {
    try {
      const found = await look();
      if (found !== undefined) return found;
      answeredAt = Date.now();
    } catch (error) {
      if (!isPassing(error) || Date.now() - answeredAt > patienceMs) throw error;
    }
    const leftMs = deadlineAt - Date.now();
    if (leftMs <= 0) throw timedOut();
    await pause(Math.min(intervalMs, leftMs), signal);
  }
}
