import { bodyLimits } from "../body-limits.ts";
import { Deployment, DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import { RevisionPath } from "./revision.ts";
import { ChangeVariables, RollbackPreview, RollbackQuery, RollbackRequest, ScaleDeployment } from "./run-again.ts";

const changesDeployment = {
  tag: "Revisions",
  params: DeploymentPath,
  response: { status: 200, schema: Deployment },
  hasEtag: true,
  takesIfMatch: true,
  role: "deployer",
} as const;

/** Operations of Pierhead that run code again that a deployment already has. The contract has only the redeploy. */
export const runAgainOperations = {
  previewRollback: operation("previewRollback", {
    operationId: "preview_rollback_v2_deployments__deployment_id__revisions__revision_id__rollback_get",
    tag: "Revisions",
    summary: "Show what a rollback to a revision would change",
    params: RevisionPath,
    query: RollbackQuery,
    response: { status: 200, schema: RollbackPreview },
    errors: ["deploymentNotFound", "revisionNotFound", "beingDeleted", "neverServed", "invalidField"],
    role: "reader",
  }),
  rollbackRevision: operation("rollbackRevision", {
    ...changesDeployment,
    operationId: "rollback_revision_v2_deployments__deployment_id__revisions__revision_id__rollback_post",
    summary: "Restore what served with a revision: code, variables, secrets and resources",
    params: RevisionPath,
    body: RollbackRequest,
    bodyRequired: false,
    errors: ["deploymentNotFound", "revisionNotFound", "beingDeleted", "neverServed", "invalidField", "quotaExceeded"],
  }),
  restartDeployment: operation("restartDeployment", {
    ...changesDeployment,
    operationId: "restart_deployment_v2_deployments__deployment_id__restart_post",
    summary: "Replace the replicas of the revision that serves by new ones of the same code and variables",
    errors: ["deploymentNotFound", "beingDeleted", "nothingServes", "revisionInProgress"],
  }),
  retryDeployment: operation("retryDeployment", {
    ...changesDeployment,
    operationId: "retry_deployment_v2_deployments__deployment_id__retry_post",
    summary: "Try the newest revision again, which failed, with the current settings",
    errors: ["deploymentNotFound", "beingDeleted", "nothingFailed", "quotaExceeded"],
  }),
  deployLatest: operation("deployLatest", {
    ...changesDeployment,
    operationId: "deploy_latest_v2_deployments__deployment_id__deploy_latest_post",
    summary: "Deploy the newest commit of the tracked branch",
    errors: ["deploymentNotFound", "beingDeleted", "latestNotApplicable"],
  }),
  changeVariables: operation("changeVariables", {
    ...changesDeployment,
    operationId: "change_variables_v2_deployments__deployment_id__variables_patch",
    summary: "Add, replace and remove variables, and run the current code with them",
    body: ChangeVariables,
    bodyLimits: bodyLimits.deployment,
    errors: ["deploymentNotFound", "beingDeleted", "invalidSecret", "secretNameReserved", "quotaExceeded"],
  }),
  scaleDeployment: operation("scaleDeployment", {
    ...changesDeployment,
    operationId: "scale_deployment_v2_deployments__deployment_id__scale_patch",
    summary: "Change how many replicas may run, and run the current code with that",
    body: ScaleDeployment,
    errors: ["deploymentNotFound", "beingDeleted", "cannotScale", "invalidField", "quotaExceeded"],
  }),
};
