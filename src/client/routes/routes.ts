import type { debugOperations } from "../../contract/administration/operations-debug.ts";
import type { serverOperations } from "../../contract/administration/operations-server.ts";
import type { sessionOperations } from "../../contract/administration/operations-sessions.ts";
import type { deploymentOperations } from "../../contract/deployments/operations-deployments.ts";
import type { listenerOperations } from "../../contract/listeners/operations-listeners.ts";
import type { eventOperations } from "../../contract/logs/operations-events.ts";
import type { logOperations } from "../../contract/logs/operations-logs.ts";
import type { metricsOperations } from "../../contract/logs/operations-metrics.ts";
import type { revisionOperations } from "../../contract/revisions/operations-revisions.ts";
import type { webhookOperations } from "../../contract/webhooks/operations-webhooks.ts";
import { type AdminOperations, adminRoutes } from "./routes-admin.ts";
import { type AuthOperations, authRoutes } from "./routes-auth.ts";
import { type IntegrationOperations, integrationRoutes } from "./routes-integrations.ts";

/** The operations a client can call. Listeners have a client of their own; uploads go to a signed URL, browsers to pages. */
export type ClientOperations = Omit<
  typeof serverOperations &
    typeof sessionOperations &
    typeof deploymentOperations &
    typeof revisionOperations &
    typeof logOperations &
    typeof metricsOperations &
    typeof eventOperations &
    typeof webhookOperations &
    IntegrationOperations &
    typeof listenerOperations &
    typeof debugOperations &
    AdminOperations &
    AuthOperations,
  "putUpload" | "beginSignIn" | "finishSignIn"
>;

export interface Route {
  verb: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Parameters in braces. */
  path: string;
}

/**
 * Verb and path of each operation. The table in `contract/operations.ts` says the same, with schemas: 100 ms of loading
 * that a command line or a page should not pay. The compiler misses an entry, a test a wrong one.
 */
export const routes: Record<keyof ClientOperations, Route> = {
  getOk: get("/ok"),
  getHealth: get("/health"),
  getReadiness: get("/ready"),
  getInfo: get("/info"),
  getOpenapi: get("/openapi.json"),
  listTemplates: get("/v2/templates"),
  createSession: { verb: "POST", path: "/v2/session" },
  getSession: get("/v2/session"),
  deleteSession: { verb: "DELETE", path: "/v2/session" },
  listDeployments: get("/v2/deployments"),
  readMetrics: get("/v2/deployments/{deployment_id}/metrics"),
  createDeployment: { verb: "POST", path: "/v2/deployments" },
  deleteDeployments: { verb: "DELETE", path: "/v2/deployments" },
  countFreeDeployments: get("/v2/deployments/free-count"),
  getDeployment: get("/v2/deployments/{deployment_id}"),
  patchDeployment: { verb: "PATCH", path: "/v2/deployments/{deployment_id}" },
  deleteDeployment: { verb: "DELETE", path: "/v2/deployments/{deployment_id}" },
  patchDeploymentTier: { verb: "PATCH", path: "/v2/deployments/{deployment_id}/deployment-tier" },
  patchResourceTiers: { verb: "PATCH", path: "/v2/deployments/{deployment_id}/resource-tiers" },
  createPushToken: { verb: "POST", path: "/v2/deployments/{deployment_id}/push-token" },
  createUploadUrl: { verb: "POST", path: "/v2/deployments/{deployment_id}/upload-url" },
  listRevisions: get("/v2/deployments/{deployment_id}/revisions"),
  createRevision: { verb: "POST", path: "/v2/deployments/{deployment_id}/revisions" },
  getRevision: get("/v2/deployments/{deployment_id}/revisions/{revision_id}"),
  redeployRevision: {
    verb: "POST",
    path: "/v2/deployments/{deployment_id}/revisions/{revision_id}/redeploy",
  },
  interruptRevision: {
    verb: "POST",
    path: "/v2/deployments/{deployment_id}/revisions/{revision_id}/interrupt",
  },
  interruptRevisionAlias: {
    verb: "POST",
    path: "/v2/deployments/{deployment_id}/revisions/{revision_id}/interruption",
  },
  getRevisionLogs: get("/v2/deployments/{deployment_id}/revisions/{revision_id}/logs"),
  listDeploymentLogs: get("/v2/deployment-logs"),
  getDeploymentLogs: get("/v2/deployments/{deployment_id}/logs"),
  readBuildLogs: read("/v1/projects/{deployment_id}/revisions/{revision_id}/build_logs"),
  readRevisionDeployLogs: read("/v1/projects/{deployment_id}/revisions/{revision_id}/deploy_logs"),
  readDeployLogs: read("/v1/projects/{deployment_id}/deploy_logs"),
  listListeners: get("/v2/listeners"),
  createListener: { verb: "POST", path: "/v2/listeners" },
  getListener: get("/v2/listeners/{listener_id}"),
  patchListener: { verb: "PATCH", path: "/v2/listeners/{listener_id}" },
  deleteListener: { verb: "DELETE", path: "/v2/listeners/{listener_id}" },
  createEnrollment: { verb: "POST", path: "/v2/listeners/{listener_id}/enrollment" },
  replaceListenerKey: { verb: "POST", path: "/v2/listeners/{listener_id}/key" },
  listEvents: get("/v2/events"),
  listDeploymentEvents: get("/v2/deployments/{deployment_id}/events"),
  listWebhooks: get("/v2/webhooks"),
  createWebhook: { verb: "POST", path: "/v2/webhooks" },
  getWebhook: get("/v2/webhooks/{webhook_id}"),
  patchWebhook: { verb: "PATCH", path: "/v2/webhooks/{webhook_id}" },
  deleteWebhook: { verb: "DELETE", path: "/v2/webhooks/{webhook_id}" },
  replaceWebhookSecret: { verb: "POST", path: "/v2/webhooks/{webhook_id}/secret" },
  testWebhook: { verb: "POST", path: "/v2/webhooks/{webhook_id}/test" },
  listWebhookDeliveries: get("/v2/webhooks/{webhook_id}/deliveries"),
  redeliverWebhook: { verb: "POST", path: "/v2/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver" },
  debugDeployment: get("/debug/v1/deployments/{deployment_id}"),
  ...adminRoutes,
  ...authRoutes,
  ...integrationRoutes,
};

function get(path: string): Route {
  return { verb: "GET", path };
}

/** A question that older clients put into a body. */
function read(path: string): Route {
  return { verb: "POST", path };
}
