import { moveFound } from "../deployments/move-status.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/**
 * Moves deployments of silent listeners to UNKNOWN, because it is unknown whether they run, and back to READY when the
 * listener reports again. Running replicas keep running and serving (contract 5.1).
 * @returns how many moved, in either direction.
 */
export function updateSilentListeners(db: Db, silentMs: number): Promise<number> {
  return moveFound(
    db,
    sql`
      with heard as (
        select id, recently, case when recently then '{UNKNOWN}' else '{READY,UNUSED}' end::text[] as moving
          from (select id, last_seen_at >= now() - ${silentMs} * interval '1 millisecond' as recently
                  from listeners where last_seen_at is not null) l
         -- While no server was running, no listener could report.
         where recently or not exists (select from clock where resumed_at >= now() - ${silentMs} * interval '1 millisecond')
      )
      select d.id, d.status, case when h.recently then 'READY' else 'UNKNOWN' end as next
        from heard h join deployments d
          on d.listener_id = h.id and d.status = any(h.moving) and (h.recently or d.active_revision_id is not null)
       -- Usually none moves: this is one index lookup per listener, and the table is not read.
       where (select true from deployments o where o.listener_id = h.id and o.status = any(h.moving)
                 and (h.recently or o.active_revision_id is not null) limit 1)
         for update of d`,
  );
}
