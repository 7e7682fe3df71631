import { errors } from "../../contract/error.ts";
import { operations } from "../../contract/operations.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { type Api, route } from "../http/route.ts";

/** For people who ask why nothing happens. */
export function addDebugRoutes(api: Api): void {
  const { db, explain } = api.deps;

  route(api, operations.debugDeployment, async ({ principal, params }) => {
    const { id } = await readDeployment(db, principal, params.deployment_id);
    const explained = await explain(id);
    if (explained === undefined) throw errors.deploymentNotFound(id);
    return explained;
  });
}
