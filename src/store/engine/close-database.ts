import pg from "pg";
import type { Db } from "./database.ts";
import { sql } from "./sql.ts";

/**
 * Takes from other roles of the PostgreSQL server the right to connect to this database, which every role has by default. A role of an
 * agent there could read no table, but hold the lock of migrations, so that no server starts. Without effect for a role that does not
 * own the database.
 * @param agentAdminUrl URL of the role that creates those of agents. It keeps the right, because it may connect to this database to do
 * so. If it does not exist here, agents have another server.
 */
export async function closeToOtherRoles(db: Db, agentAdminUrl: string): Promise<void> {
  if (db.kind !== "postgres") return;
  const admin = decodeURIComponent(new URL(agentAdminUrl).username);
  const { rows } = await db.query<{ name: string; isOpen: boolean; hasAdmin: boolean }>(sql`
    select current_database() as name, has_database_privilege('public', current_database(), 'connect') as "isOpen",
           exists (select from pg_roles where rolname = ${admin}) as "hasAdmin"`);
  const { name, isOpen, hasAdmin } = rows[0] as (typeof rows)[number];
  if (admin !== "" && !hasAdmin) return;
  // Only while it has an effect, because two servers must not change the same entry at once.
  if (isOpen) {
    if (hasAdmin) await db.query(sql`grant connect on database ${quoted(name)} to ${quoted(admin)}`);
    await db.query(sql`revoke all on database ${quoted(name)} from public`);
  }
  await db.query(sql`do ${sql.literal(endOthers)}`);
}

/** Ends sessions that began before, where the server's role may end them. */
const endOthers = `
  begin
    perform pg_terminate_backend(pid) from pg_stat_activity
      where datname = current_database() and not has_database_privilege(usesysid, datid, 'connect');
  exception when insufficient_privilege then null;
  end`;

const quoted = (name: string) => sql.raw(pg.escapeIdentifier(name));
