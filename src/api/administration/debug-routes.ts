import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { presentHealth } from "../deployments/present-deployment.ts";
import { type Api, route } from "../http/route.ts";

/** Adds the route that explains why a deployment does not progress. */
export function addDebugRoutes(api: Api): void {
  const { db, explain } = api.deps;

  route(api, operations.debugDeployment, async ({ principal, params }) => {
    const row = await readDeployment(db, principal, params.deployment_id);
    const explained = await explain(row.id);
    if (explained === undefined) throw errors.deploymentNotFound(row.id);
    return { health: presentHealth(row), ...explained };
  });
}
