import { awaitingBuildTimeoutMs, resolveTimeoutMs } from "../../domain/limits.ts";
import type { StepDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";

/** Statuses in which a revision waits for a slot, and how long the status may take once it has one. */
const timeoutsMs: Readonly<Record<string, number>> = {
  CREATING: resolveTimeoutMs,
  AWAITING_BUILD: awaitingBuildTimeoutMs,
};

/**
 * Extends the deadlines of revisions that wait for a slot while all slots are busy. Waiting for a slot is not a failure:
 * the work that holds a slot has its own deadline, so the wait ends and a thousand deploys at once all get their turn.
 * Deadlines of these statuses are for servers that take on no work.
 * @param retryInMs when the slot is requested again
 */
export async function extendDeadlines(
  { store }: Pick<StepDeps, "store">,
  state: DeploymentState,
  retryInMs: number,
): Promise<void> {
  const retryAtMs = store.now().getTime() + retryInMs;
  for (const { id, status, deadlineAt } of state.unsettled) {
    const timeoutMs = timeoutsMs[status];
    // Not on every retry: there are two a second.
    if (timeoutMs === undefined || deadlineAt === null || deadlineAt.getTime() > retryAtMs + timeoutMs / 2) continue;
    await store.postponeDeadline({ id, status }, new Date(retryAtMs + timeoutMs));
  }
}
