import { type RawBuilder, sql } from "kysely";
import type { SourceConfig, SourceKind, SourceRevisionConfig } from "../contract/deployment.ts";
import type { RevisionStatus, RevisionTrigger } from "../contract/revision.ts";
import { canMoveRevision } from "../domain/revision-status.ts";
import type { Sizes } from "../domain/tiers.ts";
import { type AuditNote, auditedDeployment } from "./audit.ts";
import { announced } from "./changes.ts";
import type { Db, Trx } from "./database.ts";
import type { FaultPoint } from "./fault-points.ts";

export interface RevisionRow {
  id: string;
  tenant_id: string;
  deployment_id: string;
  status: RevisionStatus;
  status_message: string | null;
  status_since: Date;
  deadline_at: Date | null;
  source: SourceKind;
  source_config: SourceConfig;
  source_revision_config: SourceRevisionConfig;
  secret_set_id: string | null;
  secret_references: { name: string; secret_name: string; secret_key: string }[] | null;
  sizes: Sizes | null;
  artifact_id: string | null;
  artifact_key: string | null;
  redeploy_of: string | null;
  triggered_by: RevisionTrigger;
  image_version: string | null;
  tracked_packages: string[] | null;
  created_at: Date;
  updated_at: Date;
  /** How its replicas replace the ones before; known once there is an artifact. */
  rollout: "rolling" | "handover" | null;
}

export interface NewRevision
  extends Pick<
    RevisionRow,
    | "id"
    | "source"
    | "source_config"
    | "source_revision_config"
    | "secret_set_id"
    | "secret_references"
    | "sizes"
    | "artifact_id"
    | "artifact_key"
    | "redeploy_of"
    | "triggered_by"
    | "tracked_packages"
  > {
  /** When CREATING counts as stuck. */
  deadline_at: Date;
}

export const revisionColumns = sql.raw(
  [
    "r.id, r.tenant_id, r.deployment_id, r.status, r.status_message, r.status_since, r.deadline_at, r.source",
    "r.source_config, r.source_revision_config, r.secret_set_id, r.secret_references, r.sizes, r.artifact_id, r.artifact_key",
    "r.redeploy_of, r.triggered_by, r.image_version, r.tracked_packages, r.created_at, r.updated_at",
    "(select a.manifest ->> 'rollout' from artifacts a where a.id = r.artifact_id) as rollout",
  ].join(", "),
) as RawBuilder<unknown>;

/** CTE body that writes a CREATING revision of the deployment of an earlier CTE (`deployment_id`, `tenant_id`), or nothing. */
export function insertedRevision(made: NewRevision | null, source: string): RawBuilder<unknown> {
  if (made === null) return sql`select 1`;
  return sql`
      insert into revisions (id, tenant_id, deployment_id, status, deadline_at, source, source_config,
        source_revision_config, secret_set_id, secret_references, sizes, artifact_id, artifact_key, redeploy_of,
        triggered_by, tracked_packages)
      select ${made.id}, tenant_id, deployment_id, 'CREATING', ${made.deadline_at}, ${made.source},
        ${JSON.stringify(made.source_config)}, ${JSON.stringify(made.source_revision_config)}, ${made.secret_set_id},
        ${json(made.secret_references)}, ${json(made.sizes)}, ${made.artifact_id}, ${made.artifact_key}, ${made.redeploy_of},
        ${made.triggered_by}, ${json(made.tracked_packages)} from ${sql.table(source)}`;
}

/** Another tenant's revision, or one of another deployment, answers undefined as if it did not exist. */
export async function findRevision(
  db: Db | Trx,
  tenantId: string,
  path: { deploymentId: string; revisionId: string },
): Promise<RevisionRow | undefined> {
  const { rows } = await sql<RevisionRow>`
    select ${revisionColumns} from revisions r
     where r.id = ${path.revisionId} and r.deployment_id = ${path.deploymentId} and r.tenant_id = ${tenantId}`.execute(
    db.kysely,
  );
  return rows[0];
}

/** Newest first; ties in time by order of insertion. `statuses` null: all. */
export async function listRevisions(
  db: Db | Trx,
  tenantId: string,
  deploymentId: string,
  page: { statuses: string[] | null; limit: number; offset: number },
): Promise<RevisionRow[]> {
  const { rows } = await sql<RevisionRow>`
    select ${revisionColumns} from revisions r
     where r.deployment_id = ${deploymentId} and r.tenant_id = ${tenantId}
       and (${page.statuses}::text[] is null or r.status = any(${page.statuses}::text[]))
     order by r.seq desc limit ${page.limit} offset ${page.offset}`.execute(db.kysely);
  return rows;
}

export interface RevisionMove {
  from: RevisionStatus;
  to: RevisionStatus;
  /** For the timeline: why, in a few words. */
  because: string;
  /** Shown to users as `status_message`; every failure has one. */
  message?: string | null;
  deadlineAt: Date | null;
  /** When somebody asked for it. */
  audit?: AuditNote;
  /** Further facts that are settled by this move. */
  set?: Partial<Pick<RevisionRow, "artifact_id" | "artifact_key" | "image_version" | "source_revision_config">>;
}

/**
 * Moves a revision to its next status, but only from the status the caller saw; event and change in the same statement.
 * @returns false when another worker moved it first; the caller reads again and plans anew.
 * @throws RangeError when there is no such move: a bug of the caller.
 */
export async function moveRevision(
  db: Db | Trx,
  revision: { id: string; deploymentId: string },
  move: RevisionMove,
): Promise<boolean> {
  if (!canMoveRevision(move.from, move.to)) throw new RangeError(`revision cannot move ${move.from} -> ${move.to}`);
  const { set = {} } = move;
  const { rows } = await sql`
    with moved as (
      update revisions set status = ${move.to}, status_message = ${move.message ?? null}, status_since = now(),
             deadline_at = ${move.deadlineAt}, updated_at = now(),
             artifact_id = coalesce(${set.artifact_id ?? null}, artifact_id),
             artifact_key = coalesce(${set.artifact_key ?? null}, artifact_key),
             image_version = coalesce(${set.image_version ?? null}, image_version),
             source_revision_config = coalesce(${json(set.source_revision_config)}::jsonb, source_revision_config)
       where id = ${revision.id} and status = ${move.from}
      returning id, deployment_id, tenant_id
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, id, 'revision.status',
             ${JSON.stringify({ from: move.from, to: move.to, because: move.because, message: move.message ?? null })}
        from moved
    ), audit as (${move.audit === undefined ? sql`select 1` : auditedDeployment("moved", move.audit)}
    ), ${announced("moved")}
    select id from moved`.execute(db.kysely);
  if (rows.length === 0) return false;
  reach(db, pointOf(move.to));
  return true;
}

/** Moves superseded revisions QUEUED -> SKIPPED in one statement. */
export async function skipRevisions(db: Db, revisionIds: string[], supersededBy: string): Promise<void> {
  await sql`
    with moved as (
      update revisions set status = 'SKIPPED', status_since = now(), deadline_at = null, updated_at = now(),
             status_message = ${`Superseded by revision ${supersededBy} while waiting in the queue.`}
       where id = any(${revisionIds}::uuid[]) and status = 'QUEUED'
      returning id, deployment_id, tenant_id
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, id, 'revision.status',
             ${JSON.stringify({ from: "QUEUED", to: "SKIPPED", because: "superseded" })} from moved
    ), change as (
      insert into deployment_changes (tenant_id, deployment_id) select distinct tenant_id, deployment_id from moved)
    select 1`.execute(db.kysely);
  db.reached("revisions skipped");
}

/**
 * Stops a revision for a user (contract R5). The status moves here; killing the build or the replicas is what the next
 * pass sees to do.
 * @returns the status it had when it was too late, or "interrupted"; undefined when there is no such revision.
 */
export async function interruptRevision(
  db: Db,
  revision: { id: string; deploymentId: string; tenantId: string; actor: string },
): Promise<RevisionStatus | undefined> {
  const found = await findRevision(db, revision.tenantId, {
    deploymentId: revision.deploymentId,
    revisionId: revision.id,
  });
  if (found === undefined || !canMoveRevision(found.status, "INTERRUPTED")) return found?.status;
  const isMoved = await moveRevision(db, revision, {
    from: found.status,
    to: "INTERRUPTED",
    because: `interrupted by ${revision.actor}`,
    message: "Stopped on request.",
    deadlineAt: null,
    audit: { actor: revision.actor, action: "revision.interrupt", details: { revision_id: revision.id } },
  });
  if (!isMoved) return interruptRevision(db, revision);
  db.changes.wake();
  return "INTERRUPTED";
}

/** Which revisions of a tenant's deployments stand on one artifact: it must stay while there are any. */
export async function isArtifactUsed(db: Db | Trx, artifactId: string): Promise<boolean> {
  const { rows } = await sql`select 1 from revisions where artifact_id = ${artifactId} limit 1`.execute(db.kysely);
  return rows.length > 0;
}

function pointOf(to: RevisionStatus): FaultPoint | null {
  switch (to) {
    case "QUEUED":
      return "revision queued";
    case "AWAITING_BUILD":
      return "revision awaiting build";
    case "AWAITING_DEPLOY":
      return "revision awaiting deploy";
    case "INTERRUPTED":
      return "revision interrupted";
    case "CREATE_FAILED":
    case "BUILD_FAILED":
      return "revision failed";
    default:
      return null;
  }
}

/** Inside a transaction nothing is persisted yet: the one who commits it reports the point. */
function reach(db: Db | Trx, point: FaultPoint | null): void {
  if (point !== null && "reached" in db) db.reached(point);
}

const json = (value: unknown) => (value === null || value === undefined ? null : JSON.stringify(value));
