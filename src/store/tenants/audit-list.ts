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

/** Rows that one statement compares with words: the embedded database has one session, in which all others wait. */
const searchedPerStatement = 5_000;

/** Rows that one request compares with words. A log may have millions, and a word may occur in none. */
const searchedMax = 20_000;

/**
 * Returns rows, newest first, before the row `beforeId`, and the position of the next page; null: it is the last one. A page of
 * rows with words may have fewer than `size` rows, because the search is bounded.
 */
export async function readAuditPage(
  db: Db,
  reach: Reach,
  filter: AuditFilter,
  { size, beforeId }: { size: number; beforeId: number | null },
): Promise<{ rows: AuditRow[]; next: number | null }> {
  const rows: AuditRow[] = [];
  let before = beforeId;
  for (let searched = 0; searched < searchedMax; searched += searchedPerStatement) {
    const from = filter.words.length === 0 ? null : await findEndOfSearch(db, reach, filter, before);
    rows.push(...(await listRows(db, reach, filter, { limit: size + 1 - rows.length, before, from })));
    if (rows.length > size) return { rows: rows.slice(0, size), next: rows[size - 1]?.id ?? null };
    if (from === null) return { rows, next: null };
    before = from;
  }
  return { rows, next: before };
}

/** Returns the oldest row that one statement compares with words; null: it reaches the end of the log. */
async function findEndOfSearch(
  db: Db,
  reach: Reach,
  filter: AuditFilter,
  before: number | null,
): Promise<number | null> {
  const { rows } = await db.query<{ id: number }>(sql`
    select a.id from audit_log a
     where ${sql.join(inRange(reach, filter, before), " and ")}
     order by a.id desc offset ${searchedPerStatement - 1} limit 1`);
  return rows[0]?.id ?? null;
}

const inRange = (reach: Reach, filter: AuditFilter, before: number | null) => [
  within(reach, owners),
  within(filter, owners),
  ...(filter.deploymentId === null ? [] : [sql`a.deployment_id = ${filter.deploymentId}`]),
  ...(filter.since === null ? [] : [sql`a.created_at >= ${filter.since}`]),
  ...(filter.until === null ? [] : [sql`a.created_at < ${filter.until}`]),
  ...(before === null ? [] : [sql`a.id < ${before}`]),
];

async function listRows(
  db: Db,
  reach: Reach,
  filter: AuditFilter,
  { limit, before, from }: { limit: number; before: number | null; from: number | null },
): Promise<AuditRow[]> {
  const { actor, action, words } = filter;
  const wanted = [
    ...inRange(reach, filter, before),
    ...(actor === null ? [] : [sql`a.actor = ${actor}`]),
    ...(action === null ? [] : [sql`(a.action = ${action} or starts_with(a.action, ${`${action}.`}))`]),
    ...(from === null ? [] : [sql`a.id >= ${from}`]),
    ...words.map(hasWord),
  ];
  const { rows } = await db.query<AuditRow>(sql`
    select a.id, a.created_at, a.actor, coalesce(k.name, m.email) as actor_name, a.action, a.organization_id, a.tenant_id, a.deployment_id,
           a.subject_id, a.subject_name, a.data
      from audit_log a left join api_keys k on 'key:' || k.id::text = a.actor
           left join members m on 'member:' || m.id::text = a.actor
     where ${sql.join(wanted, " and ")} order by a.id desc limit ${limit}`);
  return rows;
}
