import type { RevisionStatus } from "../contract/revisions/revision.ts";

/** The state of a commit's revision as reported to the code host. */
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
 * Returns the next state to report; null: nothing. A commit that was superseded before its first report is not reported:
 * of a hundred pushes in a second the host gets one report.
 */
export function nextCommitState(status: RevisionStatus, reported: CommitState | null): CommitState | null {
  const state = states[status] ?? null;
  if (state === reported || (state === "skipped" && reported === null)) return null;
  return state;
}

/** Returns whether no further report follows. */
export const isFinalReport = (status: RevisionStatus): boolean => {
  const state = states[status];
  return state !== undefined && state !== "in_progress";
};

/** The state of a preview as its comment shows it. */
export type PreviewStage = "building" | "ready" | "failed";

export function previewStageOf(status: RevisionStatus | null): PreviewStage {
  const state = status === null ? undefined : states[status];
  if (state === "success") return "ready";
  return state === "failure" || state === "cancelled" ? "failed" : "building";
}

/** Returns a summary of a preview's comment. While it stays the same, the comment needs no update. */
export const previewCommentKey = (status: RevisionStatus | null, headSha: string): string =>
  `${previewStageOf(status)} ${headSha}`;
