import { listenerSilentMs } from "../../domain/limits.ts";
import { updateSilentListeners } from "../../store/data-plane/silent-listeners.ts";
import { findUnqueuedDeployments } from "../../store/deployments/deployment-state.ts";
import { enqueue } from "../../store/queue/reconcile-queue.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ReconcilerMetrics } from "../../telemetry/metrics.ts";
import type { ReconcilerDeps } from "../deps.ts";

const correctionsMax = 1_000;

/** Deployments of listeners that went silent, or are heard again. Nothing of it is work: only what is shown changes. */
export async function watchListeners({ db, logger }: Pick<ReconcilerDeps, "db" | "logger">): Promise<void> {
  try {
    const moved = await updateSilentListeners(db, listenerSilentMs);
    if (moved > 0) logger.warn({ deployments: moved }, "listeners went silent or came back");
  } catch (error) {
    logger.warn({ error: describeError(error) }, "looking after listeners failed");
  }
}

/**
 * Finds deployments that have something to do and that no change announced. There should be none: each one found is
 * counted in `resync_corrections_total`, and a counter that moves is a bug to look for.
 * @returns how many were put back into the queue.
 */
export async function resync(deps: Pick<ReconcilerDeps, "db" | "logger">, metrics: ReconcilerMetrics): Promise<number> {
  try {
    const forgotten = await findUnqueuedDeployments(deps.db, correctionsMax);
    for (const deploymentId of forgotten) await enqueue(deps.db, deploymentId);
    if (forgotten.length > 0) {
      metrics.resyncCorrections.inc(forgotten.length);
      deps.logger.warn({ deployments: forgotten.length }, "resync found forgotten deployments");
    }
    return forgotten.length;
  } catch (error) {
    deps.logger.warn({ error: describeError(error) }, "resync failed");
    return 0;
  }
}
