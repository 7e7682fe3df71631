import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import type { RevisionPath } from "../../contract/revisions/revision.ts";
import { applyNewRevision } from "../../domain/patch.ts";
import { redeploySettings } from "../../domain/redeploy.ts";
import { reasonOfChange } from "../../domain/revision-reason.ts";
import type { CurrentDeployment } from "../../domain/settings.ts";
import { findDeployment } from "../../store/deployments/deployments.ts";
import type { Db, Trx } from "../../store/engine/database.ts";
import {
  findRevision,
  interruptRevision,
  listRevisions,
  type ShownRevisionRow,
} from "../../store/revisions/revisions.ts";
import { changeSettings, type Decided } from "../deployments/change-deployment.ts";
import { changeWithRepositoryCheck } from "../deployments/check-repository.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { deploymentOf } from "../deployments/present-deployment.ts";
import { type Api, type Handler, route } from "../http/route.ts";
import { deploymentsUrlOf } from "../http/urls.ts";
import { revisionOf } from "./present-revision.ts";

/** Adds the revision routes: R1 to R5 (contract 3.3). */
export function addRevisionRoutes(api: Api): void {
  const { db, sealer, settings, listenerId } = api.deps;

  route(api, operations.listRevisions, async ({ principal, params, query }) => {
    const deployment = await readDeployment(db, principal, params.deployment_id);
    const isRemote = deployment.listener_id !== listenerId;
    const statuses = query.status ? query.status.split(",").map((status) => status.trim()) : null;
    const { limit, offset } = query;
    const isWanted = query.remote_reconciled === undefined || query.remote_reconciled === isRemote;
    const page = { statuses, limit, offset };
    const rows = isWanted ? await listRevisions(db, principal.tenantId, deployment.id, page) : [];
    return { resources: rows.map(revisionOf), offset: offset + rows.length };
  });

  const create: Handler<typeof operations.createRevision, Principal> = (call) => {
    const { principal, params, body, request } = call;
    return changeWithRepositoryCheck(api.deps, call, async (check) => {
      const { revision } = await changeSettings(api.deps, {
        principal,
        deploymentId: params.deployment_id,
        deploymentsUrl: deploymentsUrlOf(request.raw, settings),
        tarballPath: body.source_revision_config?.source_tarball_path,
        action: "revision.create",
        reason: reasonOfChange(body ?? {}),
        ifMatch: request,
        decide: (current, context) => ({ changed: check(current, applyNewRevision(current, body, context)) }),
      });
      return revisionOf(revision as ShownRevisionRow);
    });
  };
  route(api, operations.createRevision, create, { savesResponse: true });

  route(api, operations.getRevision, async ({ principal, params }) => {
    return revisionOf(await readRevision(db, principal, params));
  });

  route(api, operations.redeployRevision, async ({ principal, params, request }) => {
    const deploymentsUrl = deploymentsUrlOf(request.raw, settings);
    const { row } = await changeSettings(api.deps, {
      principal,
      deploymentId: params.deployment_id,
      deploymentsUrl,
      action: "revision.redeploy",
      reason: "redeploy",
      ifMatch: request,
      decide: (current, _context, { trx }) => decideRedeploy(trx, principal, params.revision_id, current),
    });
    return deploymentOf(row, { sealer, principal, deploymentsUrl });
  });

  const interrupt = async ({ principal, params }: { principal: Principal; params: RevisionPath }) => {
    const { tenantId, actor } = principal;
    const named = { id: params.revision_id, deploymentId: params.deployment_id, tenantId, actor };
    const status = await interruptRevision(db, named);
    if (status === undefined) throw await notFoundError(db, principal, params);
    if (status !== "INTERRUPTED") throw errors.revisionSettled(params.revision_id, status);
  };
  route(api, operations.interruptRevision, interrupt);
  route(api, operations.interruptRevisionAlias, interrupt);
}

async function decideRedeploy(
  trx: Trx,
  principal: Principal,
  revisionId: string,
  current: CurrentDeployment,
): Promise<Decided> {
  const again = await findRevision(trx, principal.tenantId, { deploymentId: current.id, revisionId });
  if (again === undefined) throw errors.revisionNotFound(revisionId);
  const { id, status, source, source_config: sourceConfig, source_revision_config: sourceRevisionConfig } = again;
  return { changed: redeploySettings({ id, status, source, sourceConfig, sourceRevisionConfig }, current), again };
}

/** Returns a revision. @throws ApiError 404 that names what is unknown: the deployment or the revision. */
export async function readRevision(db: Db, principal: Principal, params: RevisionPath): Promise<ShownRevisionRow> {
  const { deployment_id: deploymentId, revision_id: revisionId } = params;
  const row = await findRevision(db, principal.tenantId, { deploymentId, revisionId });
  if (row === undefined) throw await notFoundError(db, principal, params);
  return row;
}

async function notFoundError(db: Db, principal: Principal, params: RevisionPath) {
  const deployment = await findDeployment(db, principal.tenantId, params.deployment_id);
  if (deployment === undefined) return errors.deploymentNotFound(params.deployment_id);
  return errors.revisionNotFound(params.revision_id);
}
