import { useQuery } from "@tanstack/react-query";
import { Suspense } from "react";
import type { Deployment } from "../../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../../src/contract/revisions/revision.ts";
import { useAgent } from "../../agent/client.ts";
import { useGraph } from "../../agent/use-graph.ts";
import { useSession } from "../../session.tsx";
import { numberText } from "../revision-words.tsx";
import { useAssistants } from "./agent-gate.tsx";
import { GraphView } from "./lazy-graph.ts";

/**
 * The graph of a revision that does not serve. An agent describes its graph while it runs, and the server keeps none. A revision with
 * the build of the one that serves has the same graph. Empty for servers without graphs.
 */
export function RevisionGraph({ deployment, revision }: { deployment: Deployment; revision: Revision }) {
  const { client } = useSession();
  const { id, active_revision_id: activeId } = deployment;
  const assistants = useAssistants(deployment);
  const serving = useQuery({
    queryKey: ["deployment", id, "revision", activeId],
    queryFn: ({ signal }) => client.getRevision({ deployment_id: id, revision_id: activeId ?? "" }, { signal }),
    enabled: activeId !== null,
  });
  const [assistant] = assistants.data ?? [];
  if (assistant === undefined || serving.data === undefined) return null;
  const hasSameBuild = revision.artifact_digest !== null && revision.artifact_digest === serving.data.artifact_digest;
  return (
    <section className="revision-graph" aria-label="Graph">
      <h2>Graph</h2>
      {hasSameBuild ? (
        <>
          <p className="soft">Revision {numberText(serving.data)} serves the same build, so this is its graph.</p>
          <Drawn deployment={deployment} chosen={assistant.assistant_id} />
        </>
      ) : (
        <p className="soft">
          An agent describes its graph while it runs, and this build does not run. To see its graph, try the revision or
          roll back to it.
        </p>
      )}
    </section>
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
