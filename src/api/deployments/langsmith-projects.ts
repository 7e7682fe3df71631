import { errors } from "../../contract/error.ts";
import { tracingVariables } from "../../domain/tracing.ts";
import { findTracingProject, predictTracingProject } from "../../store/deployments/tracing-projects.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ApiDeps } from "../deps.ts";

/** Somebody waits for the answer to their create; a back end that is slower is asked again by the reconciler. */
const lookTimeoutMs = 2_000;

/**
 * A deployment is not created into somebody's traces: neither those of an earlier deployment, nor those of a project that
 * was made by hand (contract 1.4). Without a back end nobody asks. Call it outside of any transaction.
 *
 * @throws ApiError 409 `nameTaken` or `tracingProjectTaken`.
 */
export async function refuseTakenProject({ db, tracing, logger }: ApiDeps, tenantId: string, name: string) {
  if (tracing === null) return;
  const { isNameTaken, isLeft, project } = await predictTracingProject(db, tenantId, name);
  if (isNameTaken) throw errors.nameTaken(name);
  if (project === null) return;
  const isThere = await tracing.find(project, AbortSignal.timeout(lookTimeoutMs)).then(
    (id) => id !== null,
    (error: unknown) => {
      logger.warn({ tenant_id: tenantId, error: describeError(error) }, "tracing back end could not be asked");
      return isLeft;
    },
  );
  if (isThere) throw errors.tracingProjectTaken(project);
}

/** What makes an agent server trace, beside its own secrets; holds the back end's key. */
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
