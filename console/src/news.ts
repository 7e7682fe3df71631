import type { Event } from "../../src/contract/logs/event.ts";
import { ruleText } from "../../src/domain/event-text.ts";
import { isInProgress } from "./parts/status.tsx";

/** Events that people want to hear of: how a deploy ended, and alerts. */
export const newsTypes = ["revision.status", "alert.firing", "alert.resolved"] as const;

/** Statuses that end a deploy. A revision that another one replaced or that a person cancelled is no news. */
const outcomes: readonly unknown[] = ["DEPLOYED", "CREATE_FAILED", "BUILD_FAILED", "DEPLOY_FAILED"];

export const isNews = ({ type, data }: Event): boolean =>
  type === "revision.status" ? outcomes.includes(data["to"]) : newsTypes.some((one) => one === type);

/** Returns what happened, in a few words. */
export function newsText({ type, data, deployment_name: name }: Event): string {
  // An alert may concern a key, a server or a certificate.
  const who = name ?? String(data["subject"] ?? "A deleted deployment");
  const rule = ruleText(String(data["rule"] ?? "alert"));
  if (type === "alert.firing") return `${who}: ${rule}`;
  if (type === "alert.resolved") return `${who}: ${rule} (resolved)`;
  return data["to"] === "DEPLOYED" ? `${who}: the new revision is live` : `${who}: the deploy failed`;
}

export const isBadNews = ({ type, data }: Event): boolean =>
  type === "alert.firing" || (type === "revision.status" && data["to"] !== "DEPLOYED");

type Listener = (event: Event) => void;
const listeners = new Set<Listener>();

/** Calls `listener` with the news of the workspace. Returns a function that ends this. */
export function onNews(listener: Listener): () => void {
  listeners.add(listener);
  return () => void listeners.delete(listener);
}

/** Deploys that the user saw on the page of their deployment. */
const seen = new Set<string>();

/** Passes an event on. */
export function tell(event: Event): void {
  const { type, data, revision_id: revision, deployment_id: id } = event;
  const isShown = id !== null && location.pathname.includes(id);
  if (isShown && type === "revision.status" && revision !== null && isInProgress(data["to"] as "BUILDING"))
    seen.add(revision);
  if (isNews(event)) for (const listener of listeners) listener(event);
}

/** Returns whether a deploy ended that the user watched and left. */
export function isOfInterest({ revision_id: revision, deployment_id: id }: Event): boolean {
  return revision !== null && seen.delete(revision) && id !== null && !location.pathname.includes(id);
}
