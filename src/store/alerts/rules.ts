import type { AlertKind, DeploymentAlertKind } from "../../contract/alerts/alert.ts";
import { errors } from "../../contract/error.ts";
import type { ChangedRule, DeploymentRule, RuleChanges } from "../../domain/alert-rules.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, selectList } from "../engine/table.ts";
import { audited } from "../tenants/audit.ts";
import type { Owner } from "./alerts.ts";
import { alertRulesTable, deploymentAlertRulesTable } from "./tables.ts";

const ruleColumns = selectList(pick(alertRulesTable, "kind", "enabled", "threshold"), "r");
const deploymentRuleColumns = selectList(pick(deploymentAlertRulesTable, "kind", "enabled", "threshold"), "r");

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

/**
 * Returns the rules that differ for a deployment.
 * @throws ApiError 404.
 */
export async function listDeploymentAlertRules(
  db: Db,
  tenantId: string,
  deploymentId: string,
): Promise<Omit<DeploymentRule, "deploymentId">[]> {
  const { rows } = await db.query<{ [Name in "kind" | "enabled" | "threshold"]: DeploymentRule[Name] | null }>(sql`
    select ${deploymentRuleColumns} from deployments d left join deployment_alert_rules r on r.deployment_id = d.id
     where d.id = ${deploymentId} and d.tenant_id = ${tenantId}`);
  if (rows.length === 0) throw errors.deploymentNotFound(deploymentId);
  return rows.flatMap(({ kind, ...values }) => (kind === null ? [] : [{ kind, ...values }]));
}

/**
 * Changes a rule for one deployment: null follows the workspace again, undefined keeps the value. Writes nothing if the rule has
 * these values already.
 * @throws ApiError 404.
 */
export async function changeDeploymentAlertRule(
  db: Db,
  owner: Owner,
  deploymentId: string,
  change: { kind: DeploymentAlertKind; enabled?: boolean | null; threshold?: number | null },
): Promise<void> {
  const { kind, enabled, threshold } = change;
  await db.transaction(async (trx) => {
    const { rows: found } = await trx.query<{ name: string }>(sql`
      select name from deployments where id = ${deploymentId} and tenant_id = ${owner.tenantId} for update`);
    const [deployment] = found;
    if (deployment === undefined) throw errors.deploymentNotFound(deploymentId);
    const { rows } = await trx.query(sql`
      insert into deployment_alert_rules as r (deployment_id, kind, enabled, threshold)
      select ${deploymentId}, ${kind}, ${enabled ?? null}::boolean, ${threshold ?? null}::float8
       where ${enabled ?? null}::boolean is not null or ${threshold ?? null}::float8 is not null
          or exists (select from deployment_alert_rules o where o.deployment_id = ${deploymentId} and o.kind = ${kind})
      on conflict (deployment_id, kind) do update set
        enabled = case when ${enabled === undefined} then r.enabled else excluded.enabled end,
        threshold = case when ${threshold === undefined} then r.threshold else excluded.threshold end,
        updated_at = now()
       where (r.enabled, r.threshold) is distinct from (
               case when ${enabled === undefined} then r.enabled else excluded.enabled end,
               case when ${threshold === undefined} then r.threshold else excluded.threshold end)
      returning kind`);
    if (rows.length === 0) return;
    const { organizationId, tenantId: workspaceId, actor } = owner;
    const subject = { organizationId, workspaceId, deploymentId, id: deploymentId, name: deployment.name };
    const details = { kind, ...(enabled !== undefined && { enabled }), ...(threshold !== undefined && { threshold }) };
    await trx.query(audited(subject, { action: "deployment.alert_rule", actor, details }));
  });
}

/** Returns every rule that any workspace or deployment has changed. */
export async function readRuleChanges(db: Db): Promise<RuleChanges> {
  const { rows: workspaces } = await db.query<ChangedRule>(sql`
    select r.tenant_id as "tenantId", ${ruleColumns} from alert_rules r`);
  const { rows: deployments } = await db.query<DeploymentRule>(sql`
    select r.deployment_id as "deploymentId", ${deploymentRuleColumns} from deployment_alert_rules r`);
  return { workspaces, deployments };
}
