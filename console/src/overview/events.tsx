import type { Event } from "../../../src/contract/logs/event.ts";
import type { Revision, RevisionStatus } from "../../../src/contract/revisions/revision.ts";
import { ruleText as ruleWords, words } from "../../../src/domain/event-text.ts";
import { numberText } from "../parts/revision-words.tsx";
import { isInProgress, Light, statusText } from "../parts/status.tsx";
import { shortId } from "../parts/text.ts";
import { Ago } from "../parts/time.tsx";
import { CardHead } from "./card-head.tsx";

const eventsShown = 8;

/** The last events of the deployment, newest first. */
export function Events({ events: all, revisions }: { events: Event[]; revisions: Revision[] }) {
  const events = all.filter(isOutcome).filter(isNews).slice(0, eventsShown);
  if (events.length === 0) return null;
  return (
    <section className="card" aria-label="Events">
      <CardHead title="Events" />
      <ul className="plain-list events">
        {events.map((event) => (
          <li key={event.id}>
            <Light of={lightOf(event)} />
            <span>{eventText(event, revisions)}</span>
            <span className="softer">
              <Ago at={event.created_at} />
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Leaves out changes of health that the next event explains: the revision is live, or its build or rollout failed. */
function isNews({ type, data }: Event, at: number, all: Event[]): boolean {
  const before = String(all[at + 1]?.data["to"]);
  const isExplained = (data["to"] === "live" && before === "DEPLOYED") || (data["to"] === "failed" && isFailed(before));
  return type !== "deployment.health" || !isExplained;
}

const isFailed = (status: string) => status.endsWith("_FAILED");

/** Leaves out what the step bar shows, and what another event says. */
function isOutcome({ type, data }: Event): boolean {
  const to = String(data["to"]);
  if (type === "deployment.status") return to !== "READY";
  if (type === "deployment.health")
    return to !== "deploying" && to !== "deleting" && data["because"] !== "NothingDeployed";
  return type !== "revision.status" || !isInProgress(to as RevisionStatus);
}

function lightOf({ type, data }: Event): string {
  if (type === "alert.firing") return "failed";
  if (type === "alert.resolved") return "live";
  if (type === "replica.exited") return "degraded";
  return String(data["to"] ?? "");
}

const healthTexts: Record<string, string> = {
  live: "All replicas are ready",
  degraded: "Became degraded",
  crash_looping: "Began to crash-loop",
  failed: "Failed",
  sleeping: "Fell asleep",
  unknown: "Its state is unknown",
};

const ruleText = (rule: unknown) => (rule === "crash_looping" ? "crash-looping" : ruleWords(String(rule ?? "")));

function eventText({ type, data, revision_id: revisionId }: Event, revisions: Revision[]): string {
  const found = revisions.find(({ id }) => id === revisionId);
  const named = revisionId === null ? "" : `Revision ${found === undefined ? shortId(revisionId) : numberText(found)}`;
  if (type === "revision.status" && data["to"] === "DEPLOYED") return `${named} is live`;
  const to = typeof data["to"] === "string" ? statusText(data["to"]) : null;
  if (type === "revision.created") return `${named} was created`;
  if (type === "alert.firing") return `Alert fired: ${ruleText(data["rule"])}`;
  if (type === "alert.resolved") return `Alert resolved: ${ruleText(data["rule"])}`;
  if (type === "replica.exited") {
    const reason = words(String(data["reason"]));
    return reason === "exited" ? "A replica exited" : `A replica ended: ${reason}`;
  }
  if (to === null) return statusText(type.replace(".", "_"));
  if (type === "deployment.health") return healthTexts[String(data["to"])] ?? to;
  return type === "revision.status" ? `${named}: ${to}` : `Status: ${to}`;
}
