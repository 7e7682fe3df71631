import { Link } from "@tanstack/react-router";
import type { Event } from "../../../src/contract/logs/event.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { Avatar } from "../parts/avatar.tsx";
import { authorOf, numberText, RevisionStatusMark, titleOf } from "../parts/revision-words.tsx";
import { isInProgress } from "../parts/status.tsx";
import { durationText } from "../parts/text.ts";
import { Ago } from "../parts/time.tsx";
import type { Deployment } from "../parts/words.ts";
import { CardHead, PartLink } from "./card-head.tsx";

const deploysShown = 5;

/** The last deploys, newest first. */
export function Deploys(props: { deployment: Deployment; revisions: Revision[]; events: Event[] }) {
  const { deployment, revisions, events } = props;
  const moves = Map.groupBy(
    events.filter(({ type }) => type === "revision.status"),
    (event) => event.revision_id ?? "",
  );
  return (
    <section className="card deploys" aria-label="Deploys">
      <CardHead title="Deploys">
        <PartLink deployment={deployment} part="revisions" text="All revisions" />
      </CardHead>
      <ul className="plain-list">
        {revisions.slice(0, deploysShown).map((revision) => (
          <DeployRow
            key={revision.id}
            deployment={deployment}
            revision={revision}
            endedAt={moves.get(revision.id)?.[0]?.created_at}
          />
        ))}
      </ul>
    </section>
  );
}

/** `endedAt`: the time of its last move. undefined: no event of it was read. */
function DeployRow(props: { deployment: Deployment; revision: Revision; endedAt: string | undefined }) {
  const { deployment, revision, endedAt } = props;
  const isOver = endedAt !== undefined && !isInProgress(revision.status);
  const author = authorOf(revision);
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
      <span className="softer took" title="How long the deploy took">
        {isOver && durationText(Date.parse(endedAt) - Date.parse(revision.created_at))}
      </span>
      <span className="softer clip by">
        {author !== null && <Avatar {...author} />} <span className="clip">{author?.name}</span>
      </span>
      <span className="softer">
        <Ago at={revision.created_at} />
      </span>
    </li>
  );
}
