import type { FastifyRequest } from "fastify";
import type { Principal } from "../../auth/principal.ts";
import type { DeploymentPath } from "../../contract/deployments/deployment.ts";
import { operations } from "../../contract/operations.ts";
import { applyPatch, applyResourceTiers } from "../../domain/patch.ts";
import { type Api, route } from "../http/route.ts";
import { deploymentsUrlOf } from "../http/urls.ts";
import { type ChangeRequest, changeSettings } from "./change-deployment.ts";
import { deploymentOf } from "./present-deployment.ts";

/** Adds the routes that change the size of a deployment: D8, D9 (contract 3.2, 6.1). */
export function addSizeRoutes(api: Api): void {
  const { sealer, settings } = api.deps;

  const resize = async (
    { principal, params, request }: { principal: Principal; params: DeploymentPath; request: FastifyRequest },
    decide: ChangeRequest["decide"],
  ) => {
    const deploymentsUrl = deploymentsUrlOf(request.raw, settings);
    const { row } = await changeSettings(api.deps, {
      principal,
      deploymentId: params.deployment_id,
      deploymentsUrl,
      action: "deployment.resize",
      reason: "size",
      ifMatch: request,
      decide,
    });
    return deploymentOf(row, { sealer, principal, deploymentsUrl });
  };

  route(api, operations.patchDeploymentTier, (call) =>
    resize(call, (current, context) => ({ changed: applyPatch(current, call.body, context) })),
  );
  route(api, operations.patchResourceTiers, (call) =>
    resize(call, (current, context) => ({ changed: applyResourceTiers(current, call.body, context) })),
  );
}
