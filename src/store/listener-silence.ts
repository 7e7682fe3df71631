import { sql } from "kysely";
import type { Db } from "./database.ts";

/**
 * A deployment whose listener has gone silent may run or not: UNKNOWN, until the listener is heard again. What runs there
 * goes on running and serving (contract 5.1).
 * @returns how many moved, either way.
 */
export async function noteSilentListeners(db: Db, silentMs: number): Promise<number> {
  const { rows } = await sql`
    with heard as (
      select id, last_seen_at >= now() - ${silentMs} * interval '1 millisecond' as recently from listeners
       where last_seen_at is not null
    ), before as (
      select d.id, d.status, case when h.recently then 'READY' else 'UNKNOWN' end as next
        from heard h join deployments d on d.listener_id = h.id
       where case when h.recently then d.status = 'UNKNOWN'
                  else d.status in ('READY', 'UNUSED') and d.active_revision_id is not null end
         for update of d
    ), moved as (
      update deployments d set status = b.next, status_since = now(), updated_at = now()
        from before b where d.id = b.id
      returning d.id as deployment_id, d.tenant_id, b.status as old, b.next
    ), event as (
      insert into events (tenant_id, deployment_id, kind, data)
      select tenant_id, deployment_id, 'deployment.status', jsonb_build_object('from', old, 'to', next) from moved
    ), change as (
      insert into deployment_changes (tenant_id, deployment_id) select tenant_id, deployment_id from moved
    )
    select deployment_id from moved`.execute(db.kysely);
  if (rows.length > 0) db.changes.wake();
  return rows.length;
}
