import type { DeploymentStatus, SourceRevisionConfig } from "../../contract/deployments/deployment.ts";
import { canMoveDeployment } from "../../domain/deployment-status.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import { batched } from "../engine/batched.ts";
import type { Db, Trx } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import { enqueued } from "../queue/enqueue.ts";
import { insertedRevision, isUnsettled, type NewRevision } from "../revisions/revisions.ts";
import { insertedSecretSet, type SealedSet, secretSetColumns } from "../secrets/secrets.ts";
import { type AuditNote, auditedDeployment } from "../tenants/audit.ts";
import { agentId } from "./agent-columns.ts";
import { deploymentsTable } from "./tables.ts";

const boundedFields = pick(
  deploymentsTable,
  "id",
  "tenant_id",
  "listener_id",
  "name",
  "slug",
  "display_name",
  "source",
  "tracked_ref",
  "tracked_packages",
  "secret_set_id",
  "status",
  "health",
  "health_since",
  "health_reason",
  "health_message",
  "health_failure",
  "latest_revision_id",
  "active_revision_id",
  "image_version",
  "shareable",
  "route_through_gateway",
  "agent_environment",
  "deployment_tier",
  "compute_tier",
  "database_tier",
  "is_preview",
  "parent_deployment_id",
  "tracer_session_id",
  "created_at",
  "updated_at",
);

/** Fields that may be large. */
const largeFields = pick(deploymentsTable, "source_config", "secret_references");

const deploymentFields = { ...boundedFields, ...largeFields };

/** A row of `deployments` with its sealed secrets; `api/deployments/present-deployment.ts` turns it into JSON. */
export interface DeploymentRow extends RowOf<typeof deploymentFields> {
  agent_id: string | null;
  source_revision_config: SourceRevisionConfig;
  /** Address at which the data plane serves its agents; null: the gateway of this server does. */
  agents_url: string | null;
  /** Whether what serves is not well, and another revision served before. */
  can_roll_back: boolean;
  sealed_secrets: Buffer | null;
  secrets_key_id: string | null;
}

/** A row of a page. */
export interface ListedDeploymentRow extends DeploymentRow {
  /** Size of the fields that the row lacks because they are large; null: the row has all. */
  large_bytes: number | null;
}

/** The columns that an operation changes; absent means unchanged. */
export type DeploymentChange = Partial<
  Pick<
    DeploymentRow,
    | "display_name"
    | "source_config"
    | "source_revision_config"
    | "tracked_ref"
    | "tracked_packages"
    | "secret_set_id"
    | "secret_references"
    | "shareable"
    | "route_through_gateway"
    | "deployment_tier"
    | "compute_tier"
    | "database_tier"
  >
>;

/** Columns are listed one by one because a cached plan of `select *` breaks at the next migration. */
// The commit is known once the revision is resolved. It is read there, so that resolving need not lock this row.
const boundedColumns = sql`
  ${selectList(boundedFields, "d")}, ${agentId} as agent_id,
  d.source_revision_config || jsonb_build_object('repo_commit_sha', (
    select r.source_revision_config -> 'repo_commit_sha' from revisions r where r.id = d.latest_revision_id
  )) as source_revision_config,
  (select l.facts ->> 'agents_url' from listeners l where l.id = d.listener_id) as agents_url,
  case when d.health in ('crash_looping', 'degraded') and d.health_reason is distinct from 'NewRevisionFailed' then exists (
    select from revisions e where e.deployment_id = d.id and e.status = 'DEPLOYED' and e.id <> d.active_revision_id
  ) else false end as can_roll_back, s.data_key_id as secrets_key_id`;

export const deploymentColumns = sql`${boundedColumns}, ${selectList(largeFields, "d")}, s.sealed as sealed_secrets`;

/** Larger rows are read one by one, because a page of them is 100 MiB. */
const listedBytesMax = sql.literal(65_536);

/**
 * The columns of a page of deployments, and the join that they need. `large_bytes`: the row is large, and lacks its secrets, their
 * references and its settings.
 */
export const listedColumns = sql`${boundedColumns},
  case when size.bytes <= ${listedBytesMax} then s.sealed end as sealed_secrets,
  case when size.bytes <= ${listedBytesMax} then d.source_config end as source_config,
  case when size.bytes <= ${listedBytesMax} then d.secret_references end as secret_references,
  case when size.bytes > ${listedBytesMax} then size.bytes end as large_bytes`;

/** Computed once for each row: it reads the large fields. */
export const listedSize = sql`cross join lateral (
  select coalesce(octet_length(s.sealed), 0) + octet_length(d.source_config::text)
         + coalesce(octet_length(d.secret_references::text), 0) as bytes offset 0) size`;

/** Returns a deployment; undefined for an unknown one and equally for another tenant's. */
export function findDeployment(db: Db | Trx, tenantId: string, id: string): Promise<DeploymentRow | undefined> {
  return findDeployments(db, { tenantId, id });
}

/** Reports whether a deployment admits callers of a workspace: its own, or any if it is shareable. */
export async function admitsCallers(db: Db, id: string, tenantId: string): Promise<boolean> {
  const { rows } = await db.query(sql`
    select 1 from deployments where id = ${id} and (tenant_id = ${tenantId} or shareable)`);
  return rows.length > 0;
}

/** Two batches in flight: 16 connections that only read one deployment had 14 % more throughput than with one batch; four gained no more. */
const findDeployments = batched(findAsked, { atOnce: 2 });

async function findAsked(db: Db | Trx, asked: { tenantId: string; id: string }[]) {
  const { rows } = await db.query<DeploymentRow>(sql`
    select ${deploymentColumns} from deployments d left join secret_sets s on s.id = d.secret_set_id
     where d.id = any(${asked.map(({ id }) => id)}::uuid[])`);
  const found = new Map(rows.map((row) => [row.id, row]));
  return asked.map(({ tenantId, id }) => {
    const row = found.get(id);
    return row?.tenant_id === tenantId ? row : undefined;
  });
}

/** Returns a deployment and locks its row until the transaction ends. */
export async function lockDeployment(trx: Trx, tenantId: string, id: string): Promise<DeploymentRow | undefined> {
  const { rows } = await trx.query<DeploymentRow>(sql`
    select ${deploymentColumns} from deployments d left join secret_sets s on s.id = d.secret_set_id
     where d.id = ${id} and d.tenant_id = ${tenantId} for update of d`);
  return rows[0];
}

/**
 * Changes settings of a locked deployment and, with `revision`, requests a rollout. Writes the audit row and the event too.
 * The caller's transaction makes it one commit.
 */
export async function changeDeployment(
  trx: Trx,
  deployment: { id: string; tenant_id: string },
  made: {
    change: DeploymentChange;
    secrets: SealedSet | null;
    revision: NewRevision | null;
    audit: AuditNote;
  },
): Promise<void> {
  const { revision } = made;
  const assignments = Object.entries(made.change).map(
    ([column, value]) => sql`${sql.identifier(column)} = ${encoded(value)}`,
  );
  const columns = Object.keys(made.change).map((column) => (column === "secret_set_id" ? "secrets" : column));
  const changed = [...columns, ...(made.secrets === null ? [] : ["secrets"])];
  const event =
    revision === null
      ? { kind: "deployment.changed", data: { changed } }
      : { kind: "revision.created", data: { changed, triggered_by: revision.triggered_by, reason: revision.reason } };
  if (made.secrets !== null) assignments.push(sql`secret_set_id = ${made.secrets.id}`);
  if (revision !== null) assignments.push(sql`latest_revision_id = ${revision.id}`);
  await trx.query(sql`
    with deployment as (
      update deployments set ${sql.join([...assignments, sql`updated_at = now()`])} where id = ${deployment.id}
      returning id as deployment_id, tenant_id, ${json(secretSetColumns(made.secrets))}::jsonb as secret_set,
                ${json(revision)}::jsonb as revision
    ), secret_set as (${insertedSecretSet("deployment")}
    ), revision as (${insertedRevision("deployment")}
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, ${revision?.id ?? null}::uuid, ${event.kind}, ${JSON.stringify(event.data)}
        from deployment
    ), audit as (${auditedDeployment("deployment", made.audit)}
    ), ${enqueued("deployment")}
    select deployment_id from deployment`);
}

/**
 * Accepts a delete: the deployment, its previews and their unsettled revisions change in one statement. Repeating the
 * call changes nothing.
 * @returns false when the tenant has no such deployment.
 */
export async function requestDelete(
  db: Db,
  tenantId: string,
  id: string,
  options: { deleteTracingProject: boolean; force: boolean; actor: string },
): Promise<boolean> {
  const { rows } = await db.query(sql`
    with deployment as (
      update deployments
         set status = case when status in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE') then status else 'AWAITING_DELETE' end,
             status_since = case when status in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE') then status_since else now() end,
             health = 'deleting', health_since = case health when 'deleting' then health_since else now() end,
             health_reason = null, health_message = null, health_failure = null,
             delete_tracing_project = delete_tracing_project or ${options.deleteTracingProject},
             force_delete = force_delete or ${options.force}, updated_at = now()
       where (id = ${id} or parent_deployment_id = ${id}) and tenant_id = ${tenantId}
         and exists (select 1 from deployments d where d.id = ${id} and d.tenant_id = ${tenantId})
      returning id as deployment_id, tenant_id
    ), interrupted as (
      update revisions r set status = 'INTERRUPTED', status_since = now(), updated_at = now(), deadline_at = null,
             status_message = 'The deployment was deleted.'
        from deployment d
       where r.deployment_id = d.deployment_id
         and ${isUnsettled("r")}
      returning r.tenant_id, r.deployment_id, r.id
    ), event as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select tenant_id, deployment_id, null, 'deployment.delete_requested', '{}'::jsonb from deployment
      union all
      select tenant_id, deployment_id, id, 'revision.status',
             '{"from": null, "to": "INTERRUPTED", "because": "the deployment was deleted"}'::jsonb from interrupted
    ), audit as (${auditedDeployment("deployment", deleteNote(options))}
    ), ${enqueued("deployment")}
    select deployment_id from deployment`);
  if (rows.length === 0) return false;
  db.reached("delete requested");
  db.changes.wake();
  return true;
}

/**
 * Moves a deployment to another status, only if it still has the status that the caller saw.
 * @param move.message shown with the event; absent: none.
 * @param move.defaultEngine recorded with the move; absent: what was recorded stays.
 * @param move.byPass the move is made by a pass that holds the deployment and reads it again before it ends, so it is not
 * enqueued.
 * @returns false when another worker moved it first.
 * @throws RangeError when the move is not allowed, which is a bug of the caller.
 */
export async function moveDeployment(db: Db | Trx, id: string, move: Omit<Move, "id">): Promise<boolean> {
  if (!canMoveDeployment(move.from, move.to)) throw new RangeError(`deployment cannot move ${move.from} -> ${move.to}`);
  const isMoved = await joinedMoves(db, { id, ...move });
  if (isMoved && "changes" in db) db.changes.wakeWatchers();
  return isMoved;
}

type Move = {
  id: string;
  from: DeploymentStatus;
  to: DeploymentStatus;
  message?: string | undefined;
  byPass?: boolean;
  defaultEngine?: "postgres";
};

const joinedMoves = batched(async (db, moves: Move[]): Promise<boolean[]> => {
  const wanted = moves.map(({ byPass = false, message, defaultEngine, ...move }, n) => {
    return { n, ...move, message: message && sanitizeText(message), by_pass: byPass, default_engine: defaultEngine };
  });
  const { rows } = await db.query<{ n: number }>(sql`
    with wanted as (
      select * from jsonb_to_recordset(${JSON.stringify(wanted)}::jsonb)
        as w (n integer, id uuid, "from" text, "to" text, message text, by_pass boolean,
                default_engine text)
    ), moved as (
      update deployments d set status = w."to", status_since = now(), updated_at = now(),
             default_engine = coalesce(w.default_engine, d.default_engine)
        from wanted w
       where d.id = any(${moves.map(({ id }) => id)}::uuid[]) and d.id = w.id and d.status = w."from"
      returning w.n, d.id as deployment_id, d.tenant_id, w."from", w."to", w.message, w.by_pass
    ), event as (
      insert into events (tenant_id, deployment_id, kind, data)
      select tenant_id, deployment_id, 'deployment.status',
             jsonb_strip_nulls(jsonb_build_object('from', "from", 'to', "to", 'message', message))
        from moved order by deployment_id
    ), ${enqueued("moved", { unless: "by_pass" })}
    select n from moved`);
  const moved = new Set(rows.map(({ n }) => n));
  return moves.map((_, n) => moved.has(n));
});

/** Finishes a delete: removes the row and all rows that depend on it. Only from AWAITING_FINAL_DELETE. */
export async function deleteDeploymentRow(db: Db, id: string): Promise<boolean> {
  const { rows } = await db.query(sql`
    with gone as (
      delete from deployments where id = ${id} and status = 'AWAITING_FINAL_DELETE'
      returning id as deployment_id, tenant_id, name
    ), event as (
      insert into events (tenant_id, deployment_id, kind, data)
      select tenant_id, deployment_id, 'deployment.deleted', jsonb_build_object('name', name) from gone
    ), assignment as (delete from assignments a using gone g where a.deployment_id = g.deployment_id
    ), observation as (delete from observations o using gone g where o.deployment_id = g.deployment_id
    ), queued as (delete from reconcile_queue q using gone g where q.deployment_id = g.deployment_id)
    select deployment_id from gone`);
  if (rows.length === 0) return false;
  db.reached("deployment row deleted");
  db.changes.wakeWatchers();
  return true;
}

const json = (value: unknown) => (value === null || value === undefined ? null : JSON.stringify(value));
const encoded = (value: unknown) => (typeof value === "object" ? json(value) : value);

const deleteNote = ({ actor, force }: { actor: string; force: boolean }): AuditNote => ({
  actor,
  action: "deployment.delete",
  details: { force },
});

/** Returns the workspaces of those deployments that are on this listener. */
export async function findWorkspacesOf(
  db: Db,
  listenerId: string,
  deploymentIds: string[],
): Promise<Map<string, string>> {
  const { rows } = await db.query<{ id: string; tenant_id: string }>(sql`
    select id, tenant_id from deployments where id = any(${deploymentIds}::uuid[]) and listener_id = ${listenerId}`);
  return new Map(rows.map((row) => [row.id, row.tenant_id]));
}
