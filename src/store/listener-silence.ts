import { sql } from "kysely";
import type { Db } from "./database.ts";
import { moveFound } from "./move-found.ts";

/**
 * A deployment whose listener has gone silent may run or not: UNKNOWN, until the listener is heard again. What runs there
 * goes on running and serving (contract 5.1).
 * @returns how many moved, either way.
 */
export function noteSilentListeners(db: Db, silentMs: number): Promise<number> {
  return moveFound(
    db,
    sql`
      select d.id, d.status, case when h.recently then 'READY' else 'UNKNOWN' end as next
        from (select id, last_seen_at >= now() - ${silentMs} * interval '1 millisecond' as recently from listeners
               where last_seen_at is not null) h
        join deployments d on d.listener_id = h.id
       where case when h.recently then d.status = 'UNKNOWN'
                  else d.status in ('READY', 'UNUSED') and d.active_revision_id is not null end
         for update of d`,
  );
}
