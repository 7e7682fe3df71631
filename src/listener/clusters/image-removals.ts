import { type Clock, sleep } from "../../base/clock.ts";
import { withDeadline } from "../../base/deadline.ts";
import { CallRefused, type ListenerSession, StaleEpoch } from "../../client/listener-client.ts";
import type { ImageBuilds } from "../../compute/image-builds.ts";
import type { ImageRemoval, ImageRemovalEnd } from "../../contract/listeners/image-removal.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";

const callTimeoutMs = 30_000;
const pollMs = 1_000;

/** Pause while there is nothing to remove. No user waits for a removal. */
const nextMs = 15_000;

/** A control plane that knows no removals may be updated. */
const unknownMs = 600_000;

/** The limit of the protocol. */
const messageLengthMax = 16_384;

/** Answers to a report that the control plane would give again. */
const finalStatuses = new Set([400, 413, 422]);

interface RemovalOptions {
  builds: ImageBuilds;
  clock: Clock;
  logger: Logger;
  onStale(error: StaleEpoch): void;
}

/** Removes images that no revision needs from the registry of this listener, until `signal` aborts. */
export async function followRemovals(
  options: RemovalOptions,
  session: ListenerSession,
  signal: AbortSignal,
): Promise<void> {
  const { clock, logger } = options;
  let ended: ImageRemovalEnd | null = null;
  const said = new Set<string>();
  for (;;) {
    try {
      const timed = { clock, timeoutMs: callTimeoutMs, signal };
      const removal = await withDeadline(timed, (ending) => session.claimImageRemoval(ended, ending));
      ended = removal && (await remove(options, removal, session, signal));
      if (ended === null) await sleep(clock, nextMs, signal);
      else logEnd(logger, ended, said);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof StaleEpoch) return options.onStale(error);
      if (ended !== null && error instanceof CallRefused && finalStatuses.has(error.status)) {
        logger.error({ error: describeError(error) }, "end of a removal refused and dropped");
        ended = bareEnd(ended);
      }
      await sleep(clock, pauseMsAfter(error, logger), signal);
    }
  }
}

/** Returns an end in the place of one that was refused, so that the images are tried again after hours and not at once; null: it is refused itself. */
function bareEnd({ removal_id, removed, message }: ImageRemovalEnd): ImageRemovalEnd | null {
  const isBare = removed.length === 0 && message === refused;
  return isBare ? null : { removal_id, removed: [], message: refused };
}

const refused = "the control plane refused the report of the removal";

/** @param said messages that were logged before: a registry without deletion would repeat its own for each image */
function logEnd(logger: Logger, { removed, message }: ImageRemovalEnd, said: Set<string>): void {
  if (removed.length > 0) logger.info({ count: removed.length }, "images removed from the registry");
  if (message === null || said.has(message)) return;
  said.add(message);
  logger.warn({ message }, "images stay in the registry");
}

function pauseMsAfter(error: unknown, logger: Logger): number {
  if (error instanceof CallRefused && error.status === 404) return unknownMs;
  logger.warn({ error: describeError(error) }, "images cannot be removed");
  return nextMs;
}

/** Runs one removal to its end, or stops it after its time. */
async function remove(
  { builds, clock }: RemovalOptions,
  removal: ImageRemoval,
  session: ListenerSession,
  signal: AbortSignal,
): Promise<ImageRemovalEnd> {
  const endsAtMs = clock.monotonicMs() + removal.timeout_s * 1_000;
  const call = <T>(act: (ending: AbortSignal) => Promise<T>) =>
    withDeadline({ clock, timeoutMs: callTimeoutMs, signal }, act);
  try {
    await call((ending) => builds.startRemoval(removal, session.listener_id, ending));
    for (;;) {
      const end = await call((ending) => builds.inspectRemoval(removal, ending));
      if (end !== null) return { ...end, message: end.message && fit(end.message) };
      // A Job that a quota or a queue of the cluster holds back must not start when builds push again.
      if (clock.monotonicMs() >= endsAtMs)
        return { removal_id: removal.removal_id, removed: [], message: "the cluster did not end its Job in time" };
      await sleep(clock, pollMs, signal);
    }
  } catch (error) {
    signal.throwIfAborted();
    return { removal_id: removal.removal_id, removed: [], message: fit(describeError(error)) };
  } finally {
    // What stays is removed at the beginning of the next session, and by the cluster after a while.
    if (!signal.aborted) await call((ending) => builds.remove(removal.removal_id, ending)).catch(() => {});
  }
}

const fit = (message: string) => sanitizeText(message.slice(0, messageLengthMax));
