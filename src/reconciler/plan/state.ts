import type { DeploymentStatus } from "../../contract/deployments/deployment.ts";
import type { DeploymentReport } from "../../contract/listeners/assignment.ts";
import type { RevisionStatus } from "../../contract/revisions/revision.ts";

/** A revision as far as the plan needs it. */
export interface RevisionFacts {
  id: string;
  status: RevisionStatus;
  /** When the present status counts as stuck; null: never. */
  deadlineAt: Date | null;
  /** An artifact or image is there: nothing to build. */
  hasArtifact: boolean;
  /** Span that asked for it; null: it is not traced. */
  traceparent: string | null;
}

export interface BuildFacts {
  revisionId: string;
  status: "running" | "succeeded" | "failed" | "cancelled";
  /** The heartbeat of the server that runs it was missed: nobody works on it any more. */
  abandoned: boolean;
  leaseUntil: Date;
  attempts: number;
  failure: string | null;
}

export interface AssignmentFacts {
  generation: number;
  op: "apply" | "delete";
  targetRevisionId: string | null;
  servingRevisionId: string | null;
  /** Addresses in it are those that its listener gives agents now. */
  isCurrent: boolean;
}

/** Everything one pass looks at, read in one statement: desired and observed state of one deployment. */
export interface DeploymentState {
  id: string;
  tenantId: string;
  status: DeploymentStatus;
  activeRevisionId: string | null;
  isDeleteForced: boolean;
  /** Its listener has a session and is not to stand still; it had one within a day; it had none. */
  listener: "acting" | "awaited" | "gone";
  /** Revisions whose status is not final, oldest first. */
  unsettled: RevisionFacts[];
  /** Builds that run or that belong to an unsettled revision. */
  builds: BuildFacts[];
  assignment: AssignmentFacts | null;
  observation: { generation: number; report: DeploymentReport } | null;
  /** null: there is none, or it is gone already. */
  tracing: TracingFacts | null;
  /** What it has to do with its code host; null: nothing. */
  host: HostFacts | null;
}

export interface HostFacts {
  /** Builds pushes of a branch, or previews pull requests into it. */
  isFollowing: boolean;
  /** When the branch is looked at again; null: it never was. */
  lookAt: Date | null;
  /** When there is something to tell the host; null: nothing. */
  tellAt: Date | null;
  /** The host is told how things go: a move may be news. */
  isTold: boolean;
}

export interface TracingFacts {
  /** Still to be made in the back end. */
  isWanted: boolean;
  /** After a failure; null: at once. */
  retryAt: Date | null;
  /** To be deleted with the deployment. */
  isDoomed: boolean;
}
