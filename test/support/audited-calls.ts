import { randomUUID } from "node:crypto";
import type { Verb } from "../../src/contract/routes.ts";
import { newIntegration, newProvider } from "./call-api.ts";

/** Calls the API as an operator, fails unless the call succeeds, and returns the response body. */
// biome-ignore lint/suspicious/noExplicitAny: answers of every shape.
export type Ask = (verb: Verb, path: string, body?: object) => Promise<any>;

/** A call that changes something, and the action that the audit log then contains. */
export type Prepared = [path: string, action: string, body?: object];

/** Operations that write no row, or that the audit test does not call, each with the reason. */
export const notCalled: Record<string, string> = {
  deleteSlackWorkspaceToken: "needs a running Slack; it writes a row per deleted token, as deleteOAuthToken does",
  createInstallationLink: "returns an address; the change is the installation, audited like createIntegration",
  createForgeInstallationLink: "same as createInstallationLink",
  createGithubAppLink: "returns an address; the change is the App, whose row test/hosts checks",
  deleteGithubApp: "needs a GitHub that created an App; test/hosts checks its row",
  selectInstallation: "needs a sign-in at GitHub; it creates an integration, audited like createIntegration",
  attachInstallation: "needs a running GitHub; it creates an integration, audited like createIntegration",
  detectSource: "reads a source and changes nothing",
  detectArchive: "reads an archive and changes nothing",
  createUploadUrl: "returns an address; the change is the revision created from the upload",
  rollbackRevision: "needs a revision that served; test/api/run-again.test.ts checks its row",
  restartDeployment: "needs a revision that serves; test/api/run-again.test.ts checks its row",
  muteAlert: "needs an alert; test/api/alerts.test.ts checks its row",
  putDeploymentVariableGroups:
    "writes a row for the list and one for the revision; test/api/variable-groups.test.ts checks them",
  createPushToken: "returns a token; the change is the revision created from the pushed image",
  discoverMcpProvider: "calls an MCP server; it creates a provider, audited like createOAuthProvider",
};

const admin = "/v2/admin";
const auth = "/v2/auth";
const providers = `${auth}/providers`;
const connections = `${auth}/agents/bot/connections`;
const unique = (what: string) => `${what}-${randomUUID().slice(0, 8)}`;
const gitSource = {
  source: "github",
  source_config: { repo_url: "https://github.com/acme/bot", build_on_push: false },
  source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
};
const newDeployment = (ask: Ask) => ask("POST", "/v2/deployments", { name: unique("bot"), ...gitSource });
const newListener = (ask: Ask) =>
  ask("POST", "/v2/listeners", { compute_type: "k8s", compute_id: unique("cluster"), compute_config: {} });
const newWorkspace = (ask: Ask) => ask("POST", `${admin}/workspaces`, { name: unique("workspace") });
const newOrganization = (ask: Ask) => ask("POST", `${admin}/organizations`, { name: unique("organization") });
const newMember = (ask: Ask) =>
  ask("POST", `${admin}/members`, { email: `${unique("a")}@example.org`, role: "reader" });
const newTag = (ask: Ask) => ask("POST", `${admin}/tags`, { name: unique("tag"), values: ["one"] });
const deploymentPath = async (ask: Ask) => `/v2/deployments/${(await newDeployment(ask)).id}`;
const revisionPath = async (ask: Ask) => {
  const { id, latest_revision_id } = await newDeployment(ask);
  return `/v2/deployments/${id}/revisions/${latest_revision_id}`;
};
const tagPath = async (ask: Ask) => `${admin}/tags/${(await newTag(ask)).id}`;
const providerPath = async (ask: Ask) => `${providers}/${(await ask("POST", providers, newProvider())).provider_id}`;
const importBody = async (ask: Ask) => {
  const { provider_id } = await ask("POST", providers, newProvider());
  return { provider_id, access_token: "hidden" };
};
const connectionBody = async (ask: Ask) => {
  const { token_id } = await ask("POST", `${auth}/tokens/import`, await importBody(ask));
  return { oauth_token_id: token_id };
};
const valuePath = async (ask: Ask) => {
  const { id, values } = await newTag(ask);
  return `${admin}/tags/${id}/values/${values[0].id}`;
};

const newGroup = (ask: Ask) => ask("POST", "/v2/variable-groups", { name: unique("group") });
const groupPath = async (ask: Ask) => `/v2/variable-groups/${(await newGroup(ask)).id}`;
const newWebhook = (ask: Ask) => ask("POST", "/v2/webhooks", { url: "https://hooks.invalid/x" });
const webhookPath = async (ask: Ask) => `/v2/webhooks/${(await newWebhook(ask)).id}`;

const integrations = "/v2/integrations";
const integrationPath = async (ask: Ask) =>
  `${integrations}/${(await ask("POST", integrations, newIntegration(unique("git")))).id}`;

/** How to call each operation that changes something, and its action in the audit log. */
export const auditedCalls: Record<string, (ask: Ask) => Promise<Prepared>> = {
  createDeployment: async () => ["/v2/deployments", "deployment.create", { name: unique("bot"), ...gitSource }],
  deleteDeployments: async (ask) => [
    `/v2/deployments?deployment_ids=${(await newDeployment(ask)).id}`,
    "deployment.delete",
  ],
  patchDeployment: async (ask) => [await deploymentPath(ask), "deployment.patch", { display_name: "Bot" }],
  deleteDeployment: async (ask) => [await deploymentPath(ask), "deployment.delete"],
  patchDeploymentTier: async (ask) => [
    `${await deploymentPath(ask)}/deployment-tier`,
    "deployment.resize",
    { deployment_tier: "DEDICATED_M" },
  ],
  patchResourceTiers: async (ask) => [
    `${await deploymentPath(ask)}/resource-tiers`,
    "deployment.resize",
    { compute_tier: "M" },
  ],
  createRevision: async (ask) => [`${await deploymentPath(ask)}/revisions`, "revision.create", {}],
  redeployRevision: async (ask) => {
    const path = await revisionPath(ask);
    await ask("POST", `${path}/interrupt`);
    return [`${path}/redeploy`, "revision.redeploy"];
  },
  retryDeployment: async (ask) => {
    const path = await revisionPath(ask);
    await ask("POST", `${path}/interrupt`);
    return [path.replace(/revisions.*$/, "retry"), "deployment.retry"];
  },
  deployLatest: async (ask) => [`${await deploymentPath(ask)}/deploy-latest`, "deployment.deploy_latest"],
  changeVariables: async (ask) => [
    `${await deploymentPath(ask)}/variables`,
    "deployment.variables",
    { set: [{ name: "A", value: "1" }] },
  ],
  scaleDeployment: async (ask) => [`${await deploymentPath(ask)}/scale`, "deployment.scale", { min_replicas: 2 }],
  interruptRevision: async (ask) => [`${await revisionPath(ask)}/interrupt`, "revision.interrupt"],
  interruptRevisionAlias: async (ask) => [`${await revisionPath(ask)}/interruption`, "revision.interrupt"],
  createListener: async () => [
    "/v2/listeners",
    "listener.create",
    { compute_type: "k8s", compute_id: unique("cluster"), compute_config: {} },
  ],
  patchListener: async (ask) => [
    `/v2/listeners/${(await newListener(ask)).id}`,
    "listener.patch",
    { version: "2.0.0" },
  ],
  deleteListener: async (ask) => [`/v2/listeners/${(await newListener(ask)).id}`, "listener.delete"],
  createEnrollment: async (ask) => [
    `/v2/listeners/${(await newListener(ask)).id}/enrollment`,
    "listener.create_enrollment",
  ],
  replaceListenerKey: async (ask) => [`/v2/listeners/${(await newListener(ask)).id}/key`, "listener.replace_key"],
  changeAlertRule: async () => ["/v2/alerts/rules", "alert_rule.patch", { kind: "latency_p95", enabled: true }],
  changeDeploymentAlertRule: async (ask) => [
    `${await deploymentPath(ask)}/alert-rules`,
    "deployment.alert_rule",
    { kind: "failed", enabled: false },
  ],
  muteAlerts: async (ask) => [`${await deploymentPath(ask)}/mute-alerts`, "deployment.mute_alerts", { until: null }],
  createWebhook: async () => ["/v2/webhooks", "webhook.create", { url: "https://hooks.invalid/x" }],
  patchWebhook: async (ask) => [await webhookPath(ask), "webhook.patch", { types: ["revision.status"] }],
  deleteWebhook: async (ask) => [await webhookPath(ask), "webhook.delete"],
  replaceWebhookSecret: async (ask) => [`${await webhookPath(ask)}/secret`, "webhook.replace_secret"],
  testWebhook: async (ask) => [`${await webhookPath(ask)}/test`, "webhook.test"],
  redeliverWebhook: async (ask) => {
    const path = await webhookPath(ask);
    const { id } = await ask("POST", `${path}/test`);
    return [`${path}/deliveries/${id}/redeliver`, "webhook.redeliver"];
  },
  createOrganization: async () => [`${admin}/organizations`, "organization.create", { name: unique("organization") }],
  patchOrganization: async (ask) => [
    `${admin}/organizations/${(await newOrganization(ask)).id}`,
    "organization.patch",
    { plan: "cloud" },
  ],
  deleteOrganization: async (ask) => [
    `${admin}/organizations/${(await newOrganization(ask)).id}`,
    "organization.delete",
  ],
  createWorkspace: async () => [`${admin}/workspaces`, "workspace.create", { name: unique("workspace") }],
  patchWorkspace: async (ask) => [
    `${admin}/workspaces/${(await newWorkspace(ask)).id}`,
    "workspace.patch",
    { deployments_enabled: false },
  ],
  deleteWorkspace: async (ask) => [`${admin}/workspaces/${(await newWorkspace(ask)).id}`, "workspace.delete"],
  patchQuotas: async (ask) => [
    `${admin}/workspaces/${(await newWorkspace(ask)).id}/quotas`,
    "quotas.patch",
    { deployments: 7 },
  ],
  createApiKey: async () => [`${admin}/api-keys`, "api_key.create", { name: "ci", role: "deployer" }],
  revokeApiKey: async (ask) => {
    const { id } = await ask("POST", `${admin}/api-keys`, { name: "ci", role: "deployer" });
    return [`${admin}/api-keys/${id}`, "api_key.revoke"];
  },
  createMember: async () => [
    `${admin}/members`,
    "member.create",
    { email: `${unique("b")}@example.org`, role: "reader" },
  ],
  patchMember: async (ask) => [`${admin}/members/${(await newMember(ask)).id}`, "member.patch", { role: "admin" }],
  deleteMember: async (ask) => [`${admin}/members/${(await newMember(ask)).id}`, "member.delete"],
  createTag: async () => [`${admin}/tags`, "tag.create", { name: unique("tag") }],
  patchTag: async (ask) => [await tagPath(ask), "tag.patch", { description: "whose it is" }],
  deleteTag: async (ask) => [await tagPath(ask), "tag.delete"],
  createTagValue: async (ask) => [`${await tagPath(ask)}/values`, "tag_value.create", { name: "two" }],
  patchTagValue: async (ask) => [await valuePath(ask), "tag_value.patch", { name: "renamed" }],
  deleteTagValue: async (ask) => [await valuePath(ask), "tag_value.delete"],
  putDeploymentTags: async (ask) => {
    const [{ id }, tag] = [await newDeployment(ask), await newTag(ask)];
    return [`${admin}/deployments/${id}/tags`, "deployment.tag", { tag_value_ids: [tag.values[0].id] }];
  },
  createVariableGroup: async () => [
    "/v2/variable-groups",
    "variable_group.create",
    { name: unique("group"), variables: [{ name: "KEY", value: "hidden" }] },
  ],
  patchVariableGroup: async (ask) => [
    await groupPath(ask),
    "variable_group.patch",
    { set: [{ name: "KEY", value: "hidden" }] },
  ],
  deleteVariableGroup: async (ask) => [await groupPath(ask), "variable_group.delete"],
  patchGitSettings: async (ask) => [
    `${await deploymentPath(ask)}/git`,
    "deployment.git_settings",
    { exclude_paths: ["docs/**"] },
  ],
  createIntegration: async () => [integrations, "integration.create", newIntegration("git")],
  patchIntegration: async (ask) => [await integrationPath(ask), "integration.patch", { name: "Renamed" }],
  replaceIntegrationSecret: async (ask) => [
    `${await integrationPath(ask)}/webhook-secret`,
    "integration.replace_secret",
  ],
  deleteIntegration: async (ask) => [await integrationPath(ask), "integration.delete"],
  createOAuthProvider: async () => [providers, "oauth_provider.create", newProvider()],
  patchOAuthProvider: async (ask) => [await providerPath(ask), "oauth_provider.patch", { name: "Renamed" }],
  importOAuthToken: async (ask) => [`${auth}/tokens/import`, "oauth_token.import", await importBody(ask)],
  createAgentConnection: async (ask) => [connections, "agent_connection.create", await connectionBody(ask)],
  deleteAgentConnection: async (ask) => [
    `${connections}/${(await ask("POST", connections, await connectionBody(ask))).id}`,
    "agent_connection.delete",
  ],
  putAgentToken: async (ask) => {
    const { provider_id, ...brought } = await importBody(ask);
    return [`${auth}/agents/bot/providers/${provider_id}/tokens`, "agent_connection.create", brought];
  },
  deleteOAuthProvider: async (ask) => [await providerPath(ask), "oauth_provider.delete"],
};
