import type { AlertKind, AlertState } from "../../contract/alerts/alert.ts";
import { errors } from "../../contract/error.ts";
import {
  type AlertFacts,
  alertWindowMinutes,
  type ChangedRule,
  type FiringAlert,
  queueMinutesMin,
  requestsMin,
} from "../../domain/alert-rules.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import { audited } from "../tenants/audit.ts";
import { alertRulesTable, alertsTable } from "./tables.ts";

const alertFields = pick(alertsTable, "id", "deployment_id", "kind", "state", "message", "since", "resolved_at");

export interface AlertRow extends RowOf<typeof alertFields> {
  deployment_name: string;
  muted_until: Date | null;
}

const alertColumns = selectList(alertFields, "a");
const ruleColumns = selectList(pick(alertRulesTable, "kind", "enabled", "threshold"), "r");

/** The workspace and actor of a request: for access to rows and for the audit log. */
interface Owner {
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
           case when m.until > now() then m.until end as muted_until
      from alerts a join deployments d on d.id = a.deployment_id left join alert_mutes m on m.deployment_id = d.id
     where a.tenant_id = ${tenantId} and (${page.state}::text is null or a.state = ${page.state})
     order by a.since desc, a.id limit ${page.limit} offset ${page.offset}`);
  return rows;
}

export type AlertRuleRow = Pick<ChangedRule, "kind" | "enabled" | "threshold">;

/** Returns the rules that a workspace has changed. */
export async function listAlertRules(db: Db, tenantId: string): Promise<AlertRuleRow[]> {
  const { rows } = await db.query<AlertRuleRow>(sql`
    select ${ruleColumns} from alert_rules r where r.tenant_id = ${tenantId}`);
  return rows;
}

/** Changes a rule. A null keeps its value. Writes nothing if the rule has these values already. */
export async function changeAlertRule(
  db: Db,
  owner: Owner,
  change: { kind: AlertKind; enabled: boolean | null; threshold: number | null; isOnByDefault: boolean },
): Promise<void> {
  const { kind, enabled, threshold, isOnByDefault } = change;
  if (enabled === null && threshold === null) return;
  const details = { kind, ...(enabled !== null && { enabled }), ...(threshold !== null && { threshold }) };
  const subject = { organizationId: owner.organizationId, workspaceId: owner.tenantId, id: owner.tenantId, name: kind };
  await db.transaction(async (trx) => {
    const { rows } = await trx.query(sql`
      insert into alert_rules as r (tenant_id, kind, enabled, threshold)
      values (${owner.tenantId}, ${kind}, coalesce(${enabled}::boolean, ${isOnByDefault}), ${threshold}::float8)
      on conflict (tenant_id, kind) do update set
        enabled = coalesce(${enabled}::boolean, r.enabled), threshold = coalesce(${threshold}::float8, r.threshold),
        updated_at = now()
       where (r.enabled, r.threshold) is distinct from
             (coalesce(${enabled}::boolean, r.enabled), coalesce(${threshold}::float8, r.threshold))
      returning kind`);
    if (rows.length > 0) {
      await trx.query(audited(subject, { action: "alert_rule.patch", actor: owner.actor, details }));
    }
  });
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

/** Returns every rule that any workspace has changed. */
export async function readChangedRules(db: Db): Promise<ChangedRule[]> {
  const { rows } = await db.query<ChangedRule>(sql`
    select r.tenant_id as "tenantId", ${ruleColumns} from alert_rules r`);
  return rows;
}

/**
 * Returns the deployments for which a rule may hold: not well by their health, with failed requests, restarts, or waiting runs.
 * @param latencyTenants workspaces whose deployments are returned with latencies, because a rule of theirs needs them. The
 * sums are too expensive to compute for all deployments in each round.
 */
export async function readAlertFacts(db: Db, latencyTenants: readonly string[]): Promise<AlertFacts[]> {
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
           case when m.requests >= ${requestsMin} and d.tenant_id = any(${latencyTenants}::uuid[]) then array(
             select sum(n)::integer from metric_minutes l, unnest(l.latency_counts) with ordinality as bucket (n, place)
              where l.deployment_id = d.id and l.at > now() - ${alertWindowMinutes} * interval '1 minute'
              group by place order by place) else '{}'::integer[] end as "latencyCounts"
      from deployments d left join minute m on m.deployment_id = d.id
     where m.errors > 0 or m.restarts > 0 or m.queued > 0 or (m.requests > 0 and d.tenant_id = any(${latencyTenants}::uuid[]))
        or d.health in ('crash_looping', 'failed', 'degraded')`);
  return rows;
}

/**
 * Records which rules hold now. A rule that begins to hold for a deployment is an event, `alert.firing`. While the deployment
 * is muted, the event waits until the mute ends, and is dropped if the rule ceases to hold before. The end of an alert is an
 * event if its beginning was one, also while muted: receivers have an open incident to close. The restarts of a crash loop
 * that has an alert raise no second one, also shortly after its end. Each alert moves once from
 * firing to resolved and has each event once, whichever of several servers records it.
 * @returns how many alerts began, ended, or waited for the end of a mute.
 */
export async function recordAlerts(db: Db, firing: readonly FiringAlert[]): Promise<number> {
  const { rows } = await db.query<{ id: string }>(sql`
    with wanted as (
      select w.*, exists (select from alert_mutes u where u.deployment_id = d.id and u.until > now()) as is_muted
        from jsonb_to_recordset(${JSON.stringify(firing)}::jsonb)
          as w ("tenantId" uuid, "deploymentId" uuid, kind text, message text)
        join deployments d on d.id = w."deploymentId"
       where w.kind <> 'restarts' or not exists (
               select from alerts c where c.deployment_id = d.id and c.kind = 'crash_looping'
                  and (c.state = 'firing' or c.resolved_at > now() - ${alertWindowMinutes} * interval '1 minute'))
    ), begun as (
      insert into alerts (id, tenant_id, deployment_id, kind, state, message, notified)
      select gen_random_uuid(), "tenantId", "deploymentId", kind, 'firing', message, not is_muted from wanted
      on conflict (deployment_id, kind) where state = 'firing' do nothing
      returning id, tenant_id, deployment_id, kind, state, message, notified
    ), unmuted as (
      update alerts a set notified = true, message = w.message from wanted w
       where a.deployment_id = w."deploymentId" and a.kind = w.kind and a.state = 'firing'
         and not a.notified and not w.is_muted
      returning a.id, a.tenant_id, a.deployment_id, a.kind, a.state, a.message, a.notified
    ), ended as (
      update alerts a set state = 'resolved', resolved_at = now()
       where a.state = 'firing'
         and not exists (select from wanted w where w."deploymentId" = a.deployment_id and w.kind = a.kind)
      returning a.id, a.tenant_id, a.deployment_id, a.kind, a.state, a.message, a.notified
    ), moved as (
      select * from begun union all select * from unmuted union all select * from ended
    ), event as (
      insert into events (tenant_id, deployment_id, kind, data)
      select m.tenant_id, m.deployment_id, case m.state when 'firing' then 'alert.firing' else 'alert.resolved' end,
             jsonb_build_object('alert_id', m.id, 'rule', m.kind, 'state', m.state, 'message', m.message)
        from moved m where m.notified order by m.deployment_id, m.kind
    )
    select id from moved`);
  if (rows.length > 0) db.changes.wakeWatchers();
  return rows.length;
}
