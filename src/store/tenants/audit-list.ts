import type { Changes, SecretChanges } from "../../domain/audit.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { type Reach, within } from "./scope.ts";

export interface AuditRow {
  id: number;
  created_at: Date;
  actor: string;
  actor_name: string | null;
  action: string;
  organization_id: string;
  tenant_id: string | null;
  deployment_id: string | null;
  subject_id: string | null;
  subject_name: string | null;
  data: { changes?: Changes; secrets?: SecretChanges; details?: Record<string, unknown> };
}

/** Filters of the audit log; null: not filtered. */
export interface AuditFilter extends Reach {
  deploymentId: string | null;
  actor: string | null;
  /** The whole name, or the part before the dot. */
  action: string | null;
  since: Date | null;
  until: Date | null;
}

const owners = { organization: "a.organization_id", workspace: "a.tenant_id" };

/** Returns rows, newest first, before the row `beforeId`. */
export async function listAuditRows(
  db: Db,
  reach: Reach,
  filter: AuditFilter,
  page: { limit: number; beforeId: number | null },
): Promise<AuditRow[]> {
  const { deploymentId, actor, action, since, until } = filter;
  const wanted = [
    within(reach, owners),
    within(filter, owners),
    ...(deploymentId === null ? [] : [sql`a.deployment_id = ${deploymentId}`]),
    ...(actor === null ? [] : [sql`a.actor = ${actor}`]),
    ...(action === null ? [] : [sql`(a.action = ${action} or starts_with(a.action, ${`${action}.`}))`]),
    ...(since === null ? [] : [sql`a.created_at >= ${since}`]),
    ...(until === null ? [] : [sql`a.created_at < ${until}`]),
    ...(page.beforeId === null ? [] : [sql`a.id < ${page.beforeId}`]),
  ];
  const { rows } = await db.query<AuditRow>(sql`
    select a.id, a.created_at, a.actor, coalesce(k.name, m.email) as actor_name, a.action, a.organization_id, a.tenant_id, a.deployment_id,
           a.subject_id, a.subject_name, a.data
      from audit_log a left join api_keys k on 'key:' || k.id::text = a.actor
           left join members m on 'member:' || m.id::text = a.actor
     where ${sql.join(wanted, " and ")} order by a.id desc limit ${page.limit}`);
  return rows;
}
