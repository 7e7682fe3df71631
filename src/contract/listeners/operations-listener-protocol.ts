import { DeploymentPath } from "../deployments/deployment.ts";
import { MetricBatch } from "../logs/metrics.ts";
import { operation } from "../operation.ts";
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
import { DesiredQuery, Enrolled, Heartbeat, SecretsQuery } from "./listener-protocol.ts";

const protocol = { tag: "Listener protocol", role: "listener", audience: "listener" } as const;

/** What a data plane asks and reports. Every call but the first carries the session's epoch in a header. */
export const listenerProtocolOperations = {
  enrollListener: operation("enrollListener", {
    ...protocol,
    operationId: "enroll_listener",
    summary: "Exchange an enrollment token, sent as the key, for the listener's key",
    response: { status: 201, schema: Enrolled },
    errors: ["enrolled"],
  }),
  openListenerSession: operation("openListenerSession", {
    ...protocol,
    operationId: "open_listener_session",
    summary: "Become the one instance that acts for this listener",
    body: SessionRequest,
    response: { status: 201, schema: Session },
    errors: ["listenerBusy", "listenerDraining", "protocolUnknown"],
  }),
  closeListenerSession: operation("closeListenerSession", {
    ...protocol,
    operationId: "close_listener_session",
    summary: "End the session, so that the next instance need not wait for its lease",
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
  getDesired: operation("getDesired", {
    ...protocol,
    operationId: "get_desired",
    summary: "Assignments that changed after a resource version; waits for one if there is none",
    query: DesiredQuery,
    response: { status: 200, schema: DesiredPage },
    errors: ["staleEpoch", "desiredGone"],
  }),
  getSecretValues: operation("getSecretValues", {
    ...protocol,
    operationId: "get_secret_values",
    summary: "The values of one secret set",
    params: DeploymentPath,
    query: SecretsQuery,
    response: { status: 200, schema: SecretValues },
    errors: ["staleEpoch", "deploymentNotFound", "secretSetNotFound"],
  }),
  reportStatus: operation("reportStatus", {
    ...protocol,
    operationId: "report_status",
    summary: "What the listener sees of its deployments",
    body: StatusBatch,
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
  sendHeartbeat: operation("sendHeartbeat", {
    ...protocol,
    operationId: "send_heartbeat",
    summary: "Renew the lease of the session",
    response: { status: 200, schema: Heartbeat },
    errors: ["staleEpoch"],
  }),
  compareInventory: operation("compareInventory", {
    ...protocol,
    operationId: "compare_inventory",
    summary: "Compare what the listener holds with what it should",
    body: Inventory,
    response: { status: 200, schema: InventoryAnswer },
    errors: ["staleEpoch", "desiredGone"],
  }),
  sendReplicaLogs: operation("sendReplicaLogs", {
    ...protocol,
    operationId: "send_replica_logs",
    summary: "Log lines of replicas; a line sent twice is stored once",
    body: LogBatch,
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
  sendMetrics: operation("sendMetrics", {
    ...protocol,
    operationId: "send_metrics",
    summary: "What deployments used and answered since the last call",
    body: MetricBatch,
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
};
