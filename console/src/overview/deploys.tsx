import { Link } from "@tanstack/react-router";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { Avatar } from "../parts/avatar.tsx";
import { makerText, numberText, RevisionStatusMark, titleOf } from "../parts/revision-words.tsx";
import { Ago } from "../parts/time.tsx";
import type { Deployment } from "../parts/words.ts";
import { CardHead, PartLink } from "./card-head.tsx";

const deploysShown = 5;

/** The last deploys, newest first. */
export function Deploys({ deployment, revisions }: { deployment: Deployment; revisions: Revision[] }) {
  return (
    <section className="card deploys" aria-label="Deploys">
      <CardHead title="Deploys">
        <PartLink deployment={deployment} part="revisions" text="All revisions" />
      </CardHead>
      <ul className="plain-list">
        {revisions.slice(0, deploysShown).map((revision) => (
          <DeployRow key={revision.id} deployment={deployment} revision={revision} />
        ))}
      </ul>
    </section>
  );
}

function DeployRow({ deployment, revision }: { deployment: Deployment; revision: Revision }) {
  const maker = makerText(revision);
  return (
    <li>
      <span className="revision-number small-number">{numberText(revision)}</span>
      <Link
        to="/o/$tenantId/host/deployments/$id/$part"
        params={{ tenantId: deployment.tenant_id, id: deployment.id, part: "revisions" }}
        search={{ revision: revision.id }}
        className="clip"
        title={titleOf(revision)}
      >
        {titleOf(revision)}
      </Link>
      <RevisionStatusMark
        revision={revision}
        isActive={revision.id === deployment.active_revision_id}
        health={deployment.health.status}
      />
      <span className="softer clip by">
        {maker !== null && <Avatar name={maker} isPerson={revision.made_by?.kind === "member"} />} {maker}
      </span>
      <span className="softer">
        <Ago at={revision.created_at} />
      </span>
    </li>
  );
}
