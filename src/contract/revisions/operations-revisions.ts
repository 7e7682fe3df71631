import { bodyLimits } from "../body-limits.ts";
import { Deployment, DeploymentPath } from "../deployments/deployment.ts";
import { changeErrors } from "../deployments/operations-deployments.ts";
import { operation } from "../operation.ts";
import { CreateRevision, ListRevisionsQuery, Revision, RevisionPage, RevisionPath } from "./revision.ts";

const interrupt = {
  tag: "Revisions",
  params: RevisionPath,
  response: { status: 204, schema: null },
  errors: ["deploymentNotFound", "revisionNotFound", "revisionSettled"],
  role: "deployer",
} as const;

/** Revisions (contract 3.3). */
export const revisionOperations = {
  listRevisions: operation("listRevisions", {
    operationId: "list_revisions_v2_deployments__deployment_id__revisions_get",
    tag: "Revisions",
    summary: "List the revisions of a deployment, newest first",
    params: DeploymentPath,
    query: ListRevisionsQuery,
    response: { status: 200, schema: RevisionPage },
    errors: ["deploymentNotFound"],
    role: "reader",
  }),
  createRevision: operation("createRevision", {
    operationId: "create_revision_v2_deployments__deployment_id__revisions_post",
    tag: "Revisions",
    summary: "Create a revision from the current settings and the given changes",
    params: DeploymentPath,
    body: CreateRevision,
    bodyLimits: bodyLimits.deployment,
    bodyRequired: false,
    response: { status: 201, schema: Revision },
    errors: changeErrors,
    takesIfMatch: true,
    role: "deployer",
  }),
  getRevision: operation("getRevision", {
    operationId: "get_revision_v2_deployments__deployment_id__revisions__revision_id__get",
    tag: "Revisions",
    summary: "Read a revision",
    params: RevisionPath,
    response: { status: 200, schema: Revision },
    errors: ["deploymentNotFound", "revisionNotFound"],
    hasEtag: true,
    role: "reader",
  }),
  redeployRevision: operation("redeployRevision", {
    operationId: "redeploy_revision_v2_deployments__deployment_id__revisions__revision_id__redeploy_post",
    tag: "Revisions",
    summary: "Run the artifact of an earlier revision again, with the current secrets and resources",
    params: RevisionPath,
    response: { status: 200, schema: Deployment },
    errors: ["deploymentNotFound", "revisionNotFound", "beingDeleted", "revisionInProgress"],
    hasEtag: true,
    takesIfMatch: true,
    role: "deployer",
  }),
  interruptRevision: operation("interruptRevision", {
    ...interrupt,
    operationId: "interrupt_revision_v2_deployments__deployment_id__revisions__revision_id__interrupt_post",
    summary: "Stop a revision that is still in progress",
  }),
  interruptRevisionAlias: operation("interruptRevisionAlias", {
    ...interrupt,
    operationId: "interruption_revision_v2_deployments__deployment_id__revisions__revision_id__interruption_post",
    summary: "Stop a revision, at the address that older clients call",
  }),
};
