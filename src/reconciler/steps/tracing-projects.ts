import { setTimeout as sleep } from "node:timers/promises";
import { backOffMaxMs, backOffMinMs } from "../../domain/limits.ts";
import { TracingFailure } from "../../integrations/langsmith-projects.ts";
import {
  detachTracingProject,
  dropTracingProject,
  findTracingProject,
  recordTracingFailure,
  settleTracingProject,
} from "../../store/deployments/tracing-projects.ts";
import type { ReconcilerDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import type { Performed } from "./perform.ts";

const done: Performed = { kind: "done" };

/** Makes the deployment's project in the back end. That it is away delays nothing else: it is noted and tried again. */
export async function createTracingProject(
  { db, logger, tracing, outward }: ReconcilerDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Performed> {
  const row = await findTracingProject(db, state.id);
  if (row === undefined || row.status === "ready") return done;
  try {
    const id = tracing && (await outward.hold(() => tracing.create({ id: row.id, name: row.project }, signal)));
    await settleTracingProject(db, state.id, id);
  } catch (error) {
    if (!(error instanceof TracingFailure)) throw error;
    const { message } = error;
    const retryAt = new Date(db.now().getTime() + Math.min(backOffMinMs * 2 ** row.attempts, backOffMaxMs));
    await recordTracingFailure(db, state.id, { message, retryAt });
    logger.warn({ deployment_id: state.id, attempts: row.attempts + 1, error: message }, "tracing project not made");
  }
  return done;
}

/** A delete waits this long for a back end that is away: three tries of 5 s and the pauses between. */
const pausesMs = [1_000, 3_000];

/** Deletes the project with its deployment. One that cannot be deleted must not hold up the deployment: it stays behind. */
export async function removeTracingProject(
  { db, logger, tracing, outward }: ReconcilerDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Performed> {
  const row = await findTracingProject(db, state.id);
  if (row === undefined) return done;
  for (let attempt = 0; ; attempt++) {
    try {
      if (tracing !== null) await outward.hold(() => tracing.remove(row.external_id ?? row.id, signal));
      await dropTracingProject(db, state.id);
      return done;
    } catch (error) {
      if (!(error instanceof TracingFailure)) throw error;
      const pauseMs = pausesMs[attempt];
      if (pauseMs !== undefined) {
        await sleep(pauseMs, undefined, { signal });
        continue;
      }
      const { message } = error;
      await detachTracingProject(db, state.id, message);
      logger.warn({ deployment_id: state.id, project: row.project, error: message }, "tracing project left behind");
      return done;
    }
  }
}
