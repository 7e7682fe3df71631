import { listenerSilentMs } from "../../domain/limits.ts";
import { updateSilentListeners } from "../../store/data-plane/silent-listeners.ts";
import { findUnqueuedDeployments } from "../../store/deployments/deployment-state.ts";
import { enqueue } from "../../store/queue/reconcile-queue.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ReconcilerMetrics } from "../../telemetry/metrics.ts";
import type { ReconcilerDeps } from "../deps.ts";

const correctionsMax = 1_000;

/** Updates the shown status of deployments whose listener went silent or came back. It makes no deployment due. */
export async function watchListeners({ db, logger }: Pick<ReconcilerDeps, "db" | "logger">): Promise<void> {
  try {
    const moved = await updateSilentListeners(db, listenerSilentMs);
    if (moved > 0) logger.warn({ deployments: moved }, "listeners went silent or came back");
  } catch (error) {
    logger.warn({ error: describeError(error) }, "checking for silent listeners failed");
  }
}

/**
 * Enqueues deployments that have work to do but are not in the queue. There should be none: each one is counted in
 * `resync_corrections_total`, and a counter that grows is a bug.
 * @returns how many it enqueued
 */
export async function resync(deps: Pick<ReconcilerDeps, "db" | "logger">, metrics: ReconcilerMetrics): Promise<number> {
  try {
    const missing = await findUnqueuedDeployments(deps.db, correctionsMax);
    for (const deploymentId of missing) await enqueue(deps.db, deploymentId);
    if (missing.length > 0) {
      metrics.resyncCorrections.inc(missing.length);
      deps.logger.warn({ deployments: missing.length }, "resync found deployments that were not in the queue");
    }
    return missing.length;
  } catch (error) {
    deps.logger.warn({ error: describeError(error) }, "resync failed");
    return 0;
  }
}
