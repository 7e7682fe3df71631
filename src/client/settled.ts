import type { RevisionStatus } from "../contract/revisions/revision.ts";

/** Reports whether a revision never leaves this status (contract 5.2). */
export function isSettled(status: RevisionStatus): boolean {
  return status === "DEPLOYED" || status === "SKIPPED" || status === "INTERRUPTED" || status.endsWith("_FAILED");
}
