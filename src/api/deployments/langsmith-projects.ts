import { errors } from "../../contract/error.ts";
import { tracingVariables } from "../../domain/tracing.ts";
import { findTracingProject, predictTracingProject } from "../../store/deployments/tracing-projects.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ApiDeps } from "../deps.ts";

/**
 * Time for the tracing backend while a client waits for its create. If the backend is slower, the reconciler asks
 * again.
 */
const findTimeoutMs = 2_000;

/**
 * Rejects a deployment whose traces would go into an existing project, whether it belongs to an earlier deployment or
 * was created by hand (contract 1.4). Does nothing without a tracing backend. Call it outside of any transaction.
 *
 * @throws ApiError 409 `nameTaken` or `tracingProjectTaken`.
 */
export async function refuseTakenProject({ db, tracing, logger }: ApiDeps, tenantId: string, name: string) {
  if (tracing === null) return;
  const { isNameTaken, isLeft, project } = await predictTracingProject(db, tenantId, name);
  if (isNameTaken) throw errors.nameTaken(name);
  if (project === null) return;
  const isThere = await tracing.find(project, AbortSignal.timeout(findTimeoutMs)).then(
    (id) => id !== null,
    (error: unknown) => {
      logger.warn({ tenant_id: tenantId, error: describeError(error) }, "tracing backend unreachable");
      return isLeft;
    },
  );
  if (isThere) throw errors.tracingProjectTaken(project);
}

/**
 * Returns the variables that make an agent server trace, in addition to its own secrets. They include the backend's
 * key.
 */
export async function tracingEnvironment(
  { db, settings }: ApiDeps,
  deploymentId: string,
  secrets: Record<string, string>,
): Promise<Record<string, string>> {
  const { tracing } = settings;
  if (tracing === null) return {};
  const row = await findTracingProject(db, deploymentId);
  return tracingVariables(tracing, row?.project ?? deploymentId, new Set(Object.keys(secrets)));
}
