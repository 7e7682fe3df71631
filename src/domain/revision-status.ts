import type { RevisionStatus } from "../contract/revisions/revision.ts";

/** The allowed transitions of a revision (contract 5.2). An empty list marks a final status. */
const nextStatuses = {
  CREATING: ["QUEUED", "CREATE_FAILED", "INTERRUPTED", "UNKNOWN"],
  QUEUED: ["AWAITING_BUILD", "AWAITING_DEPLOY", "SKIPPED", "INTERRUPTED", "UNKNOWN"],
  AWAITING_BUILD: ["BUILDING", "BUILD_FAILED", "INTERRUPTED", "UNKNOWN"],
  BUILDING: ["AWAITING_DEPLOY", "BUILD_FAILED", "INTERRUPTED", "UNKNOWN"],
  AWAITING_DEPLOY: ["DEPLOYING", "DEPLOY_FAILED", "INTERRUPTED", "UNKNOWN"],
  DEPLOYING: ["DEPLOYED", "DEPLOY_FAILED", "INTERRUPTED", "UNKNOWN"],
  UNKNOWN: ["CREATING", "QUEUED", "AWAITING_BUILD", "BUILDING", "AWAITING_DEPLOY", "DEPLOYING", "INTERRUPTED"],
  DEPLOYED: [],
  CREATE_FAILED: [],
  BUILD_FAILED: [],
  DEPLOY_FAILED: [],
  SKIPPED: [],
  INTERRUPTED: [],
} as const satisfies Record<RevisionStatus, readonly RevisionStatus[]>;

export const finalStatuses = (Object.keys(nextStatuses) as RevisionStatus[]).filter(isFinal);

export function canMoveRevision(from: RevisionStatus, to: RevisionStatus): boolean {
  const allowed: readonly RevisionStatus[] = nextStatuses[from];
  return allowed.includes(to);
}

export function isFinal(status: RevisionStatus): boolean {
  return nextStatuses[status].length === 0;
}

/** Returns whether a status is final and not a success; waiting clients report it as an error. */
export function isFailed(status: RevisionStatus): boolean {
  return status.endsWith("_FAILED");
}

/** Returns whether a status occupies the deployment's single slot for a revision in progress (contract 5.3). */
export function holdsSlot(status: RevisionStatus): boolean {
  return slotStatuses.has(status);
}

const slotStatuses: ReadonlySet<RevisionStatus> = new Set([
  "AWAITING_BUILD",
  "BUILDING",
  "AWAITING_DEPLOY",
  "DEPLOYING",
]);
