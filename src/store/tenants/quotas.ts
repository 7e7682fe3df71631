import type { SourceConfig } from "../../contract/deployments/deployment.ts";
import { errors } from "../../contract/error.ts";
import { changesBetween } from "../../domain/audit.ts";
import { replicasOf } from "../../domain/sizes.ts";
import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { audited } from "./audit.ts";
import type { Reach } from "./scope.ts";
import { findWorkspace } from "./tenants.ts";

/** Limits of a workspace; null: unlimited. */
export interface QuotaLimits {
  deployments: number | null;
  replicas: number | null;
  buildMinutes: number | null;
}

export interface QuotaUsage {
  deployments: number;
  replicas: number;
  buildMinutes: number;
  /** Calendar month (UTC) of the build minutes, as 2026-12. */
  month: string;
}

const unlimited: QuotaLimits = { deployments: null, replicas: null, buildMinutes: null };

/** Returns the limits. @param lock holds them until the transaction ends, so that a count stays valid until the change commits. */
export async function findQuotas(db: Db | Trx, tenantId: string, lock: "for update" | "" = ""): Promise<QuotaLimits> {
  const { rows } = await db.query<QuotaLimits>(sql`
    select deployments_max as deployments, replicas_max as replicas, build_minutes_max as "buildMinutes"
      from quotas where tenant_id = ${tenantId} ${sql.raw(lock)}`);
  return rows[0] ?? unlimited;
}

export async function readUsage(db: Db | Trx, tenantId: string): Promise<QuotaUsage> {
  const counted = await countDeployments(db, tenantId, null);
  return { ...counted, ...(await readBuildUsage(db, tenantId)) };
}

/** Condition: the workspace limits deployments or replicas. @param tenantId a column. */
export function hasQuotas(tenantId: string): Sql {
  return sql`exists (
        select 1 from quotas q
         where q.tenant_id = ${sql.identifier(tenantId)} and coalesce(q.deployments_max, q.replicas_max) is not null)`;
}

/**
 * Checks that the quotas allow one more deployment. Concurrent calls for a workspace run one after the other.
 * @throws ApiError 400 `quotaExceeded`
 */
export async function checkNewDeployment(trx: Trx, tenantId: string, replicas: number): Promise<void> {
  const limits = await findQuotas(trx, tenantId, "for update");
  const used = await countDeployments(trx, tenantId, null);
  if (limits.deployments !== null && used.deployments >= limits.deployments) {
    throw errors.quotaExceeded("deployments", limits.deployments, ` and ${used.deployments} exist. Delete one,`);
  }
  checkReplicas(limits, used.replicas, replicas);
}

/**
 * Checks that a deployment may grow to the replicas of `wanted`. A change that does not grow is always allowed, so that a
 * workspace above its quota can still be changed.
 * @throws ApiError 400 `quotaExceeded`
 */
export async function checkGrowth(
  trx: Trx,
  deployment: { id: string; tenant_id: string; source_config: SourceConfig },
  wanted: SourceConfig,
): Promise<void> {
  const replicas = replicasOf(wanted);
  if (replicas <= replicasOf(deployment.source_config)) return;
  const limits = await findQuotas(trx, deployment.tenant_id, "for update");
  if (limits.replicas === null) return;
  const others = await countDeployments(trx, deployment.tenant_id, deployment.id);
  checkReplicas(limits, others.replicas, replicas);
}

function checkReplicas(limits: QuotaLimits, others: number, wanted: number): void {
  if (limits.replicas === null || others + wanted <= limits.replicas) return;
  const because = `: other deployments may run ${others}, this one asks for ${wanted}. Choose a smaller max_scale or type, delete a deployment,`;
  throw errors.quotaExceeded("replicas", limits.replicas, because);
}

/** Counts deployments without those that are being deleted, whose slots are free at once. `except` is left out. */
async function countDeployments(
  db: Db | Trx,
  tenantId: string,
  except: string | null,
): Promise<{ deployments: number; replicas: number }> {
  const { rows } = await db.query<Pick<SourceConfig, "deployment_type" | "resource_spec"> & { n: number }>(sql`
    select source_config ->> 'deployment_type' as deployment_type,
           jsonb_build_object('min_scale', source_config #> '{resource_spec,min_scale}',
                              'max_scale', source_config #> '{resource_spec,max_scale}') as resource_spec, count(*) as n
      from deployments
     where tenant_id = ${tenantId} and status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
       and (${except}::uuid is null or id <> ${except})
     group by 1, 2`);
  return {
    deployments: rows.reduce((sum, { n }) => sum + n, 0),
    replicas: rows.reduce((sum, { n, ...config }) => sum + n * replicasOf(config), 0),
  };
}

/** Returns this month's build minutes, including builds that still run. */
async function readBuildUsage(db: Db | Trx, tenantId: string): Promise<Pick<QuotaUsage, "buildMinutes" | "month">> {
  const { rows } = await db.query<{ month: string; build_ms: number }>(sql`
    select ${thisMonth} as month,
           coalesce((select u.build_ms from build_usage u where u.tenant_id = ${tenantId} and u.month = ${thisMonth}), 0)
           + coalesce((select sum(${msBetween("b.started_at", "least(b.lease_until, now())")})
                         from builds b join revisions r on r.id = b.revision_id
                        where b.status = 'running' and r.tenant_id = ${tenantId}), 0)::bigint as build_ms`);
  const { month, build_ms: ms } = rows[0] as { month: string; build_ms: number };
  return { month, buildMinutes: ms / 60_000 };
}

/** Returns why no build may start in this workspace now; null: one may. Running builds may finish. */
export async function buildQuotaProblem(db: Db, tenantId: string): Promise<string | null> {
  const { buildMinutes: limit } = await findQuotas(db, tenantId);
  if (limit === null) return null;
  const { buildMinutes: used, month } = await readBuildUsage(db, tenantId);
  if (used < limit) return null;
  return (
    `The quota 'build_minutes' of this workspace is ${limit} a month, and ${Math.round(used)} are used in ${month} (UTC). ` +
    "Deploy again next month, redeploy a revision that was built before, or ask an administrator of the organization for a higher quota."
  );
}

/** CTE body that adds the duration of ended builds (`tenant_id`, `started_at`, `ended_at` of an earlier CTE) to this month. */
export function countedBuild(source: string): Sql {
  return sql`
      insert into build_usage (tenant_id, month, build_ms)
      select tenant_id, ${thisMonth}, sum(${msBetween("started_at", "ended_at")})::bigint from ${sql.identifier(source)}
       group by tenant_id
      on conflict (tenant_id, month) do update set build_ms = build_usage.build_ms + excluded.build_ms`;
}

const thisMonth = sql.raw("to_char(now() at time zone 'utc', 'YYYY-MM')");
const msBetween = (start: string, end: string) => sql.raw(`greatest(0, extract(epoch from ${end} - ${start}) * 1000)`);

/** Changes quotas. Absent: unchanged; null removes a limit. @returns false when there is no such workspace. */
export async function changeQuotas(
  db: Db,
  reach: Reach,
  workspaceId: string,
  wanted: { [Name in keyof QuotaLimits]?: number | null | undefined } & { actor: string },
): Promise<boolean> {
  return db.transaction(async (trx) => {
    const workspace = await findWorkspace(trx, workspaceId, reach);
    if (workspace === undefined) return false;
    await trx.query(sql`insert into quotas (tenant_id) values (${workspaceId}) on conflict do nothing`);
    const before = await findQuotas(trx, workspaceId, "for update");
    const pick = (name: keyof QuotaLimits) =>
      wanted[name] === undefined ? before[name] : (wanted[name] as number | null);
    const [deployments, replicas, buildMinutes] = [pick("deployments"), pick("replicas"), pick("buildMinutes")];
    const changes = changesBetween(shown(before), shown({ deployments, replicas, buildMinutes }));
    if (Object.keys(changes).length === 0) return true;
    const subject = {
      organizationId: workspace.organization_id,
      workspaceId,
      id: workspaceId,
      name: workspace.name,
    };
    await trx.query(sql`
      with quota as (
        update quotas set deployments_max = ${deployments}, replicas_max = ${replicas},
               build_minutes_max = ${buildMinutes}, updated_at = now()
         where tenant_id = ${workspaceId}
      ) ${audited(subject, { actor: wanted.actor, action: "quotas.patch", changes })}`);
    return true;
  });
}

const shown = ({ deployments, replicas, buildMinutes }: QuotaLimits) => ({
  deployments,
  replicas,
  build_minutes: buildMinutes,
});
