import type { RevisionStatus } from "../../contract/revisions/revision.ts";
import type { CommitState } from "../../domain/commit-report.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/** Reports the revision to the code host from the next pass on. */
export async function beginReport(db: Db | Trx, revision: { id: string; deploymentId: string }): Promise<void> {
  await db.query(sql`
    insert into commit_reports (revision_id, deployment_id) values (${revision.id}, ${revision.deploymentId})
    on conflict (revision_id) do nothing`);
}

export interface CommitReport {
  revision_id: string;
  status: RevisionStatus;
  status_message: string | null;
  commit_sha: string;
  /** What the revision runs with. null: nothing. */
  secret_set_id: string | null;
  reported: CommitState | null;
  external_id: string | null;
  attempts: number;
}

/** Returns the unfinished reports of a deployment, oldest first. */
export async function openReports(db: Db, deploymentId: string): Promise<CommitReport[]> {
  const { rows } = await db.query<CommitReport>(sql`
    select c.revision_id, r.status, r.status_message, r.source_revision_config ->> 'repo_commit_sha' as commit_sha,
           r.secret_set_id, c.reported, c.external_id, c.attempts
      from commit_reports c join revisions r on r.id = c.revision_id
     where c.deployment_id = ${deploymentId} and not c.is_settled order by r.seq`);
  return rows;
}

/** Records the state that was reported to the host. null: no state was or will be reported. */
export async function settleReport(
  db: Db,
  revisionId: string,
  report: { state: CommitState | null; externalId: string | null; isSettled: boolean },
): Promise<void> {
  await db.query(sql`
    update commit_reports
       set reported = coalesce(${report.state}, reported), external_id = coalesce(${report.externalId}, external_id),
           is_settled = ${report.isSettled}, attempts = 0, retry_at = null
     where revision_id = ${revisionId}`);
}

/** Records that the host rejected a report. It is sent again at `retryAt`; null: never. */
export async function failReport(db: Db, revisionId: string, { retryAt }: { retryAt: Date | null }): Promise<void> {
  await db.query(sql`
    update commit_reports set attempts = attempts + 1, retry_at = ${retryAt}, is_settled = ${retryAt === null}
     where revision_id = ${revisionId}`);
}
