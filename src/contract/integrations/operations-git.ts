import { bodyLimits } from "../body-limits.ts";
import { DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import { GitSettings, PatchGitSettings } from "./git-settings.ts";
import { HostMessageReceipt, IntegrationPath } from "./integration.ts";

/** Webhooks of code hosts about pushes and pull requests, and how deployments react to them (contract 10). */
export const gitOperations = {
  receiveGithubWebhook: operation("receiveGithubWebhook", {
    operationId: "receive_github_webhook_v1_integrations_github_webhook_post",
    tag: "Integrations",
    summary: "Receive a webhook of the GitHub App, signed with its secret",
    bodyLimits: bodyLimits.hostMessage,
    response: { status: 202, schema: HostMessageReceipt },
    errors: ["webhookUnsigned"],
    role: "none",
  }),
  receiveHostWebhook: operation("receiveHostWebhook", {
    operationId: "receive_host_webhook_v1_integrations__integration_id__webhook_post",
    tag: "Integrations",
    summary: "Receive a webhook of the host of a stored integration, signed with the integration's secret",
    params: IntegrationPath,
    bodyLimits: bodyLimits.hostMessage,
    response: { status: 202, schema: HostMessageReceipt },
    errors: ["webhookUnsigned"],
    role: "none",
  }),
  getGitSettings: operation("getGitSettings", {
    operationId: "get_git_settings_v2_deployments__deployment_id__git_get",
    tag: "Integrations",
    summary: "Read how a deployment reacts to pushes and pull requests",
    params: DeploymentPath,
    response: { status: 200, schema: GitSettings },
    errors: ["deploymentNotFound"],
    role: "reader",
  }),
  patchGitSettings: operation("patchGitSettings", {
    operationId: "patch_git_settings_v2_deployments__deployment_id__git_patch",
    tag: "Integrations",
    summary: "Change how a deployment reacts to pushes and pull requests",
    params: DeploymentPath,
    body: PatchGitSettings,
    response: { status: 200, schema: GitSettings },
    errors: ["deploymentNotFound", "beingDeleted", "fieldNotApplicable", "invalidField"],
    role: "deployer",
  }),
};
