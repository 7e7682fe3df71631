import { administrationOperations } from "./administration/operations-administration.ts";
import { debugOperations } from "./administration/operations-debug.ts";
import { mcpOperations } from "./administration/operations-mcp.ts";
import { serverOperations } from "./administration/operations-server.ts";
import { sessionOperations } from "./administration/operations-sessions.ts";
import { tagOperations } from "./administration/operations-tags.ts";
import { alertOperations } from "./alerts/operations-alerts.ts";
import { deploymentOperations } from "./deployments/operations-deployments.ts";
import { detectionOperations } from "./detections/operations-detections.ts";
import type { ErrorCode } from "./error.ts";
import { requestHeadersOf } from "./headers.ts";
import { gitOperations } from "./integrations/operations-git.ts";
import { githubAppOperations } from "./integrations/operations-github-app.ts";
import { integrationOperations } from "./integrations/operations-integrations.ts";
import { listenerProtocolOperations } from "./listeners/operations-listener-protocol.ts";
import { listenerOperations } from "./listeners/operations-listeners.ts";
import { eventOperations } from "./logs/operations-events.ts";
import { logOperations } from "./logs/operations-logs.ts";
import { metricsOperations } from "./logs/operations-metrics.ts";
import { agentAuthOperations } from "./oauth/operations-agent-auth.ts";
import { agentConnectionOperations, oauthFlowOperations, oauthTokenOperations } from "./oauth/operations-auth.ts";
import { oauthProviderOperations } from "./oauth/operations-oauth-providers.ts";
import { type Operation, takesIdempotencyKey } from "./operation.ts";
import { revisionOperations } from "./revisions/operations-revisions.ts";
import { runAgainOperations } from "./revisions/operations-run-again.ts";
import { variableOperations } from "./variables/operations-variables.ts";
import { webhookOperations } from "./webhooks/operations-webhooks.ts";

/** Written out, because the declaration of the inferred type is longer than the compiler writes. */
type Operations = typeof serverOperations &
  typeof sessionOperations &
  typeof deploymentOperations &
  typeof detectionOperations &
  typeof revisionOperations &
  typeof runAgainOperations &
  typeof logOperations &
  typeof metricsOperations &
  typeof eventOperations &
  typeof alertOperations &
  typeof variableOperations &
  typeof webhookOperations &
  typeof integrationOperations &
  typeof githubAppOperations &
  typeof gitOperations &
  typeof listenerOperations &
  typeof administrationOperations &
  typeof tagOperations &
  typeof oauthProviderOperations &
  typeof oauthFlowOperations &
  typeof oauthTokenOperations &
  typeof agentConnectionOperations &
  typeof agentAuthOperations &
  typeof listenerProtocolOperations &
  typeof debugOperations &
  typeof mcpOperations;

/** Every operation of the API by its id. The routes, the OpenAPI document and the client are derived from this table. */
export const operations: Operations = {
  ...serverOperations,
  ...sessionOperations,
  ...deploymentOperations,
  ...detectionOperations,
  ...revisionOperations,
  ...runAgainOperations,
  ...logOperations,
  ...metricsOperations,
  ...eventOperations,
  ...alertOperations,
  ...variableOperations,
  ...webhookOperations,
  ...integrationOperations,
  ...githubAppOperations,
  ...gitOperations,
  ...listenerOperations,
  ...administrationOperations,
  ...tagOperations,
  ...oauthProviderOperations,
  ...oauthFlowOperations,
  ...oauthTokenOperations,
  ...agentConnectionOperations,
  ...agentAuthOperations,
  ...listenerProtocolOperations,
  ...debugOperations,
  ...mcpOperations,
} satisfies Record<string, Operation>;

export type OperationId = keyof typeof operations;

/** Errors that any operation with a key can return. */
export const commonErrors: readonly ErrorCode[] = [
  "invalidToken",
  "tenantMismatch",
  "workspaceRequired",
  "forbidden",
  "roleMissing",
  "deploymentsDisabled",
  "tooManyRequests",
  "unavailable",
  "diskFull",
];

/** Errors that any operation can return to a request with a body. */
const bodyErrors: readonly ErrorCode[] = [
  "bodyTooDeep",
  "bodyTooLarge",
  "bodyTooManyValues",
  "bodyTooSlow",
  "tooManyRequests",
  "unavailable",
];

/** Returns every error that an operation can return: its own, and those that follow from its role and its input. */
export function errorsOf(operation: Operation): readonly ErrorCode[] {
  const { role, verb, params, query, body, stream, takesIfMatch, administers, errors } = operation;
  const hasInput = [params, query, body, requestHeadersOf(operation)].some((part) => part !== null);
  return [
    ...new Set<ErrorCode>([
      ...errors,
      ...(role === "none" ? [] : commonErrors),
      ...(administers === null ? [] : (["scopeMissing"] as const)),
      ...(takesIdempotencyKey(operation) ? (["idempotencyKeyReused"] as const) : []),
      ...(takesIfMatch ? (["changedMeanwhile"] as const) : []),
      ...(hasInput ? (["invalidRequest"] as const) : []),
      // The server reads a body within its limits before it knows whether the operation uses it.
      ...(verb === "GET" || stream !== null ? [] : bodyErrors),
    ]),
  ];
}
