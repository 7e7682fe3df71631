import { GitCommitHorizontal } from "lucide-react";
import type { Event } from "../../../src/contract/logs/event.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { Avatar } from "../parts/avatar.tsx";
import { authorOf, makerText, numberText, reasonText, titleOf } from "../parts/revision-words.tsx";
import { StepBar } from "../parts/step-bar.tsx";
import { durationText, shortId } from "../parts/text.ts";
import { Ago } from "../parts/time.tsx";
import type { Deployment } from "../parts/words.ts";
import { CardHead, PartLink } from "./card-head.tsx";

interface MainProps {
  deployment: Deployment;
  revision: Revision | undefined;
  isActive: boolean;
  events: Event[];
}

/** The revision that serves, or the latest one while none does. */
export function MainRevision({ deployment, revision, isActive, events }: MainProps) {
  if (revision === undefined) {
    const action = deployment.source === "internal_docker" ? "Push an image" : "Upload a source";
    return (
      <section className="card blank">
        <h2>There is no revision yet</h2>
        <p>{action} to create the first one.</p>
      </section>
    );
  }
  const moves = events
    .filter(({ type, revision_id: own }) => type === "revision.status" && own === revision.id)
    .toReversed();
  return (
    <section className="card" aria-label={isActive ? "Active revision" : "Latest revision"}>
      <CardHead title={isActive ? "Active revision" : "Latest revision"}>
        <PartLink deployment={deployment} part="revisions" text="Details" />
      </CardHead>
      <div className="revision-what">
        <span className="revision-number">{numberText(revision)}</span>
        <div>
          <p className="revision-title">{titleOf(revision)}</p>
          <RevisionMeta revision={revision} />
        </div>
      </div>
      <StepBar revision={revision} moves={moves} />
    </section>
  );
}

/** Who made a revision, why, from which commit, when, and how long its deploy took. */
export function RevisionMeta({ revision, tookMs }: { revision: Revision; tookMs?: number | undefined }) {
  const { repo_commit_sha: sha } = revision.source_revision_config;
  const maker = makerText(revision);
  const author = authorOf(revision);
  const isByOther = maker !== null && author !== null && maker !== author.name;
  return (
    <p className="meta">
      {author !== null && (
        <span className="by">
          <Avatar {...author} /> {author.name}
        </span>
      )}
      <span>
        {reasonText(revision)}
        {isByOther && ` by ${maker}`}
      </span>
      {sha !== null && (
        <span className="mono">
          <GitCommitHorizontal size={13} className="in-text" /> {shortId(sha)}
        </span>
      )}
      <Ago at={revision.created_at} />
      {tookMs !== undefined && <span>took {durationText(tookMs)}</span>}
    </p>
  );
}
