import { operations } from "../../contract/operations.ts";
import { listTagsOfMany } from "../../store/deployments/deployment-tags.ts";
import { latestRevisions } from "../../store/revisions/revisions.ts";
import { type Api, route } from "../http/route.ts";
import { revisionOf } from "../revisions/present-revision.ts";

/** Adds the call that reads what a list shows of many deployments. */
export function addSummaryRoutes(api: Api): void {
  const { db } = api.deps;
  route(api, operations.readSummaries, async ({ principal, query }) => {
    const ids = [...new Set(query.deployment_ids)];
    const [found, tags] = await Promise.all([
      latestRevisions(db, principal.tenantId, ids),
      listTagsOfMany(db, principal.tenantId, ids),
    ]);
    return {
      deployments: found.map(({ deploymentId, latest }) => ({
        deployment_id: deploymentId,
        latest_revision: latest && revisionOf(latest),
        tags: tags.filter((tag) => tag.deployment_id === deploymentId).map(({ deployment_id: _, ...tag }) => tag),
      })),
    };
  });
}
