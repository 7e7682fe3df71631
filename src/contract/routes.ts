export type Verb = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

/** Verb and path of one operation, parameters in braces: `GET /v2/deployments/{deployment_id}`. */
export type RouteText = `${Verb} /${string}`;

/** Operations with a method in the client. */
export const clientRoutes = {
  // Server
  getOk: "GET /ok",
  getHealth: "GET /health",
  getReadiness: "GET /ready",
  getInfo: "GET /info",
  listTemplates: "GET /v2/templates",
  getOpenapi: "GET /openapi.json",
  createSession: "POST /v2/session",
  createSignInLink: "POST /v2/session/links",
  getSession: "GET /v2/session",
  deleteSession: "DELETE /v2/session",
  startDeviceLogin: "POST /v2/device-logins",
  finishDeviceLogin: "POST /v2/device-logins/key",
  getDeviceLogin: "GET /v2/device-logins",
  decideDeviceLogin: "POST /v2/device-logins/decision",
  endDeviceLogin: "DELETE /v2/device-logins",
  // Deployments
  listDeployments: "GET /v2/deployments",
  createDeployment: "POST /v2/deployments",
  deleteDeployments: "DELETE /v2/deployments",
  countHealth: "GET /v2/deployments/health-counts",
  readSummaries: "GET /v2/deployments/summaries",
  countFreeDeployments: "GET /v2/deployments/free-count",
  getDeployment: "GET /v2/deployments/{deployment_id}",
  patchDeployment: "PATCH /v2/deployments/{deployment_id}",
  deleteDeployment: "DELETE /v2/deployments/{deployment_id}",
  patchDeploymentTier: "PATCH /v2/deployments/{deployment_id}/deployment-tier",
  patchResourceTiers: "PATCH /v2/deployments/{deployment_id}/resource-tiers",
  listReplicas: "GET /v2/deployments/{deployment_id}/replicas",
  createUploadUrl: "POST /v2/deployments/{deployment_id}/upload-url",
  createPushToken: "POST /v2/deployments/{deployment_id}/push-token",
  // Detections
  detectSource: "POST /v2/detections",
  // Revisions
  listRevisions: "GET /v2/deployments/{deployment_id}/revisions",
  createRevision: "POST /v2/deployments/{deployment_id}/revisions",
  getRevision: "GET /v2/deployments/{deployment_id}/revisions/{revision_id}",
  redeployRevision: "POST /v2/deployments/{deployment_id}/revisions/{revision_id}/redeploy",
  previewRollback: "GET /v2/deployments/{deployment_id}/revisions/{revision_id}/rollback",
  rollbackRevision: "POST /v2/deployments/{deployment_id}/revisions/{revision_id}/rollback",
  restartDeployment: "POST /v2/deployments/{deployment_id}/restart",
  retryDeployment: "POST /v2/deployments/{deployment_id}/retry",
  deployLatest: "POST /v2/deployments/{deployment_id}/deploy-latest",
  changeVariables: "PATCH /v2/deployments/{deployment_id}/variables",
  scaleDeployment: "PATCH /v2/deployments/{deployment_id}/scale",
  interruptRevision: "POST /v2/deployments/{deployment_id}/revisions/{revision_id}/interrupt",
  interruptRevisionAlias: "POST /v2/deployments/{deployment_id}/revisions/{revision_id}/interruption",
  // Logs
  searchLogs: "GET /v2/logs",
  getRevisionLogs: "GET /v2/deployments/{deployment_id}/revisions/{revision_id}/logs",
  listDeploymentLogs: "GET /v2/deployment-logs",
  getDeploymentLogs: "GET /v2/deployments/{deployment_id}/logs",
  readBuildLogs: "POST /v1/projects/{deployment_id}/revisions/{revision_id}/build_logs",
  readRevisionDeployLogs: "POST /v1/projects/{deployment_id}/revisions/{revision_id}/deploy_logs",
  readDeployLogs: "POST /v1/projects/{deployment_id}/deploy_logs",
  // Metrics
  readTraffic: "GET /v2/deployments/traffic",
  readMetrics: "GET /v2/deployments/{deployment_id}/metrics",
  // Events
  listEvents: "GET /v2/events",
  listDeploymentEvents: "GET /v2/deployments/{deployment_id}/events",
  // Alerts
  listAlerts: "GET /v2/alerts",
  listAlertRules: "GET /v2/alerts/rules",
  changeAlertRule: "PATCH /v2/alerts/rules",
  listDeploymentAlertRules: "GET /v2/deployments/{deployment_id}/alert-rules",
  changeDeploymentAlertRule: "PATCH /v2/deployments/{deployment_id}/alert-rules",
  muteAlert: "POST /v2/alerts/{alert_id}/mute",
  muteAlerts: "POST /v2/deployments/{deployment_id}/mute-alerts",
  // Variable groups
  listVariableGroups: "GET /v2/variable-groups",
  createVariableGroup: "POST /v2/variable-groups",
  getVariableGroup: "GET /v2/variable-groups/{variable_group_id}",
  patchVariableGroup: "PATCH /v2/variable-groups/{variable_group_id}",
  deleteVariableGroup: "DELETE /v2/variable-groups/{variable_group_id}",
  getDeploymentVariableGroups: "GET /v2/deployments/{deployment_id}/variable-groups",
  putDeploymentVariableGroups: "PUT /v2/deployments/{deployment_id}/variable-groups",
  // Webhooks
  listWebhooks: "GET /v2/webhooks",
  createWebhook: "POST /v2/webhooks",
  getWebhook: "GET /v2/webhooks/{webhook_id}",
  patchWebhook: "PATCH /v2/webhooks/{webhook_id}",
  deleteWebhook: "DELETE /v2/webhooks/{webhook_id}",
  replaceWebhookSecret: "POST /v2/webhooks/{webhook_id}/secret",
  testWebhook: "POST /v2/webhooks/{webhook_id}/test",
  listWebhookDeliveries: "GET /v2/webhooks/{webhook_id}/deliveries",
  redeliverWebhook: "POST /v2/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver",
  // Integrations
  listGithubInstalls: "GET /v1/integrations/github/install",
  listGithubRepos: "GET /v1/integrations/github/{integration_id}/repos",
  listForgeInstalls: "GET /v1/integrations/forge/github/install",
  listForgeRepos: "GET /v1/integrations/forge/github/{integration_id}/repos",
  pageGithubInstallations: "GET /v2/integrations/github/installations",
  pageGithubRepositories: "GET /v2/integrations/github/installations/{integration_id}/repositories",
  pageForgeInstallations: "GET /v2/integrations/forge-github/installations",
  createInstallationLink: "POST /v2/integrations/github/installation-link",
  createForgeInstallationLink: "POST /v2/integrations/forge-github/installation-link",
  getPickerSession: "GET /v2/integrations/forge-github/picker-sessions/{session_id}",
  selectInstallation: "POST /v2/integrations/forge-github/picker-sessions/{session_id}/selection",
  attachInstallation: "POST /v2/admin/integrations/github",
  findAgentProjects: "GET /v2/integrations/projects",
  listIntegrations: "GET /v2/integrations",
  createIntegration: "POST /v2/integrations",
  getIntegration: "GET /v2/integrations/{integration_id}",
  patchIntegration: "PATCH /v2/integrations/{integration_id}",
  replaceIntegrationSecret: "POST /v2/integrations/{integration_id}/webhook-secret",
  deleteIntegration: "DELETE /v2/integrations/{integration_id}",
  createGithubAppLink: "POST /v2/admin/integrations/github/app",
  getGithubApp: "GET /v2/admin/integrations/github/app",
  deleteGithubApp: "DELETE /v2/admin/integrations/github/app",
  getGitSettings: "GET /v2/deployments/{deployment_id}/git",
  patchGitSettings: "PATCH /v2/deployments/{deployment_id}/git",
  // Listeners
  listListeners: "GET /v2/listeners",
  createListener: "POST /v2/listeners",
  getListener: "GET /v2/listeners/{listener_id}",
  patchListener: "PATCH /v2/listeners/{listener_id}",
  deleteListener: "DELETE /v2/listeners/{listener_id}",
  createEnrollment: "POST /v2/listeners/{listener_id}/enrollment",
  replaceListenerKey: "POST /v2/listeners/{listener_id}/key",
  // Administration
  listOrganizations: "GET /v2/admin/organizations",
  createOrganization: "POST /v2/admin/organizations",
  getOrganization: "GET /v2/admin/organizations/{organization_id}",
  patchOrganization: "PATCH /v2/admin/organizations/{organization_id}",
  deleteOrganization: "DELETE /v2/admin/organizations/{organization_id}",
  listWorkspaces: "GET /v2/admin/workspaces",
  createWorkspace: "POST /v2/admin/workspaces",
  getWorkspace: "GET /v2/admin/workspaces/{workspace_id}",
  patchWorkspace: "PATCH /v2/admin/workspaces/{workspace_id}",
  deleteWorkspace: "DELETE /v2/admin/workspaces/{workspace_id}",
  getQuotas: "GET /v2/admin/workspaces/{workspace_id}/quotas",
  patchQuotas: "PATCH /v2/admin/workspaces/{workspace_id}/quotas",
  listApiKeys: "GET /v2/admin/api-keys",
  createApiKey: "POST /v2/admin/api-keys",
  getApiKey: "GET /v2/admin/api-keys/{api_key_id}",
  revokeApiKey: "DELETE /v2/admin/api-keys/{api_key_id}",
  listMembers: "GET /v2/admin/members",
  createMember: "POST /v2/admin/members",
  getMember: "GET /v2/admin/members/{member_id}",
  patchMember: "PATCH /v2/admin/members/{member_id}",
  deleteMember: "DELETE /v2/admin/members/{member_id}",
  listAuditLog: "GET /v2/admin/audit-log",
  getPosture: "GET /v2/admin/posture",
  // Tags
  listTags: "GET /v2/admin/tags",
  createTag: "POST /v2/admin/tags",
  getTag: "GET /v2/admin/tags/{tag_id}",
  patchTag: "PATCH /v2/admin/tags/{tag_id}",
  deleteTag: "DELETE /v2/admin/tags/{tag_id}",
  createTagValue: "POST /v2/admin/tags/{tag_id}/values",
  patchTagValue: "PATCH /v2/admin/tags/{tag_id}/values/{tag_value_id}",
  deleteTagValue: "DELETE /v2/admin/tags/{tag_id}/values/{tag_value_id}",
  getDeploymentTags: "GET /v2/admin/deployments/{deployment_id}/tags",
  putDeploymentTags: "PUT /v2/admin/deployments/{deployment_id}/tags",
  // Auth
  listOAuthProviders: "GET /v2/auth/providers",
  listPlatformProviders: "GET /v2/auth/platform-providers",
  listOAuthPresets: "GET /v2/auth/provider-presets",
  createOAuthProvider: "POST /v2/auth/providers",
  discoverMcpProvider: "POST /v2/auth/providers/mcp-discover",
  getOAuthProvider: "GET /v2/auth/providers/{provider_id}",
  patchOAuthProvider: "PATCH /v2/auth/providers/{provider_id}",
  deleteOAuthProvider: "DELETE /v2/auth/providers/{provider_id}",
  authenticate: "POST /v2/auth/authenticate",
  waitForAuth: "GET /v2/auth/wait/{auth_id}",
  finishAuthRequest: "POST /v2/auth/callback/{provider_id}",
  listOAuthTokens: "GET /v2/auth/tokens",
  deleteOAuthTokens: "DELETE /v2/auth/tokens",
  hasOAuthToken: "GET /v2/auth/tokens/exists",
  hasOAuthTokens: "POST /v2/auth/tokens/exists/batch",
  importOAuthToken: "POST /v2/auth/tokens/import",
  hasSlackWorkspaceToken: "GET /v2/auth/tokens/workspace/slack/exists",
  deleteSlackWorkspaceToken: "DELETE /v2/auth/tokens/workspace/slack",
  patchOAuthToken: "PATCH /v2/auth/tokens/{token_id}/metadata",
  deleteOAuthToken: "DELETE /v2/auth/tokens/{token_id}",
  listTokenEvents: "GET /v2/auth/token-events",
  listAgentConnections: "GET /v2/auth/agents/{agent_id}/connections",
  createAgentConnection: "POST /v2/auth/agents/{agent_id}/connections",
  deleteAgentConnection: "DELETE /v2/auth/agents/{agent_id}/connections/{connection_id}",
  putAgentToken: "POST /v2/auth/agents/{agent_id}/providers/{provider_id}/tokens",
  // Agent servers
  getCallerKeys: "GET /.well-known/jwks.json",
  identifyAgentCaller: "GET /auth/public",
  verifyAgentCaller: "GET /auth/verify",
  getAgentEntitlement: "GET /auth",
  postAgentEntitlement: "POST /auth",
  submitAgentUsage: "POST /v1/metadata/submit",
  // Debug
  debugDeployment: "GET /debug/v1/deployments/{deployment_id}",
} as const satisfies Record<string, RouteText>;

/** Operations that the client has no method for: signed URLs, pages for browsers, byte streams and the listener protocol. */
const otherRoutes = {
  // Server
  beginSignIn: "GET /v2/session/oidc",
  finishSignIn: "GET /v2/session/oidc/callback",
  // Deployments
  putUpload: "PUT /uploads/{upload_id}",
  detectArchive: "POST /v2/detections/archive",
  // Integrations
  showGithubAppForm: "GET /v2/auth/github-app",
  finishGithubApp: "GET /v2/auth/github-app/created",
  receiveGithubWebhook: "POST /v1/integrations/github/webhook",
  receiveHostWebhook: "POST /v1/integrations/{integration_id}/webhook",
  // Administration
  getBackup: "GET /v2/admin/backup",
  // Auth
  receiveCallback: "GET /v2/auth/callback/{provider_id}",
  receiveCallbackAlias: "GET /host-oauth-callback/{provider_id}",
  setupGithubApp: "GET /v2/auth/setup/{provider_id}",
  // Tools for coding agents
  callMcp: "POST /mcp",
  // Listener protocol
  enrollListener: "POST /dp/v1/enroll",
  openListenerSession: "POST /dp/v1/sessions",
  closeListenerSession: "DELETE /dp/v1/sessions",
  getDesired: "GET /dp/v1/desired",
  getSecretValues: "GET /dp/v1/deployments/{deployment_id}/secrets",
  reportStatus: "POST /dp/v1/status",
  sendHeartbeat: "POST /dp/v1/heartbeat",
  compareInventory: "POST /dp/v1/inventory",
  sendReplicaLogs: "POST /dp/v1/logs",
  sendMetrics: "POST /dp/v1/metrics",
  listBuildOrders: "GET /dp/v1/builds",
  reportBuild: "POST /dp/v1/builds",
  claimImageRemoval: "POST /dp/v1/image-removals",
  getBuildContext: "GET /build-contexts/{build_id}",
} as const satisfies Record<string, RouteText>;

/**
 * Verb and path of every operation, by its name in code. Plain data without schemas, so that a command line or a page that
 * only calls the API does not load them (about 100 ms). `operations.ts` adds the schemas.
 */
export const routes = { ...clientRoutes, ...otherRoutes };

/** Name of an operation in code, logs and metrics. */
export type OperationName = keyof typeof routes;

export interface Route {
  verb: Verb;
  /** Parameters in braces. */
  path: string;
}

/** Splits the text of a route into verb and path. */
export function routeOf(text: RouteText): Route {
  const space = text.indexOf(" ");
  return { verb: text.slice(0, space) as Verb, path: text.slice(space + 1) };
}
