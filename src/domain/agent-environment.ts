import type { AgentRef } from "../contract/deployments/deployment.ts";

/** The facts that the injected environment is built from; none of them is secret. */
export interface AgentFacts {
  tenantId: string;
  deploymentId: string;
  deploymentName: string;
  /** Usually the deployment's name; different if another workspace's project in the backend has that name. */
  tracingProject: string;
  revisionId: string;
  /** Whether people of other workspaces may reach it too. */
  isShareable: boolean;
  /** Public address of the deployment. */
  url: string;
  /** Whether only callers of the workspace are accepted (contract 7.4). */
  hasEndpointAuth: boolean;
  /** Base URL of this control plane as agent servers reach it (contract 7.4). */
  controlPlaneUrl: string;
  /** The agent that the deployment was created for, and its environment. */
  agent: AgentRef | null;
  git: { repoUrl: string; ref: string; commitSha: string; configPath: string } | null;
}

/**
 * Returns the variables that a control plane gives every agent server (contract 7.2). They override the deployment's own
 * secrets, whose reserved names are refused on input. The compute driver chooses PORT.
 *
 * With endpoint auth the gateway authenticates callers before an agent server sees a request. An agent server that can
 * authenticate callers too (`LANGGRAPH_AUTH_TYPE`) is configured to do so, so that it knows its users.
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
    ...(facts.agent !== null && {
      LANGSMITH_AGENT_ID: facts.agent.agent_id,
      LANGSMITH_AGENT_ENVIRONMENT: facts.agent.environment,
    }),
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
