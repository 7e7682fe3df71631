import { DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import { DeploymentDebug } from "./debug.ts";

/** For people who ask why nothing happens. No promise is made about the answers. */
export const debugOperations = {
  debugDeployment: operation("debugDeployment", {
    operationId: "debug_deployment",
    tag: "Debug",
    summary: "What the reconciler sees of a deployment and would do next",
    params: DeploymentPath,
    response: { status: 200, schema: DeploymentDebug },
    errors: ["deploymentNotFound"],
    role: "deployer",
    audience: "debug",
  }),
};
