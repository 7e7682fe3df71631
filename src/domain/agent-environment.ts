/** What the injected environment is made of; nothing here is secret. */
export interface AgentFacts {
  tenantId: string;
  deploymentId: string;
  deploymentName: string;
  /** Called like the deployment, unless another workspace's project in the back end is. */
  tracingProject: string;
  revisionId: string;
  /** Reachable by people of other workspaces too. */
  isShareable: boolean;
  /** Public address of the deployment. */
  url: string;
  /** Only callers of the workspace are let in (contract 7.4). */
  hasEndpointAuth: boolean;
  /** Base URL of this control plane as an agent server reaches it (contract 7.4). */
  controlPlaneUrl: string;
  git: { repoUrl: string; ref: string; commitSha: string; configPath: string } | null;
}

/**
 * The variables a control plane gives every agent server (contract 7.2). They win over the deployment's own secrets,
 * whose reserved names are refused on input; PORT is chosen by the compute driver.
 *
 * With endpoint auth the gateway asks who calls before an agent server sees a request; one that can ask by itself
 * (`LANGGRAPH_AUTH_TYPE`) is told to, so that it knows its users too.
 */
export function agentEnvironment(facts: AgentFacts): Record<string, string> {
  return {
    LANGGRAPH_AUTH_TYPE: facts.hasEndpointAuth ? "langsmith" : "noop",
    LANGSMITH_AUTH_ENDPOINT: facts.controlPlaneUrl,
    LANGSMITH_HOST_API_URL: facts.controlPlaneUrl,
    PIERHEAD_URL: facts.controlPlaneUrl,
    LANGSMITH_TENANT_ID: facts.tenantId,
    LANGSMITH_AUTH_VERIFY_TENANT_ID: facts.isShareable ? "False" : "True",
    LANGSMITH_HOST_PROJECT_ID: facts.deploymentId,
    LANGSMITH_HOST_PROJECT_NAME: facts.deploymentName,
    LANGSMITH_DEPLOYMENT_NAME: facts.deploymentName,
    LANGSMITH_HOST_REVISION_ID: facts.revisionId,
    HOSTED_LANGSERVE_REVISION_ID: facts.revisionId,
    LANGSMITH_PROJECT: facts.tracingProject,
    LANGCHAIN_PROJECT: facts.tracingProject,
    LANGCHAIN_CALLBACKS_BACKGROUND: "true",
    LANGGRAPH_API_URL: facts.url,
    LOG_JSON: "true",
    LOG_DICT_TRACEBACKS: "true",
    DD_TRACE_PSYCOPG_ENABLED: "false",
    DD_TRACE_REDIS_ENABLED: "false",
    ...(facts.git === null ? {} : gitEnvironment(facts.git)),
  };
}

function gitEnvironment(git: NonNullable<AgentFacts["git"]>): Record<string, string> {
  return {
    LANGSMITH_LANGGRAPH_GIT_REPO: git.repoUrl,
    LANGGRAPH_GIT_REPO_PATH: git.configPath,
    LANGSMITH_LANGGRAPH_GIT_REF: git.ref,
    LANGSMITH_LANGGRAPH_GIT_REF_SHA: git.commitSha,
    LANGCHAIN_REVISION_ID: git.commitSha,
  };
}
