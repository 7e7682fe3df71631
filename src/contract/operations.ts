import type { ErrorCode } from "./error.ts";
import { requestHeadersOf } from "./headers.ts";
import { keepsAnswer, type Operation } from "./operation.ts";
import { administrationOperations } from "./operations-administration.ts";
import { agentAuthOperations } from "./operations-agent-auth.ts";
import { agentConnectionOperations, oauthFlowOperations, oauthTokenOperations } from "./operations-auth.ts";
import { debugOperations } from "./operations-debug.ts";
import { deploymentOperations } from "./operations-deployments.ts";
import { eventOperations } from "./operations-events.ts";
import { gitOperations } from "./operations-git.ts";
import { githubAppOperations } from "./operations-github-app.ts";
import { integrationOperations } from "./operations-integrations.ts";
import { listenerProtocolOperations } from "./operations-listener-protocol.ts";
import { listenerOperations } from "./operations-listeners.ts";
import { logOperations } from "./operations-logs.ts";
import { metricsOperations } from "./operations-metrics.ts";
import { oauthProviderOperations } from "./operations-oauth-providers.ts";
import { revisionOperations } from "./operations-revisions.ts";
import { serverOperations } from "./operations-server.ts";
import { sessionOperations } from "./operations-sessions.ts";
import { tagOperations } from "./operations-tags.ts";
import { webhookOperations } from "./operations-webhooks.ts";

/** Every operation of the API by its id. Routes, the OpenAPI document and the client are made from this table. */
export const operations = {
  ...serverOperations,
  ...sessionOperations,
  ...deploymentOperations,
  ...revisionOperations,
  ...logOperations,
  ...metricsOperations,
  ...eventOperations,
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
} as const satisfies Record<string, Operation>;

export type OperationId = keyof typeof operations;

/** Refusals that any operation with a key can answer. */
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

/** Every refusal an operation can answer: its own, and those that follow from its role and from what it reads. */
export function refusalsOf(operation: Operation): readonly ErrorCode[] {
  const { role, verb, params, query, body, stream, takesIfMatch, administers, errors } = operation;
  const hasInput = [params, query, body, requestHeadersOf(operation)].some((part) => part !== null);
  return [
    ...new Set<ErrorCode>([
      ...errors,
      ...(role === "none" ? [] : commonErrors),
      ...(administers === null ? [] : (["scopeMissing"] as const)),
      ...(keepsAnswer(operation) ? (["idempotencyKeyReused"] as const) : []),
      ...(takesIfMatch ? (["changedMeanwhile"] as const) : []),
      ...(hasInput ? (["invalidRequest"] as const) : []),
      // Bytes are counted before anybody knows that nothing will be read.
      ...(verb === "GET" || stream !== null ? [] : (["bodyTooLarge"] as const)),
    ]),
  ];
}
