import type { Event } from "../../../src/contract/logs/event.ts";
import type { Revision, RevisionStatus } from "../../../src/contract/revisions/revision.ts";
import { isFailure, isInProgress } from "./status.tsx";
import { durationText } from "./text.ts";
import { useNow } from "./time.tsx";

const stepOf: Partial<Record<RevisionStatus, string>> = {
  CREATING: "Queued",
  QUEUED: "Queued",
  AWAITING_BUILD: "Build",
  BUILDING: "Build",
  AWAITING_DEPLOY: "Roll out",
  DEPLOYING: "Roll out",
};

/**
 * The steps of a revision as segments in proportion to the time they took. The last step goes on while the revision is in
 * progress, and is red when the revision failed in it.
 */
export function StepBar({ revision, moves }: { revision: Revision; moves: Event[] }) {
  const isRunning = isInProgress(revision.status);
  const nowMs = useNow(isRunning ? 500 : 60_000);
  const steps = new Map<string, number>();
  const add = (status: RevisionStatus, ms: number) => {
    const name = stepOf[status];
    if (name !== undefined) steps.set(name, (steps.get(name) ?? 0) + Math.max(0, ms));
  };
  let beganAt = Date.parse(revision.created_at);
  for (const { data, created_at } of moves) {
    add((data as { from?: RevisionStatus }).from ?? "CREATING", Date.parse(created_at) - beganAt);
    beganAt = Date.parse(created_at);
  }
  if (isRunning) add(revision.status, nowMs - beganAt);
  if (steps.size === 0) return null;
  const shown = [...steps];
  const total = shown.reduce((sum, [, ms]) => sum + ms, 0);
  const because = (moves.at(-1)?.data as { because?: string | null } | undefined)?.because;
  const lastState = isRunning ? "now" : isFailure(revision.status) ? "failed" : "done";
  return (
    <div className="step-bar">
      <ol
        aria-label="Steps"
        style={{
          gridTemplateColumns: shown
            .map(([, ms]) => `minmax(5.5rem, ${Math.max(1, (100 * ms) / total).toFixed(1)}fr)`)
            .join(" "),
        }}
      >
        {shown.map(([name, ms], index) => (
          <li key={name} className={index === shown.length - 1 ? lastState : "done"}>
            <i aria-hidden="true" />
            {name} <small>{durationText(ms)}</small>
          </li>
        ))}
      </ol>
      <p className="softer">
        {durationText(total)} {isRunning ? "so far" : "in total"}
        {because && !isRunning ? ` · ${because}` : ""}
      </p>
    </div>
  );
}
