import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { isBeingDeleted } from "../../domain/deployment-status.ts";
import { repositoryPrefix, signAccess } from "../../registry/access-token.ts";
import { type Api, route } from "../http/route.ts";
import { apiUrlOf } from "../http/urls.ts";
import { readDeployment } from "./deployment-routes.ts";

/** Adds the route that creates tokens for the built-in registry (contract D10). */
export function addPushTokenRoutes(api: Api): void {
  const { db, settings, registry } = api.deps;
  route(api, operations.createPushToken, async ({ principal, params, request }) => {
    const deployment = await readDeployment(db, principal, params.deployment_id);
    if (deployment.source !== "internal_docker") throw errors.pushTokenNotApplicable();
    if (isBeingDeleted(deployment.status)) throw errors.beingDeleted(deployment.id);
    if (typeof registry === "string") throw errors.noRegistry(registry);
    const host = registry.host ?? new URL(apiUrlOf(request.raw, settings)).host;
    return {
      token: signAccess(registry.signer, { deploymentId: deployment.id, kind: "push" }),
      registry_url: `${host}/${repositoryPrefix(deployment.id).replace(/\/$/, "")}`,
    };
  });
}
