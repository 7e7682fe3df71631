import type { RevisionStatus } from "../../contract/revisions/revision.ts";
import type { KnownPreview } from "../../domain/preview-plan.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/** Returns the previews of a deployment with their last commit or request; a preview that is being deleted has no deployment. */
export async function listPreviews(db: Db, parentId: string): Promise<KnownPreview[]> {
  const { rows } = await db.query<KnownPreview>(sql`
    select p.number, d.id as "deploymentId", p.head_sha as "headSha",
           greatest(p.head_at, d.created_at, (select max(m.at) from metric_minutes m
              where m.deployment_id = d.id and m.requests > 0)) as "activeAt"
      from previews p left join deployments d
        on d.id = p.deployment_id and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
     where p.parent_id = ${parentId} order by p.number`);
  return rows;
}

/** Records which commit the deployment of a pull request runs. */
export async function recordPreview(
  db: Db | Trx,
  preview: { parentId: string; number: number; tenantId: string; deploymentId: string; headSha: string },
): Promise<void> {
  const { parentId, number, tenantId, deploymentId, headSha } = preview;
  await db.query(sql`
    insert into previews (parent_id, number, tenant_id, deployment_id, head_sha)
    values (${parentId}, ${number}, ${tenantId}, ${deploymentId}, ${headSha})
    on conflict (parent_id, number) do update
       set deployment_id = excluded.deployment_id, head_sha = excluded.head_sha, head_at = now(), attempts = 0,
           retry_at = null`);
}

/** Removes a preview. @param preview.isClosed deletes the row; otherwise its last commit stays recorded. */
export async function dropPreview(
  db: Db,
  preview: { parentId: string; number: number; isClosed: boolean },
): Promise<void> {
  const { parentId, number, isClosed } = preview;
  await db.query(
    isClosed
      ? sql`delete from previews where parent_id = ${parentId} and number = ${number}`
      : sql`update previews set deployment_id = null where parent_id = ${parentId} and number = ${number}`,
  );
}

/** Returns the deployment of a preview that was created but not recorded: by name, which only one deployment of the parent can have. */
export async function findPreviewByName(db: Db, parentId: string, name: string): Promise<string | undefined> {
  const { rows } = await db.query<{ id: string }>(sql`
    select id from deployments where parent_deployment_id = ${parentId} and name = ${name}
       and status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')`);
  return rows[0]?.id;
}

/**
 * Returns live previews of a deployment that is being deleted: they were being created when the delete was requested, which
 * could not see them yet.
 */
export async function findOrphanedPreviews(
  db: Db,
  parentId: string,
): Promise<{ id: string; deleteTracingProject: boolean }[]> {
  const { rows } = await db.query<{ id: string; deleteTracingProject: boolean }>(sql`
    select d.id, p.delete_tracing_project as "deleteTracingProject"
      from deployments d join deployments p on p.id = d.parent_deployment_id
     where d.parent_deployment_id = ${parentId} and d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')`);
  return rows;
}

export interface PreviewComment {
  parentId: string;
  number: number;
  headSha: string;
  commentId: number | null;
  commented: string | null;
  attempts: number;
  latestStatus: RevisionStatus | null;
  statusMessage: string | null;
}

/** Returns what the comment of a preview needs, by the preview's own deployment. */
export async function findPreviewComment(db: Db, deploymentId: string): Promise<PreviewComment | undefined> {
  const { rows } = await db.query<PreviewComment>(sql`
    select p.parent_id as "parentId", p.number, p.head_sha as "headSha", p.comment_id as "commentId", p.commented,
           p.attempts, r.status as "latestStatus", r.status_message as "statusMessage"
      from previews p join deployments d on d.id = p.deployment_id left join revisions r on r.id = d.latest_revision_id
     where p.deployment_id = ${deploymentId}`);
  return rows[0];
}

export async function settleComment(
  db: Db,
  deploymentId: string,
  report: { commented: string; commentId: number | null },
): Promise<void> {
  await db.query(sql`
    update previews set commented = ${report.commented}, comment_id = coalesce(${report.commentId}, comment_id), attempts = 0,
           retry_at = null
     where deployment_id = ${deploymentId}`);
}

/** Records that the host rejected the comment. @param retryAt null: not retried until its content changes. */
export async function failComment(
  db: Db,
  deploymentId: string,
  { retryAt, commented }: { retryAt: Date | null; commented: string },
): Promise<void> {
  await db.query(sql`
    update previews set attempts = attempts + 1, retry_at = ${retryAt},
           commented = case when ${retryAt}::timestamptz is null then ${commented} else commented end
     where deployment_id = ${deploymentId}`);
}
