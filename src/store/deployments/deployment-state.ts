import type { DeploymentStatus } from "../../contract/deployments/deployment.ts";
import type { DeploymentReport } from "../../contract/listeners/assignment.ts";
import type { RevisionStatus } from "../../contract/revisions/revision.ts";
import type { CommitState } from "../../domain/commit-report.ts";
import type { Health, LatestRevision } from "../../domain/deployment-health.ts";
import { buildTimeoutMs, listenerAwaitedMs } from "../../domain/limits.ts";
import { batched } from "../engine/batched.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { isUnsettled } from "../revisions/revisions.ts";
import { agentId } from "./agent-columns.ts";

/** Desired and observed state of one deployment, read by one statement and so at one moment; the input of a reconcile pass. */
export interface DeploymentStateRow {
  id: string;
  tenant_id: string;
  status: DeploymentStatus;
  active_revision_id: string | null;
  force_delete: boolean;
  health: Health;
  latest: LatestRevision | null;
  listener: "acting" | "awaited" | "gone";
  unsettled: {
    id: string;
    status: RevisionStatus;
    /** When it got this status. */
    since: string;
    message: string | null;
    deadline_at: string | null;
    has_artifact: boolean;
    traceparent: string | null;
  }[];
  builds: {
    revision_id: string;
    status: "running" | "succeeded" | "failed" | "cancelled";
    lease_until: string;
    attempts: number;
    failure: string | null;
    /** Why it failed, as a word of `src/builds/failure.ts`. null also for builds of earlier versions. */
    reason: string | null;
  }[];
  assignment: {
    generation: number;
    op: "apply" | "delete";
    target_revision_id: string | null;
    serving_revision_id: string | null;
    /** Replicas that must be ready; null: there is no such revision. */
    target_replicas_min: number | null;
    serving_replicas_min: number | null;
    /** Whether its listener still serves agents at the address that the assignment was made with. */
    is_current: boolean;
  } | null;
  observation: { generation: number; report: DeploymentReport } | null;
  tracing: { status: "wanted" | "ready"; retry_at: string | null } | null;
  /** Whether the tracing project is deleted with the deployment; that of an agent belongs to the agent. */
  drops_tracing: boolean;
  /** null: the deployment has no repository. */
  host: {
    is_following: boolean;
    look_at: string | null;
    reports: { status: RevisionStatus; reported: CommitState | null; retry_at: string | null }[];
    comment: {
      status: RevisionStatus | null;
      head_sha: string;
      commented: string | null;
      retry_at: string | null;
    } | null;
  } | null;
}

/**
 * The deadline of a revision. One before the start of the step was written by a server that had not noticed yet, for a
 * second at most, that the database's clock was set. It is replaced by the time limit of the longest step, a build.
 */
const deadline = sql`case when r.deadline_at < r.status_since
  then r.status_since + ${sql.literal(buildTimeoutMs)} * interval '1 millisecond' else r.deadline_at end`;

/** Replicas of the target, or of the serving revision, that must be ready. A server with exclusive state has one at most. */
const replicasMin = (which: "target" | "serving") =>
  sql.raw(`least((a.spec #> '{${which},min_replicas}')::integer,
                  case a.spec #>> '{${which},artifact,rollout}' when 'handover' then 1 end)`);

/** Returns the state of a deployment; undefined when it no longer exists. */
export const readDeploymentState = batched(async (db, ids: string[]): Promise<(DeploymentStateRow | undefined)[]> => {
  const { rows } = await db.query<DeploymentStateRow>(sql`
    select d.id, d.tenant_id, d.status, d.active_revision_id, d.force_delete,
      json_build_object('word', d.health, 'reason', d.health_reason, 'message', d.health_message, 'failure', d.health_failure) as health,
      (select json_build_object('id', r.id, 'status', r.status, 'message', left(r.status_message, 4000), 'failure', r.failure)
         from revisions r where r.id = d.latest_revision_id) as latest,
      coalesce((
        select case when l.lease_until > now() and not l.drain then 'acting'
                    when coalesce(l.last_seen_at, l.created_at) > now() - ${sql.literal(listenerAwaitedMs)} * interval '1 millisecond'
                      then 'awaited' end
          from listeners l where l.id = d.listener_id), 'gone') as listener,
      coalesce((
        select json_agg(json_build_object('id', r.id, 'status', r.status, 'since', r.status_since,
                 'message', r.status_message, 'deadline_at', ${deadline},
                 'has_artifact', r.artifact_id is not null, 'traceparent', r.traceparent) order by r.seq)
          from revisions r
         where r.deployment_id = d.id
           and ${isUnsettled("r")}
      ), '[]'::json) as unsettled,
      coalesce((
        select json_agg(json_build_object('revision_id', b.revision_id, 'status', b.status, 'lease_until', b.lease_until,
                 'attempts', b.attempts,
                 'failure', b.result ->> 'failure', 'reason', b.result ->> 'reason'))
          from revisions r join builds b on b.revision_id = r.id
         where r.deployment_id = d.id and (b.status = 'running' or r.status = 'BUILDING')
      ), '[]'::json) as builds,
      (select json_build_object('generation', a.generation, 'op', a.op,
                'target_revision_id', a.spec -> 'target' ->> 'revision_id',
                'serving_revision_id', a.spec -> 'serving' ->> 'revision_id',
                'target_replicas_min', ${replicasMin("target")}, 'serving_replicas_min', ${replicasMin("serving")},
                'is_current', a.spec ->> 'agents_url' is not distinct from l.facts ->> 'agents_url')
         from assignments a join listeners l on l.id = a.listener_id where a.deployment_id = d.id) as assignment,
      (select json_build_object('generation', o.generation, 'report', o.report)
         from observations o where o.deployment_id = d.id) as observation,
      (select json_build_object('status', t.status, 'retry_at', t.retry_at)
         from tracing_projects t where t.deployment_id = d.id) as tracing,
      d.delete_tracing_project and ${agentId} is null as drops_tracing,
      case when d.source = 'github' then json_build_object(
        'is_following', not d.is_preview and d.tracked_ref not like 'refs/tags/%' and (
           coalesce((d.source_config ->> 'build_on_push')::boolean, false)
           or exists (select 1 from git_settings g where g.deployment_id = d.id and g.preview @> '{"enabled":true}')
           or exists (select 1 from previews p where p.parent_id = d.id)),
        'look_at', (select w.look_at from branch_watches w where w.deployment_id = d.id),
        'reports', coalesce((select json_agg(json_build_object('status', r.status, 'reported', c.reported, 'retry_at', c.retry_at))
           from commit_reports c join revisions r on r.id = c.revision_id
          where c.deployment_id = d.id and not c.is_settled), '[]'::json),
        'comment', (select json_build_object('status', r.status, 'head_sha', p.head_sha, 'commented', p.commented,
                             'retry_at', p.retry_at)
           from previews p left join revisions r on r.id = d.latest_revision_id where p.deployment_id = d.id)) end as host
      from deployments d where d.id = any(${ids}::uuid[])`);
  const found = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => found.get(id));
});

/**
 * Finds deployments with unfinished work that no pass will process: neither enqueued nor leased. A row here is a lost
 * change, and `resync_corrections_total` counts it.
 */
export async function findUnqueuedDeployments(db: Db, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(sql`
    with unsettled as (
      select r.deployment_id as id from revisions r where ${isUnsettled("r")}
      union
      select id from deployments where status not in ('READY', 'UNUSED') and status <> 'UNKNOWN'
      union
      select deployment_id from tracing_projects where status = 'wanted' and deployment_id is not null
    )
    select u.id from unsettled u left join reconcile_queue q on q.deployment_id = u.id
     where q.deployment_id is null or (q.run_at is null and q.lease_owner is null) limit ${limit}`);
  return rows.map((row) => row.id);
}
