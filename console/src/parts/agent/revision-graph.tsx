import { useQuery } from "@tanstack/react-query";
import { type ReactNode, Suspense, useState } from "react";
import type { Deployment } from "../../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../../src/contract/revisions/revision.ts";
import { useAgent } from "../../agent/client.ts";
import { useGraph } from "../../agent/use-graph.ts";
import { useSession } from "../../session.tsx";
import { numberText } from "../revision-words.tsx";
import { useAssistants } from "./agent-gate.tsx";
import { GraphView } from "./lazy-graph.ts";

/** Engines that run graphs. The agent of an image may run one too, but only a running agent knows. */
const graphEngines: readonly (string | null)[] = ["file", "memory", "postgres"];

/**
 * The graph of a revision that does not serve. An agent describes its graph while it runs, and the server keeps none. A revision with
 * the build of the one that serves has the same graph. Empty for servers without graphs.
 */
export function RevisionGraph({ deployment, revision }: { deployment: Deployment; revision: Revision }) {
  const { client } = useSession();
  const { id, active_revision_id: activeId } = deployment;
  const serving = useQuery({
    queryKey: ["deployment", id, "revision", activeId],
    queryFn: ({ signal }) => client.getRevision({ deployment_id: id, revision_id: activeId ?? "" }, { signal }),
    enabled: activeId !== null,
  });
  if (serving.data === undefined) return null;
  if (revision.artifact_digest !== null && revision.artifact_digest === serving.data.artifact_digest)
    return <SameGraph deployment={deployment} serving={serving.data} />;
  // A revision whose build failed has no engine.
  if (!graphEngines.includes(revision.engine ?? serving.data.engine)) return null;
  return (
    <Section>
      <p className="soft">
        An agent describes its graph while it runs, and this build does not run. To see its graph, try the revision or
        roll back to it.
      </p>
    </Section>
  );
}

const Section = ({ children }: { children: ReactNode }) => (
  <section className="revision-graph" aria-label="Graph">
    <h2>Graph</h2>
    {children}
  </section>
);

/** Asks the agent that serves for its graph, one that sleeps only when the user wants it: the question wakes it. */
function SameGraph({ deployment, serving }: { deployment: Deployment; serving: Revision }) {
  const [isWanted, setWanted] = useState(false);
  const isAsked = isWanted || deployment.health.status !== "sleeping";
  const assistants = useAssistants(deployment, isAsked);
  const [assistant] = assistants.data ?? [];
  const number = numberText(serving);
  if (!isAsked) {
    if (!graphEngines.includes(serving.engine)) return null;
    return (
      <Section>
        <p className="soft">Revision {number} serves the same build, and its agent sleeps.</p>
        <button type="button" onClick={() => setWanted(true)}>
          Wake it and show its graph
        </button>
      </Section>
    );
  }
  if (assistant === undefined) return null;
  return (
    <Section>
      <p className="soft">Revision {number} serves the same build, so this is its graph.</p>
      <Drawn deployment={deployment} chosen={assistant.assistant_id} />
    </Section>
  );
}

function Drawn({ deployment, chosen }: { deployment: Deployment; chosen: string }) {
  const agent = useAgent(deployment);
  const graph = useGraph(deployment, { agent, chosen });
  return (
    <div className="graph-pane">
      {graph.isError && <p className="soft pane-note">The server does not describe its graph.</p>}
      {graph.data !== undefined && (
        <Suspense>
          <GraphView graph={graph.data} nodes={{}} hasStarted={false} isRunning={false} />
        </Suspense>
      )}
    </div>
  );
}
