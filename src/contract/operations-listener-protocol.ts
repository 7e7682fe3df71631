import {
  DesiredPage,
  Inventory,
  InventoryAnswer,
  LogBatch,
  SecretValues,
  Session,
  SessionRequest,
  StatusBatch,
} from "./assignment.ts";
import { DeploymentPath } from "./deployment.ts";
import { DesiredQuery, Heartbeat, SecretsQuery } from "./listener-protocol.ts";
import { MetricBatch } from "./metrics.ts";
import { operation } from "./operation.ts";

const protocol = { tag: "Listener protocol", role: "listener", audience: "listener" } as const;

/** What a data plane asks and reports. Every call but the first carries the session's epoch in a header. */
export const listenerProtocolOperations = {
  openListenerSession: operation("openListenerSession", {
    ...protocol,
    operationId: "open_listener_session",
    verb: "POST",
    path: "/dp/v1/sessions",
    summary: "Become the one instance that acts for this listener",
    body: SessionRequest,
    response: { status: 201, schema: Session },
    errors: ["listenerBusy", "protocolUnknown"],
  }),
  closeListenerSession: operation("closeListenerSession", {
    ...protocol,
    operationId: "close_listener_session",
    verb: "DELETE",
    path: "/dp/v1/sessions",
    summary: "End the session, so that the next instance need not wait for its lease",
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
  getDesired: operation("getDesired", {
    ...protocol,
    operationId: "get_desired",
    verb: "GET",
    path: "/dp/v1/desired",
    summary: "Assignments that changed after a resource version; waits for one if there is none",
    query: DesiredQuery,
    response: { status: 200, schema: DesiredPage },
    errors: ["staleEpoch", "desiredGone"],
  }),
  getSecretValues: operation("getSecretValues", {
    ...protocol,
    operationId: "get_secret_values",
    verb: "GET",
    path: "/dp/v1/deployments/{deployment_id}/secrets",
    summary: "The values of one secret set",
    params: DeploymentPath,
    query: SecretsQuery,
    response: { status: 200, schema: SecretValues },
    errors: ["staleEpoch", "deploymentNotFound", "secretSetNotFound"],
  }),
  reportStatus: operation("reportStatus", {
    ...protocol,
    operationId: "report_status",
    verb: "POST",
    path: "/dp/v1/status",
    summary: "What the listener sees of its deployments",
    body: StatusBatch,
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
  sendHeartbeat: operation("sendHeartbeat", {
    ...protocol,
    operationId: "send_heartbeat",
    verb: "POST",
    path: "/dp/v1/heartbeat",
    summary: "Renew the lease of the session",
    response: { status: 200, schema: Heartbeat },
    errors: ["staleEpoch"],
  }),
  compareInventory: operation("compareInventory", {
    ...protocol,
    operationId: "compare_inventory",
    verb: "POST",
    path: "/dp/v1/inventory",
    summary: "Compare what the listener holds with what it should",
    body: Inventory,
    response: { status: 200, schema: InventoryAnswer },
    errors: ["staleEpoch"],
  }),
  sendReplicaLogs: operation("sendReplicaLogs", {
    ...protocol,
    operationId: "send_replica_logs",
    verb: "POST",
    path: "/dp/v1/logs",
    summary: "Log lines of replicas; a line sent twice is stored once",
    body: LogBatch,
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
  sendMetrics: operation("sendMetrics", {
    ...protocol,
    operationId: "send_metrics",
    verb: "POST",
    path: "/dp/v1/metrics",
    summary: "What deployments used and answered since the last call",
    body: MetricBatch,
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
};
