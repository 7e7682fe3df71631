import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { FlaskConical } from "lucide-react";
import type { ReactNode } from "react";
import type { Deployment } from "../../../src/contract/deployments/deployment.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { RevisionChoice } from "../parts/agent/revision-choice.tsx";
import { RevisionGraph } from "../parts/agent/revision-graph.tsx";
import { RevisionCause } from "../parts/cause.tsx";
import { DetectionCard, useDetection } from "../parts/detection-card.tsx";
import { Failure, Loading } from "../parts/notices.tsx";
import { RevisionActions } from "../parts/revision-actions.tsx";
import { RevisionHeading } from "../parts/revision-heading.tsx";
import { numberText, RevisionStatusMark } from "../parts/revision-words.tsx";
import { isFailure } from "../parts/status.tsx";
import { useSession } from "../session.tsx";
import { trialOf, trialSourceOf } from "../trial.ts";

/**
 * A revision that does not serve. Nothing answers for it: in its deployment it would run on the threads and the database of the
 * revision that serves. The page shows what its source says, and leads to a deployment of its own.
 */
export function IdleRevision({ deployment, revisionId }: { deployment: Deployment; revisionId: string }) {
  const { client, mayChange } = useSession();
  const found = useQuery({
    queryKey: ["deployment", deployment.id, "revision", revisionId],
    queryFn: ({ signal }) => client.getRevision({ deployment_id: deployment.id, revision_id: revisionId }, { signal }),
  });
  if (found.isPending) return <Loading what="the revision" />;
  if (found.isError) return <Failure error={found.error} retry={() => void found.refetch()} />;
  const revision = found.data;
  const { id, tenant_id: tenantId } = deployment;
  return (
    <>
      <div className="play-bar">
        <RevisionChoice deployment={deployment} shown={revision.id} />
      </div>
      <section className="card idle-revision" aria-label={`Revision ${numberText(revision)}`}>
        <div className="row idle-head">
          <RevisionHeading revision={revision} />
          <RevisionStatusMark revision={revision} isActive={false} />
          <RevisionActions deployment={deployment} revision={revision} />
        </div>
        {revision.status_message !== null && isFailure(revision.status) && <RevisionCause revision={revision} />}
        {mayChange && trialSourceOf(revision) === "github" && <SourceOf deployment={deployment} revision={revision} />}
        <h2>This revision does not serve, so nothing answers here</h2>
        <Way deployment={deployment} revision={revision} />
        <RevisionGraph deployment={deployment} revision={revision} />
        <p className="row">
          <Link
            to="/o/$tenantId/host/deployments/$id/$part"
            params={{ tenantId, id, part: "playground" }}
            search={{}}
            className="link"
          >
            Back to the revision that serves
          </Link>
          <Link
            to="/o/$tenantId/host/deployments/$id/$part"
            params={{ tenantId, id, part: "revisions" }}
            search={{ revision: revision.id }}
            className="link"
          >
            Its build log
          </Link>
        </p>
      </section>
    </>
  );
}

/** What a build finds in the commit of the revision: its graphs, its runtime, the variables that it asks for. */
function SourceOf({ deployment, revision }: { deployment: Deployment; revision: Revision }) {
  const found = useDetection(trialOf(deployment, revision, []));
  return <DetectionCard found={found} />;
}

function Way({ deployment, revision }: { deployment: Deployment; revision: Revision }): ReactNode {
  const { mayChange } = useSession();
  if (!mayChange) return <p className="soft">A deployer can run it as a deployment of its own.</p>;
  const source = trialSourceOf(revision);
  if (source === undefined)
    return (
      <p className="soft">
        {revision.source === "internal_source"
          ? "An upload belongs to its deployment. To try it without traffic, create another deployment and choose the folder there."
          : "A pushed image belongs to its deployment. To try it without traffic, push it with pierhead push and another --name."}
      </p>
    );
  // Elsewhere the trial has the number of replicas of its deployment.
  const sleeps = source !== "external_docker" && deployment.source_config.listener_id === null;
  return (
    <>
      <p className="soft">
        Try it without traffic as a deployment of its own, with its own threads and database.{" "}
        {sleeps && "It sleeps while no request comes. "}
        {source === "internal_template" && "It runs the template as this server has it now, with the settings of now."}
      </p>
      <p>
        <Link to="/host/new" search={{ of: deployment.id, revision: revision.id }} className="button primary">
          <FlaskConical size={15} /> Try revision {numberText(revision)} …
        </Link>
      </p>
    </>
  );
}
