import { DeploymentPath } from "../deployments/deployment.ts";
import { operation } from "../operation.ts";
import { RevisionPath } from "../revisions/revision.ts";
import { DeploymentLogPage, DeploymentLogsQuery, LogPage, ReadLogsBody, ReadLogsQuery } from "./log.ts";
import { LogSearch, SearchLogsQuery } from "./search.ts";

const page = { status: 200, schema: LogPage };

/** Build and replica logs, at every address that existing clients use (contract 3.4). A project is a deployment. */
export const logOperations = {
  searchLogs: operation("searchLogs", {
    operationId: "search_logs_v2_logs_get",
    tag: "Logs",
    summary: "Search the build and replica logs of all deployments, newest first",
    query: SearchLogsQuery,
    response: { status: 200, schema: LogSearch },
    errors: ["invalidLogQuery", "invalidLogCursor", "invalidField"],
    role: "reader",
  }),
  getRevisionLogs: operation("getRevisionLogs", {
    operationId: "get_revision_logs_v2_deployments__deployment_id__revisions__revision_id__logs_get",
    tag: "Logs",
    summary: "Read the build or replica logs of a revision",
    params: RevisionPath,
    query: ReadLogsQuery,
    response: page,
    errors: ["deploymentNotFound", "revisionNotFound", "invalidLogCursor"],
    role: "reader",
  }),
  listDeploymentLogs: operation("listDeploymentLogs", {
    operationId: "list_deployment_logs_v2_deployment_logs_get",
    tag: "Logs",
    summary: "Read logs by cursor",
    query: DeploymentLogsQuery,
    response: { status: 200, schema: DeploymentLogPage },
    errors: ["deploymentNotFound", "revisionNotFound", "invalidLogCursor"],
    role: "reader",
  }),
  getDeploymentLogs: operation("getDeploymentLogs", {
    operationId: "get_deployment_logs_v2_deployments__deployment_id__logs_get",
    tag: "Logs",
    summary: "Read the build or replica logs of all revisions",
    params: DeploymentPath,
    query: ReadLogsQuery,
    response: page,
    errors: ["deploymentNotFound", "invalidLogCursor"],
    role: "reader",
  }),
  readBuildLogs: operation("readBuildLogs", {
    operationId: "read_build_logs_v1_projects__deployment_id__revisions__revision_id__build_logs_post",
    tag: "Logs",
    summary: "Read the build logs of a revision, for the command-line clients",
    params: RevisionPath,
    body: ReadLogsBody,
    bodyRequired: false,
    response: page,
    errors: ["deploymentNotFound", "revisionNotFound", "invalidLogCursor"],
    role: "reader",
  }),
  readRevisionDeployLogs: operation("readRevisionDeployLogs", {
    operationId: "read_deploy_logs_v1_projects__deployment_id__revisions__revision_id__deploy_logs_post",
    tag: "Logs",
    summary: "Read the replica logs of a revision, for the command-line clients",
    params: RevisionPath,
    body: ReadLogsBody,
    bodyRequired: false,
    response: page,
    errors: ["deploymentNotFound", "revisionNotFound", "invalidLogCursor"],
    role: "reader",
  }),
  readDeployLogs: operation("readDeployLogs", {
    operationId: "read_deploy_logs_v1_projects__deployment_id__deploy_logs_post",
    tag: "Logs",
    summary: "Read the replica logs of all revisions, for the command-line clients",
    params: DeploymentPath,
    body: ReadLogsBody,
    bodyRequired: false,
    response: page,
    errors: ["deploymentNotFound", "invalidLogCursor"],
    role: "reader",
  }),
};
