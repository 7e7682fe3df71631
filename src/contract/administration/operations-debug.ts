import { DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import { DeploymentDebug } from "./debug.ts";

/** Operations for people who investigate why a deployment makes no progress. The responses may change at any time. */
export const debugOperations = {
  debugDeployment: operation("debugDeployment", {
    operationId: "debug_deployment",
    tag: "Debug",
    summary: "Show what the reconciler sees of a deployment and would do next",
    params: DeploymentPath,
    response: { status: 200, schema: DeploymentDebug },
    errors: ["deploymentNotFound"],
    role: "deployer",
    audience: "debug",
  }),
};
