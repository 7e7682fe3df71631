import type { EventType } from "../../contract/logs/event.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { pick, type RowOf, selectList } from "../engine/table.ts";
import { eventsTable } from "./tables.ts";

const eventFields = pick(eventsTable, "id", "tenant_id", "deployment_id", "revision_id", "kind", "data", "created_at");

/** An entry of the timeline that users see. */
export interface EventRow extends RowOf<typeof eventFields> {
  /** null: the deployment was deleted, or the event belongs to none. */
  deployment_name: string | null;
}

const columns = sql`${selectList(eventFields, "e")}, d.name as deployment_name`;

/**
 * Returns the rows for one poll of a follower: events above a number and those with the given numbers, in any order.
 * `last` is the greatest number assigned to an event, which may not be committed yet.
 */
export async function readNewEvents(
  db: Db,
  look: { above: number; numbers: number[]; limit: number },
): Promise<{ rows: EventRow[]; last: number }> {
  // One statement, because an idle follower polls once a second.
  const { rows } = await db.query<EventRow & { last: number }>(sql`
    with found as (
      (select * from events where id > ${look.above} order by id limit ${look.limit})
      union all (select * from events where id = any(${look.numbers}::bigint[]) and id <= ${look.above})
    ) select ${columns}, s.last_value as last
        from events_id_seq s left join found e on true left join deployments d on d.id = e.deployment_id`);
  const [{ last = 0 } = {}] = rows;
  return { rows: rows.filter(({ id }) => id !== null), last };
}

export interface EventFilter {
  tenantId: string;
  /** null: the whole workspace. */
  deploymentIds: readonly string[] | null;
  types: readonly EventType[] | null;
}

/** Returns events of a workspace after a number, oldest first, up to a number below which all are settled. */
export async function readEvents(
  db: Db,
  filter: EventFilter,
  page: { after: number; upTo: number; limit: number },
): Promise<EventRow[]> {
  const { rows } = await db.query<EventRow>(sql`
    select ${columns} from events e left join deployments d on d.id = e.deployment_id
     where ${isWanted(filter)} and e.id > ${page.after} and e.id <= ${page.upTo}
     order by e.id limit ${page.limit}`);
  return rows;
}

/** Returns the events before a number, newest first. */
export async function readEventsBack(
  db: Db,
  filter: EventFilter,
  page: { before: number; limit: number },
): Promise<EventRow[]> {
  const { rows } = await db.query<EventRow>(sql`
    select ${columns} from events e left join deployments d on d.id = e.deployment_id
     where ${isWanted(filter)} and e.id < ${page.before} order by e.id desc limit ${page.limit}`);
  return rows;
}

const isWanted = ({ tenantId, deploymentIds, types }: EventFilter) => sql`
       e.tenant_id = ${tenantId}
       and (${deploymentIds}::uuid[] is null or e.deployment_id = any(${deploymentIds}::uuid[]))
       and (${types}::text[] is null or e.kind = any(${types}::text[]))`;

/** Returns whether events after this number may have been deleted already. 0 asks for every event that still exists. */
export async function mayBeDeleted(db: Db, after: number): Promise<boolean> {
  if (after === 0) return false;
  const bounds = await findEventBounds(db);
  // A number above the newest event means that the database was restored from a copy older than what the reader has seen.
  return bounds === null || after < bounds.first - 1 || after > bounds.last;
}

/** Returns the numbers of the oldest stored event and of the newest committed one; null: there are none. */
export async function findEventBounds(db: Db): Promise<{ first: number; last: number } | null> {
  const { rows } = await db.query<{ first: number | null; last: number | null }>(sql`
    select (select min(id) from events) as first, (select max(id) from events) as last`);
  const { first = null, last = null } = rows[0] ?? {};
  return first === null || last === null ? null : { first, last };
}

/**
 * Returns the transactions of other sessions on this database that may have taken a number and not committed it, by names
 * that are never reused. A transaction that has not written anything is left out, unless it may be about to write, so a
 * backup, which reads for a long time, delays no reader. All servers must use one database role, which sees all of its own
 * sessions.
 */
export async function findOpenTransactions(db: Db): Promise<ReadonlySet<string>> {
  // There is only one session, and no other transaction is open in it while it answers this.
  if (db.kind === "embedded") return new Set();
  const { rows } = await db.query<{ name: string }>(sql`
    select pid || '/' || extract(epoch from xact_start) as name from pg_stat_activity
     where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
       and xact_start is not null
       and (backend_xid is not null or (state = 'active' and query_start > now() - interval '1 second'))`);
  return new Set(rows.map(({ name }) => name));
}
