import type { Engine, EngineBecause } from "../../contract/listeners/assignment.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import type { RevisionStatus } from "../../contract/revisions/revision.ts";
import type { Health } from "../../domain/deployment-health.ts";
import { canMoveRevision } from "../../domain/revision-status.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import { assigned, assignmentColumns, type NewAssignment } from "../data-plane/assignments.ts";
import { batched } from "../engine/batched.ts";
import type { Db, Trx } from "../engine/database.ts";
import type { FaultPoint } from "../engine/fault-points.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import { enqueued } from "../queue/enqueue.ts";
import { type AuditNote, auditColumns, auditedRows } from "../tenants/audit.ts";
import { revisionsTable } from "./tables.ts";

const revisionFields = pick(
  revisionsTable,
  "id",
  "tenant_id",
  "deployment_id",
  "status",
  "status_message",
  "failure",
  "status_since",
  "deadline_at",
  "source",
  "source_config",
  "source_revision_config",
  "secret_set_id",
  "secret_references",
  "sizes",
  "artifact_id",
  "artifact_key",
  "redeploy_of",
  "triggered_by",
  "image_version",
  "tracked_packages",
  "number",
  "reason",
  "made_by",
  "commit_message",
  "commit_author",
  "created_at",
  "updated_at",
);

export interface RevisionRow extends RowOf<typeof revisionFields> {
  /** How its replicas replace the previous ones; null until there is an artifact. */
  rollout: "rolling" | "handover" | null;
  /** What keeps its threads and runs; null until there is an artifact, and for one that does not say. */
  engine: Engine | null;
  /** What decided about it; null where nothing could be chosen. */
  engine_because: EngineBecause | null;
  artifact_digest: string | null;
  builder_version: string | null;
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
    | "reason"
    | "made_by"
    | "commit_message"
    | "commit_author"
  > {
  /** When CREATING counts as stuck. */
  deadline_at: Date;
  /** The span that requested the revision: all work for it belongs to that trace. */
  traceparent: string | null;
}

const ofManifest = (key: "rollout" | "engine" | "engine_because" | "digest" | "builder") =>
  sql`(select a.manifest ->> ${sql.literal(key)} from artifacts a where a.id = r.artifact_id)`;

const manifestColumns = sql`
  ${ofManifest("rollout")} as rollout, ${ofManifest("engine")} as engine, ${ofManifest("engine_because")} as engine_because,
  ${ofManifest("digest")} as artifact_digest, ${ofManifest("builder")} as builder_version`;

const revisionColumns = sql`${selectList(revisionFields, "r")}, ${manifestColumns}`;

/** Settings that users do not see and that may be large, so a page is read without them. */
const { source_config: _1, secret_references: _2, sizes: _3, tracked_packages: _4, ...listedFields } = revisionFields;

/** A revision with what only users see: names instead of ids. */
export interface ShownRevisionRow extends RevisionRow {
  deployment_name: string;
  /** Name of the key, or address of the member, that made it; null: it is gone, or no user made it. */
  made_by_name: string | null;
  /** Number of the revision that it runs again. */
  redeploy_of_number: number | null;
}

/** A row of a page of revisions. */
export type ListedRevisionRow = Omit<
  ShownRevisionRow,
  "source_config" | "secret_references" | "sizes" | "tracked_packages"
>;

const idIn = (kind: string) =>
  sql`case when starts_with(r.made_by, ${sql.literal(`${kind}:`)}) then split_part(r.made_by, ':', 2)::uuid end`;

const namesColumns = sql`
  (select n.name from deployments n where n.id = r.deployment_id) as deployment_name,
  coalesce((select k.name from api_keys k where k.id = ${idIn("key")}),
           (select m.email from members m where m.id = ${idIn("member")})) as made_by_name,
  (select o.number from revisions o where o.id = r.redeploy_of) as redeploy_of_number`;

const shownColumns = sql`${revisionColumns}, ${namesColumns}`;

const listedColumns = sql`${selectList(listedFields, "r")}, ${manifestColumns}, ${namesColumns}`;

/** Condition on rows of `revisions` under an alias: the status is not final. Written exactly like the index `revisions_unsettled`. */
export const isUnsettled = (alias: string): Sql =>
  sql`${sql.identifier(`${alias}.status`)} in ('CREATING', 'QUEUED', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'UNKNOWN')`;

/**
 * CTE body that writes the CREATING revisions of the rows of an earlier CTE (`source`, with `deployment_id`, `tenant_id`
 * and `revision`, a NewRevision as JSON).
 */
export function insertedRevision(source: string): Sql {
  return sql`
      insert into revisions (id, tenant_id, deployment_id, status, deadline_at, source, source_config,
        source_revision_config, secret_set_id, secret_references, sizes, artifact_id, artifact_key, redeploy_of,
        triggered_by, tracked_packages, traceparent, reason, made_by, commit_message, commit_author, number)
      select r.id, s.tenant_id, s.deployment_id, 'CREATING', r.deadline_at, r.source, r.source_config,
             r.source_revision_config, r.secret_set_id, r.secret_references, r.sizes, r.artifact_id, r.artifact_key,
             r.redeploy_of, r.triggered_by, r.tracked_packages, r.traceparent, r.reason, r.made_by, r.commit_message,
             r.commit_author,
             coalesce((select n.number from revisions n where n.deployment_id = s.deployment_id and n.number is not null
                        order by n.seq desc limit 1), 0) + 1
        from ${sql.identifier(source)} s, jsonb_populate_record(null::revisions, s.revision) r where s.revision is not null`;
}

/** Returns a revision; undefined for an unknown one, and equally for another tenant's or another deployment's. */
export async function findRevision(
  db: Db | Trx,
  tenantId: string,
  path: { deploymentId: string; revisionId: string },
): Promise<ShownRevisionRow | undefined> {
  const { rows } = await db.query<ShownRevisionRow>(sql`
    select ${shownColumns} from revisions r
     where r.id = ${path.revisionId} and r.deployment_id = ${path.deploymentId} and r.tenant_id = ${tenantId}`);
  return rows[0];
}

/** Returns a revision of any tenant, for workers. */
export const readRevision = batched(async (db, ids: string[]): Promise<(RevisionRow | undefined)[]> => {
  const { rows } = await db.query<RevisionRow>(sql`
    select ${revisionColumns} from revisions r where r.id = any(${ids}::uuid[])`);
  return ids.map((id) => rows.find((row) => row.id === id));
});

/** Returns revisions, newest first; equal times in order of insertion. `statuses` null: all. */
export async function listRevisions(
  db: Db | Trx,
  tenantId: string,
  deploymentId: string,
  page: { statuses: string[] | null; limit: number; offset: number },
): Promise<ListedRevisionRow[]> {
  const { rows } = await db.query<ListedRevisionRow>(sql`
    select ${listedColumns} from revisions r
     where r.deployment_id = ${deploymentId} and r.tenant_id = ${tenantId}
       and (${page.statuses}::text[] is null or r.status = any(${page.statuses}::text[]))
     order by r.seq desc limit ${page.limit} offset ${page.offset}`);
  return rows;
}

/** Returns the tenant's deployments among these, each with its newest revision, in the given order. */
export async function latestRevisions(
  db: Db | Trx,
  tenantId: string,
  deploymentIds: readonly string[],
): Promise<{ deploymentId: string; latest: ListedRevisionRow | null }[]> {
  const ids = [...deploymentIds];
  const { rows } = await db.query<ListedRevisionRow & { owner_id: string }>(sql`
    select d.id as owner_id, latest.*
      from deployments d
      left join lateral (select ${listedColumns} from revisions r where r.id = d.latest_revision_id) latest on true
     where d.tenant_id = ${tenantId} and d.id = any(${ids}::uuid[]) order by array_position(${ids}::uuid[], d.id)`);
  return rows.map(({ owner_id: deploymentId, ...row }) => ({ deploymentId, latest: row.id === null ? null : row }));
}

export interface RevisionMove {
  from: RevisionStatus;
  to: RevisionStatus;
  /** For the timeline: the reason, in a few words. */
  because: string;
  /** Shown to users as `status_message`; every failure has one. */
  message?: string | null;
  /** Code of a failure; absent: it is none. */
  failure?: Failure | null;
  deadlineAt: Date | null;
  /** Present when a user requested it. */
  audit?: AuditNote;
  /** Further columns set by this move; `artifact_id: null` means that the artifact to run again no longer exists. */
  set?: Partial<Pick<RevisionRow, "artifact_id" | "artifact_key" | "image_version" | "source_revision_config">>;
  /** What its listener should run from now on; `proven`: the target, because it has shown that it serves. */
  assignment?: NewAssignment | "proven";
  /** Health of the deployment once the revision is active. A changed word is also an event. */
  health?: Health;
  /** The move is made by a pass that holds the deployment and reads it again before it ends, so it is not enqueued. */
  byPass?: boolean;
}

/**
 * Moves a revision to its next status, only if it still has the status that the caller saw. Event, enqueueing and
 * assignment are written in the same statement. A revision that becomes DEPLOYED becomes the active one:
 * `active_revision_id` never points to a revision in another status.
 * @returns false when another worker moved it first; the caller reads again and makes a new plan.
 * @throws RangeError when the move is not allowed, which is a bug of the caller.
 */
export async function moveRevision(
  db: Db | Trx,
  revision: { id: string; deploymentId: string },
  move: RevisionMove,
): Promise<boolean> {
  if (!canMoveRevision(move.from, move.to)) throw new RangeError(`revision cannot move ${move.from} -> ${move.to}`);
  const isMoved = await joinedMoves(db, { id: revision.id, ...move });
  if (isMoved) committed(db, pointOf(move.to));
  return isMoved;
}

const joinedMoves = batched(async (db, moves: (RevisionMove & { id: string })[]): Promise<boolean[]> => {
  const wanted = moves.map(
    ({ id, from, to, because, message, failure, deadlineAt, set, assignment, health, byPass, audit }, n) => ({
      ...{
        n,
        id,
        from,
        to,
        because,
        // It may quote the output of a command or the response of another server.
        message: message ? sanitizeText(message) : null,
        failure: failure ?? null,
        deadline_at: deadlineAt,
        by_pass: byPass ?? false,
        sets_artifact: set?.artifact_id !== undefined,
        health,
        ...set,
      },
      ...(assignment === "proven" ? { proven: true } : assignment && assignmentColumns(assignment)),
      ...(audit && auditColumns(audit)),
    }),
  );
  const { rows } = await db.query<{ n: number }>(sql`
    with wanted as (
      select * from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb)
        as w (n integer, id uuid, "from" text, "to" text, because text, message text, failure jsonb, deadline_at timestamptz, by_pass boolean,
              sets_artifact boolean, artifact_id uuid, artifact_key text, image_version text, source_revision_config jsonb, proven boolean, health jsonb,
              listener_id uuid, op text, spec jsonb, actor text, action text, noted jsonb)
    ), moved as (
      update revisions r set status = w."to", status_message = w.message, failure = w.failure, status_since = now(), deadline_at = w.deadline_at,
             updated_at = now(), artifact_id = case when w.sets_artifact then w.artifact_id else r.artifact_id end,
             artifact_key = coalesce(w.artifact_key, r.artifact_key), image_version = coalesce(w.image_version, r.image_version),
             source_revision_config = coalesce(w.source_revision_config, r.source_revision_config)
        from wanted w
       where r.id = any(${moves.map(({ id }) => id)}::uuid[]) and r.id = w.id and r.status = w."from"
      returning w.n, r.id, r.deployment_id, r.tenant_id, w."from", w."to", w.because, w.message, w.failure, w.by_pass, r.image_version,
                w.proven, w.health, w.listener_id, w.op, w.spec, w.actor, w.action, w.noted, null as subject_name
    ), activated as (
      update deployments d set active_revision_id = m.id, image_version = m.image_version, updated_at = now(),
             health = coalesce(m.health ->> 'word', d.health),
             health_reason = case when m.health is null then d.health_reason else m.health ->> 'reason' end,
             health_message = case when m.health is null then d.health_message else m.health ->> 'message' end,
             health_failure = case when m.health is null then d.health_failure else nullif(m.health -> 'failure', 'null') end,
             health_since = case when coalesce(m.health ->> 'word', d.health) = d.health then d.health_since else now() end
        from moved m where d.id = m.deployment_id and m."to" = 'DEPLOYED'
      returning d.tenant_id, d.id as deployment_id, m.id, d.health as "to", d.health_reason, d.health_message,
                (select o.health from deployments o where o.id = d.id) as "from"
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, id, kind, data from (
        select tenant_id, deployment_id, id, 'revision.status' as kind, 1 as part,
               jsonb_build_object('from', "from", 'to', "to", 'because', because, 'message', message)
                 || case when failure is null then '{}' else jsonb_build_object('failure', failure -> 'code') end as data
          from moved
        union all
        select tenant_id, deployment_id, id, 'deployment.health', 2,
               jsonb_build_object('from', "from", 'to', "to", 'because', health_reason, 'message', health_message)
          from activated where "from" <> "to") news
       order by deployment_id, part
    ), audit as (${auditedRows("moved")}
    ), desired as (
      select deployment_id, tenant_id, listener_id, op, spec from moved where spec is not null
      union all
      select a.deployment_id, a.tenant_id, a.listener_id, a.op, jsonb_set(a.spec, '{serving}', a.spec -> 'target')
        from moved m join assignments a on a.deployment_id = m.deployment_id where m.proven
    ), ${assigned("desired")}, ${enqueued("moved", { unless: "by_pass" })}
    select n from moved`);
  const moved = new Set(rows.map(({ n }) => n));
  return moves.map((_, n) => moved.has(n));
});

/** Moves superseded revisions QUEUED -> SKIPPED in one statement. */
export async function skipRevisions(db: Db, revisionIds: string[], supersededBy: string): Promise<void> {
  await db.query(sql`
    with moved as (
      update revisions set status = 'SKIPPED', status_since = now(), deadline_at = null, updated_at = now(),
             status_message = ${`Superseded by revision ${supersededBy} while waiting in the queue.`}
       where id = any(${revisionIds}::uuid[]) and status = 'QUEUED'
      returning id, deployment_id, tenant_id
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, id, 'revision.status',
             ${JSON.stringify({ from: "QUEUED", to: "SKIPPED", because: "superseded" })} from moved
    )
    select 1`);
  db.reached("revisions skipped");
  db.changes.wakeWatchers();
}

/**
 * Interrupts a revision for a user (contract R5). Only the status changes here; the next pass kills the build or the
 * replicas.
 * @returns the status it had when it was too late, or "INTERRUPTED"; undefined when there is no such revision.
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

/** Reports the point and wakes watchers. Inside a transaction nothing is durable yet, so its caller reports after the commit. */
function committed(db: Db | Trx, point: FaultPoint | null): void {
  if (!("reached" in db)) return;
  if (point !== null) db.reached(point);
  db.changes.wakeWatchers();
}

/** Extends the deadline of a revision in a status, unless it has left the status or already has that much time. */
export async function postponeDeadline(
  db: Db,
  { id, status }: { id: string; status: RevisionStatus },
  until: Date,
): Promise<void> {
  await db.query(sql`
    update revisions set deadline_at = ${until} where id = ${id} and status = ${status} and deadline_at < ${until}`);
}

/** Sets the message of a revision that is DEPLOYING. @returns false when it has left that status. */
export async function describeRollout(db: Db, revisionId: string, message: string): Promise<boolean> {
  const { rows } = await db.query(sql`
    update revisions set status_message = ${message}, updated_at = now()
     where id = ${revisionId} and status = 'DEPLOYING' returning id`);
  return rows.length > 0;
}
