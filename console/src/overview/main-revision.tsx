import type { Event } from "../../../src/contract/logs/event.ts";
import type { Revision } from "../../../src/contract/revisions/revision.ts";
import { RevisionHeading } from "../parts/revision-heading.tsx";
import { StepBar } from "../parts/step-bar.tsx";
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
      <RevisionHeading revision={revision} />
      <StepBar revision={revision} moves={moves} />
    </section>
  );
}
