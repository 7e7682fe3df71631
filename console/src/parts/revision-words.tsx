import type { HealthWord } from "../../../src/contract/deployments/health.ts";
import type { Revision, RevisionReason, RevisionStatus } from "../../../src/contract/revisions/revision.ts";
import { Status } from "./status.tsx";
import { shortId } from "./text.ts";

const reasons: Record<RevisionReason, string> = {
  deploy: "deployed by hand",
  latest: "latest commit, by hand",
  push: "push",
  pull_request: "pull request",
  variables: "variables",
  size: "size",
  rollback: "rollback",
  redeploy: "redeploy",
  retry: "another try",
  restart: "restart",
  system: "by Pierhead",
};

/** Returns why a revision exists, such as `push` or `rollback to 3`. */
export function reasonText({ reason, based_on: from, triggered_by: trigger }: Revision): string {
  if (reason === null) return trigger;
  if (from?.number == null) return reasons[reason];
  if (reason === "rollback") return `rollback to ${from.number}`;
  return reason === "redeploy" || reason === "retry" ? `${reasons[reason]} of ${from.number}` : reasons[reason];
}

/** Returns the name of the key or member that made a revision, or null if it is unknown. */
export function makerText({ made_by: maker }: Revision): string | null {
  if (maker === null) return null;
  return maker.name ?? (maker.kind === "system" ? "Pierhead" : `deleted ${maker.kind}`);
}

/** Returns the author of a revision's commit, or the maker of a revision without a commit. */
export function authorOf(revision: Revision): { name: string; isPerson: boolean } | null {
  const author = revision.commit?.author ?? null;
  if (author !== null) return { name: author, isPerson: true };
  const maker = makerText(revision);
  return maker === null ? null : { name: maker, isPerson: revision.made_by?.kind === "member" };
}

/** Returns the number of a revision, or the start of its id for revisions without one. */
export const numberText = ({ number, id }: Revision) => (number === null ? shortId(id) : String(number));

/** What a revision changes that runs the code of an earlier one. */
const changes: Partial<Record<RevisionReason, string>> = {
  variables: "Changed variables",
  size: "Changed size",
  rollback: "Rollback",
  restart: "Restart",
};

/** Returns whether a revision runs the code of an earlier one. */
export const isChangeOnly = ({ reason }: Revision): boolean => reason !== null && changes[reason] !== undefined;

/** Returns what a revision runs, for people: the commit message, else the image, the commit or the reason. */
export function titleOf(revision: Revision): string {
  const { source_revision_config: config, source, commit, reason, number } = revision;
  const message = commit?.message.split("\n", 1)[0]?.trim() ?? "";
  if (message !== "") return message;
  if (config.image_uri !== null) return config.image_uri;
  const changed = reason === null ? undefined : changes[reason];
  if (changed !== undefined) return changed;
  if (config.repo_ref !== null) return `Latest commit of ${config.repo_ref}`;
  if (source !== "internal_template") return "Uploaded folder";
  return reason === "deploy" && number === 1 ? "First deploy of the template" : "Deploy of the template";
}

const words: Record<RevisionStatus, string> = {
  CREATING: "Queued",
  QUEUED: "Queued",
  AWAITING_BUILD: "Building",
  BUILDING: "Building",
  AWAITING_DEPLOY: "Rolling out",
  DEPLOYING: "Rolling out",
  DEPLOYED: "Replaced",
  CREATE_FAILED: "Failed",
  BUILD_FAILED: "Failed",
  DEPLOY_FAILED: "Failed",
  SKIPPED: "Skipped",
  INTERRUPTED: "Cancelled",
  UNKNOWN: "Unknown",
};

/** Healths that say how the replicas of the active revision are. The others may be about a newer revision. */
const seenHealths: readonly (HealthWord | undefined)[] = ["crash_looping", "sleeping"];

/**
 * The status of a revision: `Live` for the one that serves, `Replaced` for those that served before it. `health`: how the
 * deployment is, because a revision whose replicas crash does not serve.
 */
export function RevisionStatusMark(props: { revision: Revision; isActive: boolean; health?: HealthWord }) {
  const { revision, isActive, health } = props;
  if (isActive && health !== undefined && seenHealths.includes(health)) return <Status of={health} />;
  const isReplaced = !isActive && revision.status === "DEPLOYED";
  return <Status of={isReplaced ? "replaced" : revision.status} text={revisionWord(revision, isActive)} />;
}

/** Returns the word for the status of a revision. */
export const revisionWord = ({ status }: Revision, isActive: boolean): string =>
  isActive && status === "DEPLOYED" ? "Live" : words[status];
