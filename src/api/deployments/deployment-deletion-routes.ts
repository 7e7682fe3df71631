import type { Principal } from "../../auth/principal.ts";
import type { DeleteDeploymentQuery } from "../../contract/deployments/deployment.ts";
import { ApiError, errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { isBeingDeleted } from "../../domain/deployment-status.ts";
import { lockDeployment, requestDelete } from "../../store/deployments/deployments.ts";
import type { Db } from "../../store/engine/database.ts";
import { refuseIfChanged } from "../http/etag.ts";
import { type Api, route } from "../http/route.ts";
import { deploymentsUrlOf } from "../http/urls.ts";
import { readDeployment } from "./deployment-routes.ts";
import { deploymentOf } from "./present-deployment.ts";

/** Adds the routes that delete one deployment or many: D3, D7 (contract 3.2). */
export function addDeletionRoutes(api: Api): void {
  const { db, sealer, settings } = api.deps;

  route(api, operations.deleteDeployment, async ({ principal, params, query, request }) => {
    const id = params.deployment_id;
    if (request.headers["if-match"] === undefined) return deleteOne(db, principal, id, query);
    const viewer = { sealer, principal, deploymentsUrl: deploymentsUrlOf(request.raw, settings) };
    return db.atomically(async () => {
      const row = await db.transaction((trx) => lockDeployment(trx, principal.tenantId, id));
      if (row === undefined) throw errors.deploymentNotFound(id);
      refuseIfChanged(request, () => deploymentOf(row, viewer));
      await deleteOne(db, principal, id, query);
    });
  });

  route(api, operations.deleteDeployments, async ({ principal, query, answerPartly }) => {
    const deleted: string[] = [];
    const refused: { id: string; error: ApiError }[] = [];
    for (const id of new Set(query.deployment_ids)) {
      try {
        await deleteOne(db, principal, id, query);
        deleted.push(id);
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        refused.push({ id, error });
      }
    }
    const [first] = refused;
    if (first !== undefined && deleted.length === 0 && refused.every(({ error }) => error.status === 404)) {
      throw first.error;
    }
    if (first !== undefined) answerPartly();
    const failed = refused.map(({ id, error }) => ({
      deployment_id: id,
      status_code: error.status,
      detail: error.message,
    }));
    return { deleted, failed };
  });
}

/** Requests the deletion of one deployment. @throws ApiError 404; 400 `forceNeedsDelete` */
async function deleteOne(db: Db, principal: Principal, id: string, query: DeleteDeploymentQuery): Promise<undefined> {
  const { tenantId, actor } = principal;
  if (query.force) {
    const { status } = await readDeployment(db, principal, id);
    if (!isBeingDeleted(status)) throw errors.forceNeedsDelete(id);
  }
  const options = { deleteTracingProject: query.delete_tracing_project, force: query.force, actor };
  if (!(await requestDelete(db, tenantId, id, options))) throw errors.deploymentNotFound(id);
}
