import type { RevisionStatus } from "../contract/revisions/revision.ts";

/** What a code host is told of the revision of a commit. */
export type CommitState = "in_progress" | "success" | "failure" | "cancelled" | "skipped";

const states: Partial<Record<RevisionStatus, CommitState>> = {
  AWAITING_BUILD: "in_progress",
  BUILDING: "in_progress",
  AWAITING_DEPLOY: "in_progress",
  DEPLOYING: "in_progress",
  DEPLOYED: "success",
  CREATE_FAILED: "failure",
  BUILD_FAILED: "failure",
  DEPLOY_FAILED: "failure",
  INTERRUPTED: "cancelled",
  SKIPPED: "skipped",
};

/**
 * What there is to tell; null: nothing. A commit that was superseded before its host heard of it is left alone: of a
 * hundred pushes in a second the host hears of one.
 */
export function nextCommitState(status: RevisionStatus, reported: CommitState | null): CommitState | null {
  const state = states[status] ?? null;
  if (state === reported || (state === "skipped" && reported === null)) return null;
  return state;
}

/** Nothing will follow. */
export const isFinalReport = (status: RevisionStatus): boolean => {
  const state = states[status];
  return state !== undefined && state !== "in_progress";
};

/** Where a preview stands, as its comment says it. */
export type PreviewStage = "building" | "ready" | "failed";

export function previewStageOf(status: RevisionStatus | null): PreviewStage {
  const state = status === null ? undefined : states[status];
  if (state === "success") return "ready";
  return state === "failure" || state === "cancelled" ? "failed" : "building";
}

/** What a preview's comment tells of, in short: as long as this is the same, there is nothing to write. */
export const previewCommentKey = (status: RevisionStatus | null, headSha: string): string =>
  `${previewStageOf(status)} ${headSha}`;
