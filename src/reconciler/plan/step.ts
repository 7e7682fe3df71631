import type { Failure } from "../../contract/revisions/failure.ts";
import type { RevisionStatus } from "../../contract/revisions/revision.ts";
import type { Health } from "../../domain/deployment-health.ts";

/** One step of a pass. Each is safe to repeat and ends in at most one transaction. */
export type Step =
  | { kind: "provision" }
  | { kind: "resolve"; revisionId: string }
  | {
      kind: "move";
      revisionId: string;
      from: RevisionStatus;
      to: RevisionStatus;
      because: string;
      message: string | null;
      failure: Failure | null;
    }
  | { kind: "skip"; revisionIds: string[]; supersededBy: string }
  | { kind: "build"; revisionId: string; attempt: number }
  | { kind: "cancelBuild"; revisionId: string }
  | { kind: "acceptBuild"; revisionId: string }
  | { kind: "rollOut"; revisionId: string; servingRevisionId: string | null }
  | { kind: "finishRollout"; revisionId: string }
  | { kind: "failRollout"; revisionId: string; message: string; failure: Failure }
  | { kind: "extendRollout"; revisionId: string }
  | { kind: "describeRollout"; revisionId: string; message: string }
  | { kind: "settleAssignment"; revisionId: string | null }
  | { kind: "assignDelete" }
  | { kind: "recordHealth"; health: Health }
  | { kind: "finalize" }
  | { kind: "createTracingProject" }
  | { kind: "removeTracingProject" }
  | { kind: "inspectBranch" }
  | { kind: "unfollowBranch" }
  | { kind: "reportToHost" }
  | { kind: "deleteRow" }
  | Idle;

/** Nothing to do now. `until` null: only a change can lead to more work. */
export type Idle = { kind: "wait"; until: Date | null; because: string } | { kind: "none" };

/** A step that does something. */
export type Action = Exclude<Step, Idle>;

export const isIdle = (step: Step): step is Idle => step.kind === "wait" || step.kind === "none";
