import type { Db } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";

/**
 * Moves every deployment that a query finds, with an event for each. It enqueues nothing, because only the displayed
 * status changes.
 * @param found rows of `id`, `status` and `next`, locked; each a move allowed by domain/deployment-status.ts.
 * @returns how many moved.
 */
export async function moveFound(db: Db, found: Sql): Promise<number> {
  const { rows } = await db.query(sql`
    with before as (${found}), moved as (
      update deployments d set status = b.next, status_since = now(), updated_at = now()
        from before b where d.id = b.id
      returning d.id as deployment_id, d.tenant_id, b.status as old, b.next
    ), event as (
      insert into events (tenant_id, deployment_id, kind, data)
      select tenant_id, deployment_id, 'deployment.status', jsonb_build_object('from', old, 'to', next) from moved
    )
    select deployment_id from moved`);
  if (rows.length > 0) db.changes.wake();
  return rows.length;
}
