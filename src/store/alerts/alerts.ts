import type { AlertState } from "../../contract/alerts/alert.ts";
import { errors } from "../../contract/error.ts";
import {
  type AlertFacts,
  alertWindowMinutes,
  type FiringAlert,
  queueMinutesMin,
  requestsMin,
} from "../../domain/alert-rules.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import { audited } from "../tenants/audit.ts";
import { alertsTable } from "./tables.ts";

const alertFields = pick(
  alertsTable,
  "id",
  "deployment_id",
  "subject",
  "kind",
  "state",
  "message",
  "since",
  "resolved_at",
);

export interface AlertRow extends RowOf<typeof alertFields> {
  /** null: the alert concerns no deployment. */
  deployment_name: string | null;
  muted_until: Date | null;
}

const alertColumns = selectList(alertFields, "a");

/** The workspace and actor of a request: for access to rows and for the audit log. */
export interface Owner {
  organizationId: string;
  tenantId: string;
  actor: string;
}

/** Returns alerts, newest first. */
export async function listAlerts(
  db: Db,
  tenantId: string,
  page: { state: AlertState | null; limit: number; offset: number },
): Promise<AlertRow[]> {
  const { rows } = await db.query<AlertRow>(sql`
    select ${alertColumns}, d.name as deployment_name,
           case when m.until > now() then m.until when s.until > now() then s.until end as muted_until
      from alerts a left join deployments d on d.id = a.deployment_id left join alert_mutes m on m.deployment_id = d.id
      left join subject_mutes s on s.tenant_id = a.tenant_id and s.subject_id = a.subject_id
     where a.tenant_id = ${tenantId} and (${page.state}::text is null or a.state = ${page.state})
     order by a.since desc, a.id limit ${page.limit} offset ${page.offset}`);
  return rows;
}

/** Holds back notifications of alerts of a deployment until `until`; null: sends them again. @throws ApiError 404. */
export async function muteAlerts(db: Db, owner: Owner, deploymentId: string, until: string | null): Promise<void> {
  await db.transaction(async (trx) => {
    const { rows } = await trx.query<{ name: string }>(sql`
      select name from deployments where id = ${deploymentId} and tenant_id = ${owner.tenantId} for update`);
    const [deployment] = rows;
    if (deployment === undefined) throw errors.deploymentNotFound(deploymentId);
    await trx.query(
      until === null
        ? sql`delete from alert_mutes where deployment_id = ${deploymentId}`
        : sql`insert into alert_mutes (deployment_id, until) values (${deploymentId}, ${until})
              on conflict (deployment_id) do update set until = excluded.until`,
    );
    const { organizationId, tenantId: workspaceId, actor } = owner;
    const subject = { organizationId, workspaceId, deploymentId, id: deploymentId, name: deployment.name };
    await trx.query(audited(subject, { action: "deployment.mute_alerts", actor, details: { until } }));
  });
}

/**
 * Mutes the deployment or other subject of an alert until `until`; null: ends the mute.
 * @throws ApiError 404.
 */
export async function muteAlert(db: Db, owner: Owner, alertId: string, until: string | null): Promise<void> {
  const { organizationId, tenantId, actor } = owner;
  const { rows } = await db.query<Pick<AlertRow, "deployment_id" | "subject" | "kind"> & { subject_id: string }>(sql`
    select deployment_id, subject_id, subject, kind from alerts where id = ${alertId} and tenant_id = ${tenantId}`);
  const [alert] = rows;
  if (alert === undefined) throw errors.alertNotFound(alertId);
  const { deployment_id: deploymentId, subject_id: subjectId, subject: name, kind } = alert;
  if (deploymentId !== null) return muteAlerts(db, owner, deploymentId, until);
  await db.transaction(async (trx) => {
    await trx.query(
      until === null
        ? sql`delete from subject_mutes where tenant_id = ${tenantId} and subject_id = ${subjectId}`
        : sql`insert into subject_mutes (tenant_id, subject_id, until) values (${tenantId}, ${subjectId}, ${until})
              on conflict (tenant_id, subject_id) do update set until = excluded.until`,
    );
    await trx.query(sql`delete from subject_mutes where tenant_id = ${tenantId} and until < now()`);
    const subject = { organizationId, workspaceId: tenantId, id: alertId, name };
    await trx.query(audited(subject, { action: "alert.mute", actor, details: { kind, until } }));
  });
}

/**
 * Returns the deployments for which a rule may hold: not well by their health, with failed requests, restarts, or waiting runs.
 * @param withLatency workspaces and deployments that are returned with latencies, because a rule of theirs needs them. The
 * sums are too expensive to compute for all deployments in each round.
 */
export async function readAlertFacts(
  db: Db,
  withLatency: { tenantIds: readonly string[]; deploymentIds: readonly string[] },
): Promise<AlertFacts[]> {
  const needsLatency = sql`(d.tenant_id = any(${withLatency.tenantIds}::uuid[]) or d.id = any(${withLatency.deploymentIds}::uuid[]))`;
  const { rows } = await db.query<AlertFacts>(sql`
    with minute as (
      select deployment_id, sum(requests)::integer as requests, sum(errors)::integer as errors,
             sum(restarts)::integer as restarts,
             case when count(runs_waiting) >= ${queueMinutesMin} then min(runs_waiting) end as queued
        from metric_minutes where at > now() - ${alertWindowMinutes} * interval '1 minute'
       group by deployment_id having sum(requests) >= ${requestsMin} or sum(restarts) > 0 or min(runs_waiting) > 0
    )
    select d.tenant_id as "tenantId", d.id as "deploymentId", d.name as "deploymentName", d.health, d.health_message as "healthMessage",
           (extract(epoch from now() - d.health_since) / 60)::float8 as "healthMinutes",
           coalesce(m.requests, 0) as requests, coalesce(m.errors, 0) as errors, coalesce(m.restarts, 0) as restarts,
           coalesce(m.queued, 0) as "queuedRuns",
           case when m.requests >= ${requestsMin} and ${needsLatency} then array(
             select sum(n)::integer from metric_minutes l, unnest(l.latency_counts) with ordinality as bucket (n, place)
              where l.deployment_id = d.id and l.at > now() - ${alertWindowMinutes} * interval '1 minute'
              group by place order by place) else '{}'::integer[] end as "latencyCounts"
      from deployments d left join minute m on m.deployment_id = d.id
     where m.errors > 0 or m.restarts > 0 or m.queued > 0 or (m.requests > 0 and ${needsLatency})
        or d.health in ('crash_looping', 'failed', 'degraded')`);
  return rows;
}

const movedColumns = selectList(
  pick(alertsTable, "id", "tenant_id", "deployment_id", "subject", "kind", "state", "message", "notified"),
  "alerts",
);

/** What an alert concerns, as one text. */
const target = sql.raw("coalesce(alerts.deployment_id::text, alerts.tenant_id::text || alerts.subject_id)");

/**
 * Records which rules hold now. A rule that begins to hold is an event, `alert.firing`. While what
 * it concerns is muted, the event waits until the mute ends, and is dropped if the rule ceases to hold before. The end of an alert is an
 * event if its beginning was one, also while muted: receivers have an open incident to close. The restarts of a crash loop
 * that has an alert raise no second one, also shortly after its end. Each alert moves once from
 * firing to resolved and has each event once, whichever of several servers records it.
 * @returns how many alerts began, ended, or waited for the end of a mute.
 */
export async function recordAlerts(db: Db, firing: readonly FiringAlert[]): Promise<number> {
  const { rows } = await db.query<{ id: string }>(sql`
    with wanted as (
      select w.*, coalesce(d.id::text, w."tenantId"::text || w."subjectId") as target,
             exists (select from alert_mutes u where u.deployment_id = d.id and u.until > now())
               or exists (select from subject_mutes u
                           where u.tenant_id = w."tenantId" and u.subject_id = w."subjectId" and u.until > now()) as is_muted
        from jsonb_to_recordset(${JSON.stringify(firing)}::jsonb)
          as w ("tenantId" uuid, "deploymentId" uuid, "subjectId" text, subject text, kind text, message text)
        left join deployments d on d.id = w."deploymentId"
       where (d.id is not null or w."deploymentId" is null)
         and (w.kind <> 'restarts' or not exists (
               select from alerts c where c.deployment_id = d.id and c.kind = 'crash_looping'
                  and (c.state = 'firing' or c.resolved_at > now() - ${alertWindowMinutes} * interval '1 minute')))
    ), begun as (
      insert into alerts (id, tenant_id, deployment_id, subject_id, subject, kind, state, message, notified)
      select gen_random_uuid(), "tenantId", "deploymentId", "subjectId", subject, kind, 'firing', message, not is_muted
        from wanted
      on conflict do nothing
      returning ${movedColumns}
    ), unmuted as (
      update alerts set notified = true, message = w.message from wanted w
       where ${target} = w.target and alerts.kind = w.kind and alerts.state = 'firing'
         and not alerts.notified and not w.is_muted
      returning ${movedColumns}
    ), ended as (
      update alerts set state = 'resolved', resolved_at = now()
       where alerts.state = 'firing'
         and not exists (select from wanted w where w.target = ${target} and w.kind = alerts.kind)
      returning ${movedColumns}
    ), moved as (
      select * from begun union all select * from unmuted union all select * from ended
    ), event as (
      insert into events (tenant_id, deployment_id, kind, data)
      select m.tenant_id, m.deployment_id, case m.state when 'firing' then 'alert.firing' else 'alert.resolved' end,
             jsonb_build_object('alert_id', m.id, 'rule', m.kind, 'state', m.state, 'message', m.message)
               || case when m.subject is null then '{}'::jsonb else jsonb_build_object('subject', m.subject) end
        from moved m where m.notified order by m.deployment_id, m.kind, m.subject
    )
    select id from moved`);
  if (rows.length > 0) db.changes.wakeWatchers();
  return rows.length;
}
