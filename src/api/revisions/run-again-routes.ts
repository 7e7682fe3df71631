import { isDeepStrictEqual } from "node:util";
import type { Principal } from "../../auth/principal.ts";
import type { DeploymentPath } from "../../contract/deployments/deployment.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import type { RevisionReason } from "../../contract/revisions/revision.ts";
import type { ChangeVariables, ScaleDeployment } from "../../contract/revisions/run-again.ts";
import { lacksOneOf } from "../../domain/failures.ts";
import { applyPush } from "../../domain/patch.ts";
import { redeploySettings } from "../../domain/redeploy.ts";
import { isFinal } from "../../domain/revision-status.ts";
import { restartSettings, sameCodeSettings, unchangedSettings } from "../../domain/run-again.ts";
import { checkScalable, type DatabaseVariable, withReplicas } from "../../domain/scale-deployment.ts";
import { checkOneOrigin, checkSecrets } from "../../domain/secret-names.ts";
import type { CurrentDeployment } from "../../domain/settings.ts";
import { type DatabaseKind, findDeploymentDatabase } from "../../store/deployments/deployment-databases.ts";
import type { DeploymentRow } from "../../store/deployments/deployments.ts";
import type { Trx } from "../../store/engine/database.ts";
import { findRevision, type RevisionRow } from "../../store/revisions/revisions.ts";
import { openSecrets } from "../../store/secrets/secrets.ts";
import { type ChangeRequest, changeSettings, type Decided, type Locked } from "../deployments/change-deployment.ts";
import { deploymentOf } from "../deployments/present-deployment.ts";
import type { ApiDeps } from "../deps.ts";
import { type Api, type Call, route } from "../http/route.ts";
import { deploymentsUrlOf } from "../http/urls.ts";
import { decideRollback, earlierOf, storedVariables } from "./decide-rollback.ts";
import { previewRollback } from "./preview-rollback.ts";

/** Adds the routes that run code again which a deployment already has: rollback, restart, retry, variables, scale, latest commit. */
export function addRunAgainRoutes(api: Api): void {
  const { deps } = api;
  const { sealer, settings } = deps;

  const change = async (
    { principal, params, request }: Pick<Call<never, Principal>, "principal" | "request"> & { params: DeploymentPath },
    made: { action: string; reason: RevisionReason; decide: ChangeRequest["decide"] },
  ) => {
    const deploymentsUrl = deploymentsUrlOf(request.raw, settings);
    const deploymentId = params.deployment_id;
    const { row } = await changeSettings(deps, { principal, deploymentId, deploymentsUrl, ifMatch: request, ...made });
    return deploymentOf(row, { sealer, principal, deploymentsUrl });
  };

  route(api, operations.previewRollback, ({ principal, params, query }) =>
    previewRollback(deps, { principal, params, isCodeOnly: query.code_only }),
  );

  route(api, operations.rollbackRevision, (call) =>
    change(call, {
      action: "revision.rollback",
      reason: "rollback",
      decide: (current, context, { trx }) =>
        decideRollback(deps, trx, { ...call, current, context, isCodeOnly: call.body?.code_only ?? false }),
    }),
  );

  route(api, operations.restartDeployment, (call) =>
    change(call, {
      action: "deployment.restart",
      reason: "restart",
      decide: (current, _context, locked) => decideRestart(deps, current, locked),
    }),
  );

  route(api, operations.retryDeployment, (call) =>
    change(call, {
      action: "deployment.retry",
      reason: "retry",
      decide: (current, _context, locked) => decideRetry(current, locked),
    }),
  );

  route(api, operations.deployLatest, (call) =>
    change(call, {
      action: "deployment.deploy_latest",
      reason: "latest",
      decide: (current, context) => {
        if (current.trackedRef === null) throw errors.latestNotApplicable(current.source);
        return { changed: applyPush(current, context) };
      },
    }),
  );

  route(api, operations.changeVariables, (call) =>
    change(call, {
      action: "deployment.variables",
      reason: "variables",
      decide: (current, _context, locked) => decideVariables(deps, current, locked, call.body),
    }),
  );

  route(api, operations.scaleDeployment, (call) =>
    change(call, {
      action: "deployment.scale",
      reason: "size",
      decide: (current, _context, locked) => decideScale(deps, current, locked, call.body),
    }),
  );
}

async function decideRetry(current: CurrentDeployment, { trx, row }: Locked): Promise<Decided> {
  const again = await findRevisionOf(trx, row, row.latest_revision_id);
  const isFailed = again !== undefined && isFinal(again.status) && again.status !== "DEPLOYED";
  if (!isFailed) throw errors.nothingFailed(row.id);
  return { changed: redeploySettings(earlierOf(again), current), again };
}

async function decideScale(
  { sealer }: ApiDeps,
  current: CurrentDeployment,
  { trx, row }: Locked,
  body: ScaleDeployment,
): Promise<Decided> {
  const again = await findRunning(trx, row);
  const bounds = { min: body.min_replicas, max: body.max_replicas ?? Math.max(1, body.min_replicas) };
  // Until its build ends, it is unknown whether a revision keeps local state. The serving revision is the best guess.
  const known = again?.rollout ? again : ((await findRevisionOf(trx, row, row.active_revision_id)) ?? again);
  checkScalable(current, known ?? null, bounds, await lackingDatabases(trx, sealer, row));
  const scaled = { ...current, sourceConfig: withReplicas(current.sourceConfig, bounds) };
  const unchanged = unchangedSettings(scaled);
  const isUnchanged = isDeepStrictEqual(scaled.sourceConfig, current.sourceConfig);
  if (isUnchanged || again === undefined) return { changed: { ...unchanged, revision: null } };
  return { changed: sameCodeSettings(earlierOf(again), scaled, null), again };
}

/** Returns the variables that would give a deployment the databases which it does not have. */
async function lackingDatabases(trx: Trx, sealer: ApiDeps["sealer"], row: DeploymentRow): Promise<DatabaseVariable[]> {
  const kinds = await findDeploymentDatabase(trx, sealer, { id: row.id, tenantId: row.tenant_id });
  const secrets = openSecrets(sealer, row, row);
  const lacks = (name: DatabaseVariable, kind: DatabaseKind = "none") => kind === "none" && !secrets[name];
  return [
    ...(lacks("POSTGRES_URI_CUSTOM", kinds?.postgres) ? (["POSTGRES_URI_CUSTOM"] as const) : []),
    ...(lacks("REDIS_URI_CUSTOM", kinds?.redis) ? (["REDIS_URI_CUSTOM"] as const) : []),
  ];
}

async function decideRestart(deps: ApiDeps, current: CurrentDeployment, { trx, row }: Locked): Promise<Decided> {
  const latest = await findRevisionOf(trx, row, row.latest_revision_id);
  if (latest !== undefined && !isFinal(latest.status)) throw errors.revisionInProgress(latest.id, latest.status);
  const again = await findRevisionOf(trx, row, row.active_revision_id);
  if (again === undefined) throw errors.nothingServes(row.id);
  const stored = await storedVariables(deps, trx, again);
  return { changed: restartSettings(earlierOf(again), current), again, stored };
}

async function decideVariables(
  { sealer }: ApiDeps,
  current: CurrentDeployment,
  { trx, row }: Locked,
  body: ChangeVariables,
): Promise<Decided> {
  const before = openSecrets(sealer, row, row);
  const secrets = changedVariables(before, body, current);
  const unchanged = unchangedSettings(current);
  if (isDeepStrictEqual(secrets, before)) return { changed: { ...unchanged, revision: null } };
  const asking = await findAsking(trx, row, body);
  const again = asking ?? (await findRunning(trx, row));
  // Nothing to run yet: the variables are stored for the first deploy.
  if (again === undefined) return { changed: { ...unchanged, secrets, revision: null } };
  return { changed: sameCodeSettings(earlierOf(again), current, secrets), again };
}

/**
 * Returns the revision whose code a change of variables or of the scale runs: the newest one while it is in progress,
 * because it is about to serve; otherwise the one that serves; otherwise the newest one.
 */
export async function findRunning(trx: Trx, row: DeploymentRow): Promise<RevisionRow | undefined> {
  const latest = await findRevisionOf(trx, row, row.latest_revision_id);
  if (latest === undefined || !isFinal(latest.status)) return latest;
  return (await findRevisionOf(trx, row, row.active_revision_id)) ?? latest;
}

/**
 * Returns the newest revision if it failed because variables were missing that this request sets: the user wants to run
 * its code.
 */
async function findAsking(trx: Trx, row: DeploymentRow, { set }: ChangeVariables): Promise<RevisionRow | undefined> {
  const latest = await findRevisionOf(trx, row, row.latest_revision_id);
  const names = (set ?? []).map(({ name }) => name);
  return latest !== undefined && lacksOneOf(latest.failure, names) ? latest : undefined;
}

/** Returns a revision of a deployment by its id. */
export async function findRevisionOf(
  trx: Trx,
  row: DeploymentRow,
  revisionId: string | null,
): Promise<RevisionRow | undefined> {
  return revisionId === null ? undefined : findRevision(trx, row.tenant_id, { deploymentId: row.id, revisionId });
}

/** @throws ApiError 400 `invalidSecret`, `secretNameReserved` */
function changedVariables(
  before: Record<string, string>,
  { set, remove }: ChangeVariables,
  { source, secretReferences }: CurrentDeployment,
): Record<string, string> {
  const removed = new Set(remove ?? []);
  const kept = Object.entries(before).filter(([name]) => !removed.has(name));
  const sent = checkSecrets(set ?? [], source);
  const all = [...kept.filter(([name]) => !Object.hasOwn(sent, name)), ...Object.entries(sent)];
  const secrets = checkSecrets(
    all.map(([name, value]) => ({ name, value })),
    source,
  );
  checkOneOrigin(Object.keys(secrets), secretReferences);
  return secrets;
}
