import { sanitizeText } from "../../domain/sanitize-text.ts";
import { tracingProjectId } from "../../domain/tracing.ts";
import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";

/** The tracing project of a deployment. */
export interface TracingProjectRow {
  id: string;
  /** Name of the project in the tracing backend. */
  project: string;
  status: "wanted" | "ready";
  external_id: string | null;
  attempts: number;
}

export interface NewTracingProject {
  /** The name in the backend if another workspace's project has the name `name` there. */
  otherName: string;
  /** Whether a backend is configured in which it is created. */
  isWanted: boolean;
}

/**
 * CTE body that writes the projects of the new deployments of an earlier CTE (`source`, with `deployment_id`, `tenant_id`
 * and `tracing` from `tracingColumns`). A project that an earlier deployment of the same name left is reused.
 */
export function insertedTracingProject(source: string): Sql {
  return sql`
      insert into tracing_projects (id, tenant_id, name, project, deployment_id, status)
      select r.id, s.tenant_id, r.name,
             case when exists (select 1 from tracing_projects p where p.project = r.name and p.tenant_id <> s.tenant_id)
                  then r.project else r.name end, s.deployment_id, r.status
        from ${sql.identifier(source)} s, jsonb_populate_record(null::tracing_projects, s.tracing) r
      on conflict (tenant_id, name) do update
         set deployment_id = excluded.deployment_id, status = excluded.status, external_id = null, attempts = 0,
             retry_at = null, last_error = null, updated_at = now()`;
}

export function tracingColumns(
  made: NewTracingProject,
  { tenant_id: tenantId, name }: { tenant_id: string; name: string },
) {
  const id = tracingProjectId(tenantId, name);
  return { id, name, project: made.otherName, status: made.isWanted ? "wanted" : "ready" };
}

/**
 * Predicts what a new deployment of that name would find: whether the name is taken, whether an earlier deployment left
 * its project, and the name of the project in the backend (null: a name that is still unused).
 */
export async function predictTracingProject(
  db: Db,
  tenantId: string,
  name: string,
): Promise<{ isNameTaken: boolean; isLeft: boolean; project: string | null }> {
  const { rows } = await db.query<{ taken: boolean; own: string | null; foreign: boolean }>(sql`
    select exists (select 1 from deployments where tenant_id = ${tenantId} and name = ${name}) as taken,
           (select project from tracing_projects where tenant_id = ${tenantId} and name = ${name}) as own,
           exists (select 1 from tracing_projects where project = ${name} and tenant_id <> ${tenantId}) as "foreign"`);
  const found = rows[0] as { taken: boolean; own: string | null; foreign: boolean };
  return {
    isNameTaken: found.taken,
    isLeft: found.own !== null,
    project: found.own ?? (found.foreign ? null : name),
  };
}

export async function findTracingProject(db: Db | Trx, deploymentId: string): Promise<TracingProjectRow | undefined> {
  const { rows } = await db.query<TracingProjectRow>(sql`
    select id, project, status, external_id, attempts from tracing_projects
     where deployment_id = ${deploymentId}`);
  return rows[0];
}

/** Marks the project as created. @param externalId its id in the backend; null: the same as ours. */
export async function settleTracingProject(db: Db, deploymentId: string, externalId: string | null): Promise<void> {
  await db.query(sql`
    with settled as (
      update tracing_projects
         set status = 'ready', external_id = nullif(${externalId}::uuid, id), attempts = 0, retry_at = null,
             last_error = null, updated_at = now()
       where deployment_id = ${deploymentId} and status = 'wanted'
      returning tenant_id, deployment_id, project, coalesce(external_id, id) as shown_id
    ), shown as (
      update deployments d set tracer_session_id = s.shown_id from settled s
       where d.id = s.deployment_id and d.tracer_session_id is distinct from s.shown_id
    )
    insert into events (tenant_id, deployment_id, kind, data)
    select tenant_id, deployment_id, 'tracing.project_ready', jsonb_build_object('project', project, 'id', shown_id)
      from settled`);
}

/** Records that creating it failed; the next attempt is at `retryAt`. An event reports each distinct reason once. */
export async function recordTracingFailure(
  db: Db,
  deploymentId: string,
  failure: { message: string; retryAt: Date },
): Promise<void> {
  // The text quotes the response of the backend, which may be cut inside a character.
  const message = sanitizeText(failure.message);
  await db.query(sql`
    with before as (
      select tenant_id, deployment_id, last_error from tracing_projects where deployment_id = ${deploymentId}
    ), failed as (
      update tracing_projects
         set attempts = attempts + 1, retry_at = ${failure.retryAt}, last_error = ${message}, updated_at = now()
       where deployment_id = ${deploymentId} and status = 'wanted'
      returning deployment_id
    )
    insert into events (tenant_id, deployment_id, kind, data)
    select b.tenant_id, b.deployment_id, 'tracing.failed', ${JSON.stringify({ message })}
      from before b join failed f on f.deployment_id = b.deployment_id
     where b.last_error is distinct from ${message}`);
}

/** Removes the row of a project that was deleted with its deployment. */
export async function dropTracingProject(db: Db, deploymentId: string): Promise<void> {
  await db.query(sql`delete from tracing_projects where deployment_id = ${deploymentId}`);
}

/** Keeps the project, as if no delete had been requested, because the backend did not delete it. An event reports it. */
export async function detachTracingProject(db: Db, deploymentId: string, because: string): Promise<void> {
  const message = sanitizeText(because);
  await db.query(sql`
    with left_behind as (
      update tracing_projects t set deployment_id = null, last_error = ${message}, updated_at = now()
       where t.deployment_id = ${deploymentId} returning t.tenant_id
    )
    insert into events (tenant_id, deployment_id, kind, data)
    select tenant_id, ${deploymentId}::uuid, 'tracing.failed', ${JSON.stringify({ message })} from left_behind`);
}
