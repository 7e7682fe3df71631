import { DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import { DeploymentMetrics, MetricsQuery, Traffic, TrafficQuery } from "./metrics.ts";

/** Charts of a deployment. */
export const metricsOperations = {
  readTraffic: operation("readTraffic", {
    operationId: "read_traffic_v2_deployments_traffic_get",
    tag: "Metrics",
    summary: "Read requests and errors of the last 24 hours for up to 100 deployments",
    query: TrafficQuery,
    response: { status: 200, schema: Traffic },
    role: "reader",
  }),
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
