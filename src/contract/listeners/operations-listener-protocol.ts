import { bodyLimits } from "../body-limits.ts";
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
import {
  BuildOrders,
  BuildOrdersQuery,
  BuildPath,
  BuildProgress,
  BuildProgressAnswer,
  ContextQuery,
} from "./build-order.ts";
import { ImageRemovalAnswer, ImageRemovalClaim } from "./image-removal.ts";
import { DesiredQuery, Enrolled, Heartbeat, SecretsQuery } from "./listener-protocol.ts";

const protocol = { tag: "Listener protocol", role: "listener", audience: "listener" } as const;

/** Requests and reports of a data plane. Every call except the first two carries the session's epoch in a header. */
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
    summary: "Open the only session that may act for this listener",
    body: SessionRequest,
    response: { status: 201, schema: Session },
    errors: ["listenerBusy", "listenerDraining", "protocolUnknown"],
  }),
  closeListenerSession: operation("closeListenerSession", {
    ...protocol,
    operationId: "close_listener_session",
    summary: "End the session, so that the next instance does not have to wait for its lease",
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
  getDesired: operation("getDesired", {
    ...protocol,
    operationId: "get_desired",
    summary: "List the assignments that changed after a resource version; waits for one if there is none",
    query: DesiredQuery,
    response: { status: 200, schema: DesiredPage },
    errors: ["staleEpoch", "desiredGone"],
  }),
  getSecretValues: operation("getSecretValues", {
    ...protocol,
    operationId: "get_secret_values",
    summary: "Read the values of one secret set",
    params: DeploymentPath,
    query: SecretsQuery,
    response: { status: 200, schema: SecretValues },
    errors: ["staleEpoch", "deploymentNotFound", "secretSetNotFound"],
  }),
  reportStatus: operation("reportStatus", {
    ...protocol,
    operationId: "report_status",
    summary: "Report the state of the listener's deployments",
    body: StatusBatch,
    bodyLimits: bodyLimits.report,
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
    summary: "Compare the assignments that the listener holds with those it should hold",
    body: Inventory,
    bodyLimits: bodyLimits.report,
    response: { status: 200, schema: InventoryAnswer },
    errors: ["staleEpoch", "desiredGone"],
  }),
  sendReplicaLogs: operation("sendReplicaLogs", {
    ...protocol,
    operationId: "send_replica_logs",
    summary: "Store log lines of replicas; a line that is sent twice is stored once",
    body: LogBatch,
    bodyLimits: bodyLimits.report,
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
  sendMetrics: operation("sendMetrics", {
    ...protocol,
    operationId: "send_metrics",
    summary: "Report what deployments used and answered since the last call",
    body: MetricBatch,
    bodyLimits: bodyLimits.report,
    response: { status: 204, schema: null },
    errors: ["staleEpoch"],
  }),
  listBuildOrders: operation("listBuildOrders", {
    ...protocol,
    operationId: "list_build_orders",
    summary: "List the images that the listener shall build",
    query: BuildOrdersQuery,
    response: { status: 200, schema: BuildOrders },
    errors: ["staleEpoch"],
  }),
  reportBuild: operation("reportBuild", {
    ...protocol,
    operationId: "report_build",
    summary: "Store log lines of a build, and its end",
    body: BuildProgress,
    bodyLimits: bodyLimits.report,
    response: { status: 200, schema: BuildProgressAnswer },
    errors: ["staleEpoch"],
  }),
  claimImageRemoval: operation("claimImageRemoval", {
    ...protocol,
    operationId: "claim_image_removal",
    summary: "Claim images to remove from the listener's registry, and report those that are gone",
    body: ImageRemovalClaim,
    bodyLimits: bodyLimits.report,
    response: { status: 200, schema: ImageRemovalAnswer },
    errors: ["staleEpoch"],
  }),
  getBuildContext: operation("getBuildContext", {
    tag: "Listener protocol",
    role: "none",
    audience: "listener",
    operationId: "get_build_context",
    summary: "Download the context of a build from its signed URL",
    params: BuildPath,
    query: ContextQuery,
    response: { status: 200, schema: null, file: "application/x-tar" },
    errors: ["contextUrlInvalid"],
  }),
};
