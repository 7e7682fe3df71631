import { awaitingBuildTimeoutMs, resolveTimeoutMs } from "../../domain/limits.ts";
import { postponeDeadline } from "../../store/revisions/revisions.ts";
import type { ReconcilerDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";

/** Statuses in which a place is waited for, and how long they may take once it is there. */
const timeoutsMs: Readonly<Record<string, number>> = {
  CREATING: resolveTimeoutMs,
  AWAITING_BUILD: awaitingBuildTimeoutMs,
};

/**
 * Whoever finds all places taken has not failed: each is taken by work that has a deadline of its own, so that the wait ends,
 * and a thousand deploys at once may all come to their turn. Their deadlines are for a server that takes nobody on.
 * @param retryInMs when a place is asked for again.
 */
export async function keepWaiting(
  { db }: Pick<ReconcilerDeps, "db">,
  state: DeploymentState,
  retryInMs: number,
): Promise<void> {
  const askAtMs = db.now().getTime() + retryInMs;
  for (const { id, status, deadlineAt } of state.unsettled) {
    const timeoutMs = timeoutsMs[status];
    // Not with each look, which comes every half second.
    if (timeoutMs === undefined || deadlineAt === null || deadlineAt.getTime() > askAtMs + timeoutMs / 2) continue;
    await postponeDeadline(db, { id, status }, new Date(askAtMs + timeoutMs));
  }
}
