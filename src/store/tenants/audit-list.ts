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
  /** Lower case. Each one has to occur. */
  words: string[];
  since: Date | null;
  until: Date | null;
}

const owners = { organization: "a.organization_id", workspace: "a.tenant_id" };

/**
 * Whether a word occurs in a row. Rows are read from the index of their scope, newest first, until the page is full. The actors of
 * this name are looked up once, because a condition on the joined tables would join every row before it is dropped.
 */
const hasWord = (word: string) => sql`(
       strpos(lower(coalesce(a.subject_name, '') || ' ' || a.action || ' ' || a.data::text), ${word}) > 0
       or a.actor = any(array(
         select 'key:' || id from api_keys where strpos(lower(name), ${word}) > 0
         union all select 'member:' || id from members where strpos(lower(email), ${word}) > 0)))`;

/** Returns rows, newest first, before the row `beforeId`. */
export async function listAuditRows(
  db: Db,
  reach: Reach,
  filter: AuditFilter,
  page: { limit: number; beforeId: number | null },
): Promise<AuditRow[]> {
  const { deploymentId, actor, action, words, since, until } = filter;
  const wanted = [
    within(reach, owners),
    within(filter, owners),
    ...(deploymentId === null ? [] : [sql`a.deployment_id = ${deploymentId}`]),
    ...(actor === null ? [] : [sql`a.actor = ${actor}`]),
    ...(action === null ? [] : [sql`(a.action = ${action} or starts_with(a.action, ${`${action}.`}))`]),
    ...words.map(hasWord),
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
