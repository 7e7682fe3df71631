import { DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import { DeploymentMetrics, MetricsQuery } from "./metrics.ts";

/** Charts of a deployment. */
export const metricsOperations = {
  readMetrics: operation("readMetrics", {
    operationId: "read_metrics_v2_deployments__deployment_id__metrics_get",
    tag: "Metrics",
    summary: "Read replicas, CPU, memory, restarts, requests, errors and latencies over time; stored for seven days",
    params: DeploymentPath,
    query: MetricsQuery,
    response: { status: 200, schema: DeploymentMetrics },
    errors: ["deploymentNotFound", "invalidField"],
    role: "reader",
  }),
};
