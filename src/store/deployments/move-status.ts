import { listenerLost } from "../../domain/deployment-health.ts";
import type { Db } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { enqueued } from "../queue/enqueue.ts";

/**
 * Moves every deployment that a query finds, with an event for each. One whose listener went silent has an unknown health
 * from then on. One whose listener is back is enqueued, because a pass must derive its health. The others need no pass.
 * @param found rows of `id`, `status` and `next`, locked; each a move allowed by domain/deployment-status.ts.
 * @returns how many moved.
 */
export async function moveFound(db: Db, found: Sql): Promise<number> {
  const { rows } = await db.query(sql`
    with before as (${found}), moved as (
      update deployments d set status = b.next, status_since = now(), updated_at = now(),
             health = case when b.next = 'UNKNOWN' then 'unknown' else d.health end,
             health_reason = case when b.next = 'UNKNOWN' then ${listenerLost.reason} else d.health_reason end,
             health_message = case when b.next = 'UNKNOWN' then ${listenerLost.message} else d.health_message end,
             health_failure = case when b.next = 'UNKNOWN' then null else d.health_failure end,
             health_since = case when b.next = 'UNKNOWN' then now() else d.health_since end
        from before b where d.id = b.id
      returning d.id as deployment_id, d.tenant_id, b.status as old, b.next, b.status <> 'UNKNOWN' as needs_no_pass,
                (select o.health from deployments o where o.id = d.id) as health_before
    ), event as (
      insert into events (tenant_id, deployment_id, kind, data)
      select tenant_id, deployment_id, 'deployment.status', jsonb_build_object('from', old, 'to', next) from moved
      union all
      select tenant_id, deployment_id, 'deployment.health', jsonb_build_object('from', health_before, 'to', 'unknown',
             'because', ${listenerLost.reason}::text, 'message', ${listenerLost.message}::text)
        from moved where next = 'UNKNOWN' and health_before <> 'unknown'
    ), ${enqueued("moved", { unless: "needs_no_pass" })}
    select deployment_id from moved`);
  if (rows.length > 0) db.changes.wake();
  return rows.length;
}
