import { type RawBuilder, sql } from "kysely";
import type { Db, Trx } from "../engine/database.ts";

/**
 * The end of a `with` list: every deployment that an earlier one (`source`, with `deployment_id`) has rows of becomes due
 * for a pass, so that this commits with what changed. Adds the name `due`. After the commit, `db.changes.wake()`.
 *
 * Ordered, so that two statements that make the same deployments due wait for each other instead of deadlocking.
 * @param options.unless a boolean column of `source`: such a row makes nothing due.
 */
export function enqueued(source: string, { unless }: { unless?: string } = {}): RawBuilder<unknown> {
  const rows = sql.table(source);
  const wanted = unless === undefined ? rows : sql`${rows} where not ${sql.ref(unless)}`;
  return sql`due as (
      insert into reconcile_queue (deployment_id, run_at)
      select distinct deployment_id, now() from ${wanted} order by deployment_id
      on conflict (deployment_id) do update
         set run_at = least(reconcile_queue.run_at, excluded.run_at), generation = reconcile_queue.generation + 1
    )`;
}

/** The same as a statement of its own, for a change that is not written by SQL of the store. */
export async function enqueueAndWake(db: Db | Trx, deploymentId: string): Promise<void> {
  await sql`
    with source as (select ${deploymentId}::uuid as deployment_id),
    ${enqueued("source")}
    select 1`.execute(db.kysely);
  if ("changes" in db) db.changes.wake();
}
