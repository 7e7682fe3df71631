import type { DeploymentStatus } from "../../contract/deployments/deployment.ts";
import type { DeploymentReport } from "../../contract/listeners/assignment.ts";
import type { RevisionStatus } from "../../contract/revisions/revision.ts";
import type { Health, LatestRevision } from "../../domain/deployment-health.ts";

/** A revision as far as the plan needs it. */
export interface RevisionFacts {
  id: string;
  status: RevisionStatus;
  /** When it got its current status, by the database's clock. */
  since: Date;
  /** Its `status_message`. */
  message: string | null;
  /** When the current status counts as stuck; null: never. */
  deadlineAt: Date | null;
  /** An artifact or image exists, so there is nothing to build. */
  hasArtifact: boolean;
  /** Span of the request that created it; null: it is not traced. */
  traceparent: string | null;
}

/** The latest build of a revision. */
export interface BuildFacts {
  revisionId: string;
  status: "running" | "succeeded" | "failed" | "cancelled";
  /** The server that ran it missed its heartbeat. */
  abandoned: boolean;
  leaseUntil: Date;
  attempts: number;
  failure: string | null;
  /** Why it failed, as a word of `src/builds/failure.ts`. */
  reason: string | null;
}

/** What the listener should run, as last written. */
export interface AssignmentFacts {
  generation: number;
  op: "apply" | "delete";
  targetRevisionId: string | null;
  servingRevisionId: string | null;
  /** Replicas that must be ready, by revision: of the target and of the one that serves. */
  replicasMin: Readonly<Record<string, number>>;
  /** Whether its addresses match those that the listener announces now. */
  isCurrent: boolean;
}

/** Everything that one pass considers, read in one statement: desired and observed state of one deployment. */
export interface DeploymentState {
  id: string;
  tenantId: string;
  status: DeploymentStatus;
  activeRevisionId: string | null;
  isDeleteForced: boolean;
  /** Health as recorded last. */
  health: Health;
  /** The newest revision; null: there is none. */
  latest: LatestRevision | null;
  /**
   * acting: the listener has a session and is not draining. awaited: it had a session within the last day. gone: it had
   * none for longer.
   */
  listener: "acting" | "awaited" | "gone";
  /** Revisions whose status is not final, oldest first. */
  unsettled: RevisionFacts[];
  /** Builds that run or that belong to an unsettled revision. */
  builds: BuildFacts[];
  assignment: AssignmentFacts | null;
  observation: { generation: number; report: DeploymentReport } | null;
  /** null: the deployment has no tracing project, or it is deleted already. */
  tracing: TracingFacts | null;
  /** Work for the code host; null: the source is no repository. */
  host: HostFacts | null;
}

export interface HostFacts {
  /** The deployment builds pushes to a branch, or previews of pull requests into it. */
  isFollowing: boolean;
  /** When the branch is polled again; null: it was never polled. */
  pollAt: Date | null;
  /** When there is something to report to the host; null: nothing. */
  reportAt: Date | null;
  /** The host gets reports on a revision or a preview, so a move may be worth a report. */
  hasReports: boolean;
}

export interface TracingFacts {
  /** The project does not exist in the tracing backend yet. */
  isWanted: boolean;
  /** When to retry after a failure; null: at once. */
  retryAt: Date | null;
  /** The project is deleted with the deployment. */
  isDeletedToo: boolean;
}
