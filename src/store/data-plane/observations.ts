import type { DeploymentReport } from "../../contract/listeners/assignment.ts";
import { crashLoopStreak } from "../../domain/deployment-health.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import { enqueued } from "../queue/enqueue.ts";
import { isUnsettled } from "../revisions/revisions.ts";

/** What the health of a settled deployment depends on in a report (domain/deployment-health.ts). */
const healthFactsOf = (report: string) =>
  sql.raw(`jsonb_build_array(${report} -> 'asleep', ${report} #> '{cause,reason}',
        least(coalesce((${report} ->> 'crash_streak')::integer, 0), ${crashLoopStreak}),
        (select count(*) from jsonb_array_elements(${report} -> 'replicas') x where x ->> 'phase' = 'ready'))`);

/**
 * Stores full snapshots from one listener session in one statement. It drops snapshots of an older session or with an older
 * number, also within the batch, and those of deployments that are not assigned to this listener. A report enqueues its
 * deployment only if a pass waits for it: a start that is still in progress needs no work, and a settled deployment only if
 * its health may have changed.
 * @returns how many were new.
 */
export async function storeReports(
  db: Db,
  session: { listenerId: string; epoch: number },
  reports: DeploymentReport[],
): Promise<number> {
  const { rows } = await db.query(sql`
    with reported as (
      select distinct on ((report ->> 'deployment_id')::uuid)
             (report ->> 'deployment_id')::uuid as deployment_id, (report ->> 'seq')::bigint as seq,
             (report ->> 'generation')::bigint as generation, report
        from jsonb_array_elements(${JSON.stringify(reports)}::jsonb) as report
       order by 1, 2 desc
    ), before as (
      select o.deployment_id, ${healthFactsOf("o.report")} as facts
        from reported r join observations o on o.deployment_id = r.deployment_id
    ), stored as (
      insert into observations (deployment_id, listener_id, epoch, seq, generation, report)
      select r.deployment_id, ${session.listenerId}, ${session.epoch}, r.seq, r.generation, r.report
        from reported r join assignments a on a.deployment_id = r.deployment_id and a.listener_id = ${session.listenerId}
      on conflict (deployment_id) do update
         set listener_id = excluded.listener_id, epoch = excluded.epoch, seq = excluded.seq,
             generation = excluded.generation, report = excluded.report, observed_at = now()
       where (observations.epoch, observations.seq) < (excluded.epoch, excluded.seq)
      returning deployment_id, report
    ), known as (
      select d.id as deployment_id,
             case when exists (select from revisions r where r.deployment_id = d.id and ${isUnsettled("r")})
                    then s.report ->> 'target_phase' = 'starting'
                  else d.status not in ('AWAITING_DELETE', 'AWAITING_FINAL_DELETE')
                       and d.health <> 'unknown' and b.facts is not distinct from ${healthFactsOf("s.report")}
             end as is_expected
        from stored s join deployments d on d.id = s.deployment_id left join before b on b.deployment_id = s.deployment_id
    ), ${enqueued("known", { unless: "is_expected" })}
    select deployment_id from stored`);
  if (rows.length > 0) {
    db.reached("report stored");
    db.changes.wake();
  }
  return rows.length;
}
