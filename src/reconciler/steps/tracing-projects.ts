import { setTimeout as sleep } from "node:timers/promises";
import { backoffMs } from "../../base/backoff.ts";
import { backOffMaxMs, backOffMinMs } from "../../domain/limits.ts";
import { TracingFailure } from "../../integrations/langsmith-projects.ts";
import type { StepDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import { done, type Performed } from "./performed.ts";

/** Creates the deployment's project in the tracing backend. A failure delays nothing else: it is recorded and retried. */
export async function createTracingProject(
  { store, logger, tracing, outward }: StepDeps,
  state: DeploymentState,
  _step: unknown,
  signal: AbortSignal,
): Promise<Performed> {
  const row = await store.findTracingProject(state.id);
  if (row === undefined || row.status === "ready") return done;
  try {
    const id = tracing && (await outward.hold(() => tracing.create({ id: row.id, name: row.project }, signal)));
    await store.settleTracingProject(state.id, id);
  } catch (error) {
    if (!(error instanceof TracingFailure)) throw error;
    const { message } = error;
    const retryAt = new Date(
      store.now().getTime() + backoffMs(row.attempts + 1, { firstMs: backOffMinMs, maxMs: backOffMaxMs }),
    );
    await store.recordTracingFailure(state.id, { message, retryAt });
    const fields = { deployment_id: state.id, attempts: row.attempts + 1, error: message };
    logger.warn(fields, "tracing project not created");
  }
  return done;
}

/** A delete waits this long for a backend that is away: three attempts of 5 s and the pauses between them. */
const pausesMs = [1_000, 3_000];

/** Deletes the project with its deployment. A project that cannot be deleted is left behind, so it does not block the deployment. */
export async function removeTracingProject(
  { store, logger, tracing, outward }: StepDeps,
  state: DeploymentState,
  _step: unknown,
  signal: AbortSignal,
): Promise<Performed> {
  const row = await store.findTracingProject(state.id);
  if (row === undefined) return done;
  for (let attempt = 0; ; attempt++) {
    try {
      if (tracing !== null) await outward.hold(() => tracing.remove(row.external_id ?? row.id, signal));
      await store.deleteTracingProject(state.id);
      return done;
    } catch (error) {
      if (!(error instanceof TracingFailure)) throw error;
      const pauseMs = pausesMs[attempt];
      if (pauseMs !== undefined) {
        await sleep(pauseMs, undefined, { signal });
        continue;
      }
      const { message } = error;
      await store.detachTracingProject(state.id, message);
      logger.warn({ deployment_id: state.id, project: row.project, error: message }, "tracing project left behind");
      return done;
    }
  }
}
