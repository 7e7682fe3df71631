import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { moveFound } from "./move-status.ts";

/**
 * Moves deployments between READY and UNUSED (contract 5.1). A serving deployment becomes UNUSED when it had neither a
 * request nor a new revision for `idleDays`, and READY again with either. It keeps running: nothing is stopped or deleted.
 * A listener in a cluster sees no requests, so a remote deployment that never counted any is left alone.
 * @param idleDays null: no deployment ever becomes UNUSED.
 * @returns how many moved, in either direction.
 */
export function updateUnusedDeployments(db: Db, idleDays: number | null): Promise<number> {
  return moveFound(
    db,
    sql`
      select d.id, d.status, case d.status when 'READY' then 'UNUSED' else 'READY' end as next
        from deployments d join revisions r on r.id = d.latest_revision_id join listeners l on l.id = d.listener_id
       where d.status in ('READY', 'UNUSED') and d.active_revision_id is not null
         and (d.status = 'READY') = coalesce(
               greatest(d.used_at, d.created_at, r.created_at) < now() - ${idleDays}::integer * interval '1 day'
                 and (l.builtin or d.used_at is not null), false)
         for update of d`,
  );
}
