import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";
import type { Deployment } from "../../../../src/contract/deployments/deployment.ts";
import { type Agent, AgentError, isForeign, useAgent } from "../../agent/client.ts";
import type { Assistant } from "../../agent/types.ts";
import { assistantsIn, isOwn } from "../../agent/types.ts";
import { Address } from "../address.tsx";
import { causeOf, Said } from "../cause.tsx";
import { HealthActs } from "../health-banner.tsx";
import { Failure, Loading, Notice } from "../notices.tsx";
import { AgentHeaders } from "./agent-headers.tsx";

/** Returns the assistants, or null for a server that does not speak the agent API. */
async function findAssistants(agent: Agent, signal: AbortSignal): Promise<Assistant[] | null> {
  try {
    const found = await agent.call<unknown>("POST", "/assistants/search", { limit: 100, offset: 0 }, signal);
    if (!Array.isArray(found)) return null;
    // The graphs come first: the first assistant is the one that the playground begins with.
    // Servers answer in no order of their own, and the page has to begin with the same graph each time.
    return assistantsIn(found).toSorted(
      (a, b) => Number(isOwn(a)) - Number(isOwn(b)) || a.graph_id.localeCompare(b.graph_id, "en"),
    );
  } catch (error) {
    if (isForeign(error)) return null;
    throw error;
  }
}

/**
 * Reads the assistants of the revision that serves. null: its server does not speak the agent API.
 * The question wakes an agent that sleeps, so `isAsked` is false while a page may not need the answer.
 */
export function useAssistants(deployment: Deployment, isAsked = true) {
  const agent = useAgent(deployment);
  return useQuery({
    queryKey: ["agent", deployment.id, "assistants", deployment.active_revision_id],
    queryFn: ({ signal }) => findAssistants(agent, signal),
    enabled: isAsked && deployment.active_revision_id !== null,
    // Keeps the conversation while another revision takes over.
    placeholderData: keepPreviousData,
  });
}

/** Shows its children to agents that speak the agent API, and what is missing to all others. */
export function AgentGate(props: {
  deployment: Deployment;
  /** Shown for other servers, below the explanation. */
  otherwise?: ReactNode;
  children: (assistants: Assistant[]) => ReactNode;
}) {
  const { deployment, otherwise, children } = props;
  const found = useAssistants(deployment);
  if (deployment.active_revision_id === null) return <NotServing deployment={deployment} />;
  if (found.isPending) return <Loading what="the agent" />;
  if (found.isError && found.data === undefined)
    return <Unreached error={found.error} deployment={deployment} retry={() => void found.refetch()} />;
  if (found.data == null)
    return (
      <>
        <Notice>
          <b>This server does not speak the agent API.</b>
          <p>
            Threads, runs, the graph and approvals need <code>/assistants</code>, <code>/threads</code> and{" "}
            <code>/runs</code>, as LangGraph servers offer them. Deploy a graph with a <code>langgraph.json</code> to
            see them here.
          </p>
        </Notice>
        {otherwise}
      </>
    );
  return children(found.data);
}

/** Says what the first revision needs to serve, and leads there. */
function NotServing({ deployment }: { deployment: Deployment }) {
  const { id, tenant_id: tenantId, health } = deployment;
  const { title, variable } = causeOf(health);
  const isDeploying = health.status === "deploying";
  const isEmpty = deployment.latest_revision_id === null || health.reason === "NothingDeployed";
  return (
    <section className="card blank">
      <h2>
        {isEmpty ? "Nothing is deployed yet" : isDeploying ? "The first deploy is in progress" : "Nothing serves yet"}
      </h2>
      {!isDeploying && title !== "" && (
        <p>
          <Said text={`${title}.`} />
        </p>
      )}
      <p>
        {isDeploying ? "" : health.next_action?.text} Threads and the playground open as soon as a revision of this
        deployment answers.
      </p>
      <div className="row">
        {isDeploying ? (
          <Link
            to="/o/$tenantId/host/deployments/$id/$part"
            params={{ tenantId, id, part: "revisions" }}
            className="button primary"
          >
            Watch the deploy
          </Link>
        ) : (
          !isEmpty && <HealthActs deployment={deployment} variable={variable} isShort={false} />
        )}
      </div>
    </section>
  );
}

function Unreached(props: { error: Error; deployment: Deployment; retry: () => void }) {
  const { error, deployment, retry } = props;
  const { url } = deployment;
  if (error instanceof AgentError && error.isOfAgent && (error.status === 401 || error.status === 403))
    return (
      <Notice kind="warn">
        <b>This agent has its own authentication.</b>
        <p>
          It answered {error.status}: {error.detail}. Enter the headers that its clients send.
        </p>
        <AgentHeaders deploymentId={deployment.id} />
      </Notice>
    );
  // The gateway's answer for a deployment that a listener on another machine runs.
  const isElsewhere = error instanceof AgentError && error.status === 409;
  if (!isElsewhere || url === null) return <Failure error={error} retry={retry} />;
  return (
    <Notice kind="warn">
      <p>{error.detail}</p>
      <p className="row">
        <Address url={url} />
      </p>
      <button type="button" onClick={retry}>
        Try again
      </button>
    </Notice>
  );
}
