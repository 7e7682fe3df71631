import { isFinalReport, nextCommitState, previewCommentKey } from "../../domain/commit-report.ts";
import { type DeploymentStateRow, readDeploymentState } from "../../store/deployments/deployment-state.ts";
import type { Db } from "../../store/engine/database.ts";
import type { DeploymentState } from "./state.ts";

/** Desired and observed state of one deployment with the database's clock; undefined when it is gone. */
export async function readState(
  db: Db,
  deploymentId: string,
): Promise<{ state: DeploymentState; now: Date } | undefined> {
  // Taken first: deadlines that move with a clock that is set meanwhile are later than it, never before.
  const now = db.now();
  const row = await readDeploymentState(db, deploymentId);
  if (row === undefined) return undefined;
  const state: DeploymentState = {
    id: row.id,
    tenantId: row.tenant_id,
    status: row.status,
    activeRevisionId: row.active_revision_id,
    isDeleteForced: row.force_delete,
    listener: row.listener,
    unsettled: row.unsettled.map((revision) => ({
      id: revision.id,
      status: revision.status,
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
    })),
    assignment: row.assignment && {
      generation: row.assignment.generation,
      op: row.assignment.op,
      targetRevisionId: row.assignment.target_revision_id,
      servingRevisionId: row.assignment.serving_revision_id,
      isCurrent: row.assignment.is_current,
    },
    observation: row.observation,
    tracing: row.tracing && {
      isWanted: row.tracing.status === "wanted",
      retryAt: row.tracing.retry_at === null ? null : new Date(row.tracing.retry_at),
      isDoomed: row.drops_tracing,
    },
    host: row.host && {
      isFollowing: row.host.is_following,
      lookAt: row.host.look_at === null ? null : new Date(row.host.look_at),
      tellAt: tellAt(row.host),
      isTold: row.host.reports.length > 0 || row.host.comment !== null,
    },
  };
  return { state, now };
}

/** The first moment at which the host can be told something that it does not know. */
function tellAt({ reports, comment }: NonNullable<DeploymentStateRow["host"]>): Date | null {
  const news = reports.filter(
    ({ status, reported }) => nextCommitState(status, reported) !== null || isFinalReport(status),
  );
  const isSaid = comment === null || comment.commented === previewCommentKey(comment.status, comment.head_sha);
  const due = [...news, ...(isSaid ? [] : [comment])].map(({ retry_at }) => new Date(retry_at ?? 0).getTime());
  return due.length === 0 ? null : new Date(Math.min(...due));
}
