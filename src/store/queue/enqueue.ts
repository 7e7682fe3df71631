import type { Db, Trx } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";

/**
 * The end of a `with` list that enqueues every deployment in the rows of an earlier CTE (`source`, with `deployment_id`),
 * so that the queue entry commits together with the change. Adds the CTE name `due`. Call `db.changes.wake()` after the commit.
 *
 * Ordered, so that two statements that enqueue the same deployments wait for each other instead of deadlocking.
 * @param options.unless a boolean column of `source`: its rows are not enqueued.
 */
export function enqueued(source: string, { unless }: { unless?: string } = {}): Sql {
  const rows = sql.identifier(source);
  const wanted = unless === undefined ? rows : sql`${rows} where not ${sql.identifier(unless)}`;
  return sql`due as (
      insert into reconcile_queue (deployment_id, run_at)
      select distinct deployment_id, now() from ${wanted} order by deployment_id
      on conflict (deployment_id) do update
         set run_at = least(reconcile_queue.run_at, excluded.run_at), generation = reconcile_queue.generation + 1
    )`;
}

/** Enqueues a deployment in a statement of its own and wakes the reconcilers. */
export async function enqueueAndWake(db: Db | Trx, deploymentId: string): Promise<void> {
  await db.query(sql`
    with source as (select ${deploymentId}::uuid as deployment_id),
    ${enqueued("source")}
    select 1`);
  if ("changes" in db) db.changes.wake();
}
