import { isFinalReport, nextCommitState, previewCommentKey } from "../../domain/commit-report.ts";
import type { DeploymentStateRow } from "../../store/deployments/deployment-state.ts";
import type { ReconcilerStore } from "../store.ts";
import type { DeploymentState } from "./state.ts";

/** Reads desired and observed state of one deployment with the database's time; undefined when it is gone. */
export async function readState(
  store: Pick<ReconcilerStore, "now" | "readDeploymentState">,
  deploymentId: string,
): Promise<{ state: DeploymentState; now: Date } | undefined> {
  // Read the time first: when someone sets the database's clock meanwhile, deadlines move to after this time, never before.
  const now = store.now();
  const row = await store.readDeploymentState(deploymentId);
  if (row === undefined) return undefined;
  const state: DeploymentState = {
    id: row.id,
    tenantId: row.tenant_id,
    status: row.status,
    activeRevisionId: row.active_revision_id,
    isDeleteForced: row.force_delete,
    health: row.health,
    latest: row.latest,
    listener: row.listener,
    unsettled: row.unsettled.map((revision) => ({
      id: revision.id,
      status: revision.status,
      since: new Date(revision.since),
      message: revision.message,
      deadlineAt: revision.deadline_at === null ? null : new Date(revision.deadline_at),
      hasArtifact: revision.has_artifact,
      traceparent: revision.traceparent,
    })),
    builds: row.builds.map((build) => ({
      revisionId: build.revision_id,
      status: build.status,
      abandoned: build.status === "running" && new Date(build.lease_until) < now,
      leaseUntil: new Date(build.lease_until),
      attempts: build.attempts,
      failure: build.failure,
      reason: build.reason,
    })),
    assignment: row.assignment && {
      generation: row.assignment.generation,
      op: row.assignment.op,
      targetRevisionId: row.assignment.target_revision_id,
      servingRevisionId: row.assignment.serving_revision_id,
      replicasMin: replicasMinOf(row.assignment),
      isCurrent: row.assignment.is_current,
    },
    observation: row.observation,
    tracing: row.tracing && {
      isWanted: row.tracing.status === "wanted",
      retryAt: row.tracing.retry_at === null ? null : new Date(row.tracing.retry_at),
      isDeletedToo: row.drops_tracing,
    },
    host: row.host && {
      isFollowing: row.host.is_following,
      pollAt: row.host.look_at === null ? null : new Date(row.host.look_at),
      reportAt: reportAt(row.host),
      hasReports: row.host.reports.length > 0 || row.host.comment !== null,
    },
  };
  return { state, now };
}

function replicasMinOf(assignment: NonNullable<DeploymentStateRow["assignment"]>): Record<string, number> {
  const { target_revision_id, target_replicas_min, serving_revision_id, serving_replicas_min } = assignment;
  return {
    ...(serving_revision_id !== null && { [serving_revision_id]: serving_replicas_min ?? 0 }),
    ...(target_revision_id !== null && { [target_revision_id]: target_replicas_min ?? 0 }),
  };
}

/** Returns the first time at which there is something to report that the host does not know; null: nothing. */
function reportAt({ reports, comment }: NonNullable<DeploymentStateRow["host"]>): Date | null {
  const news = reports.filter(
    ({ status, reported }) => nextCommitState(status, reported) !== null || isFinalReport(status),
  );
  const isCommentCurrent =
    comment === null || comment.commented === previewCommentKey(comment.status, comment.head_sha);
  const due = [...news, ...(isCommentCurrent ? [] : [comment])].map(({ retry_at }) =>
    new Date(retry_at ?? 0).getTime(),
  );
  return due.length === 0 ? null : new Date(Math.min(...due));
}
