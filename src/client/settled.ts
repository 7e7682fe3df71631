import type { RevisionStatus } from "../contract/revisions/revision.ts";

/** A status that a revision never leaves (contract 5.2). */
export function isSettled(status: RevisionStatus): boolean {
  return status === "DEPLOYED" || status === "SKIPPED" || status === "INTERRUPTED" || status.endsWith("_FAILED");
}
