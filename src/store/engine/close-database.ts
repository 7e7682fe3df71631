import type { Db } from "./database.ts";
import { sql } from "./sql.ts";

/**
 * Takes from other roles of the PostgreSQL server the right to connect to this database, which every role has by default. A role of an
 * agent there could read no table, but hold the lock of migrations, so that no server starts. Without effect for a role that does not
 * own the database.
 */
export async function closeToOtherRoles(db: Db): Promise<void> {
  if (db.kind !== "postgres") return;
  await db.query(sql`do ${sql.literal(revoke)}`);
}

/**
 * Only while it has an effect, because two servers must not change the same entry at once. Sessions that began before end, where the
 * server's role may end them.
 */
const revoke = `
  begin
    if has_database_privilege('public', current_database(), 'connect') then
      execute format('revoke all on database %I from public', current_database());
    end if;
    begin
      perform pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and not has_database_privilege(usesysid, datid, 'connect');
    exception when insufficient_privilege then null;
    end;
  end`;
