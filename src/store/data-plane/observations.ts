import type { DeploymentReport } from "../../contract/listeners/assignment.ts";
import { crashLoopStreak, messageMax } from "../../domain/deployment-health.ts";
import type { Db } from "../engine/database.ts";
import { type Sql, sql } from "../engine/sql.ts";
import { enqueued } from "../queue/enqueue.ts";
import { isUnsettled } from "../revisions/revisions.ts";

/** What the health of a settled deployment depends on in a report (domain/deployment-health.ts). */
const healthFactsOf = (report: string) =>
  sql.raw(`jsonb_build_array(${report} -> 'asleep', ${report} #> '{cause,reason}',
        least(coalesce((${report} ->> 'crash_streak')::integer, 0), ${crashLoopStreak}),
        (select count(*) from jsonb_array_elements(${report} -> 'replicas') x where x ->> 'phase' = 'ready'))`);

/** Cuts a text after a whole word, as `shortenText` does. */
const shortened = (text: Sql) => sql`
  case when length(${text}) > ${messageMax} then regexp_replace(left(${text}, ${messageMax - 1}), '\\s+\\S*$', '') || '…'
       else ${text} end`;

/**
 * Stores full snapshots from one listener session in one statement. It drops snapshots of an older session or with an older
 * number, also within the batch, and those of deployments that are not assigned to this listener. A report enqueues its
 * deployment only if a pass waits for it: a start that is still in progress needs no work, and a settled deployment only if
 * its health may have changed. A new exit of a replica is an event, `replica.exited`, unless the deployment crash-loops: the
 * change of its health is the event of the whole loop. The last exit stays when a later report does not mention it.
 * @returns how many were new.
 */
export async function storeReports(
  db: Db,
  session: { listenerId: string; epoch: number },
  reports: DeploymentReport[],
): Promise<number> {
  const { rows } = await db.query<{ has_exits: boolean }>(sql`
    with reported as (
      select distinct on ((report ->> 'deployment_id')::uuid)
             (report ->> 'deployment_id')::uuid as deployment_id, (report ->> 'seq')::bigint as seq,
             (report ->> 'generation')::bigint as generation, report
        from jsonb_array_elements(${JSON.stringify(reports)}::jsonb) as report
       order by 1, 2 desc
    ), before as (
      select o.deployment_id, ${healthFactsOf("o.report")} as facts, o.report -> 'last_exit' as exit
        from reported r join observations o on o.deployment_id = r.deployment_id
    ), stored as (
      insert into observations (deployment_id, listener_id, epoch, seq, generation, report)
      select r.deployment_id, ${session.listenerId}, ${session.epoch}, r.seq, r.generation, r.report
        from reported r join assignments a on a.deployment_id = r.deployment_id and a.listener_id = ${session.listenerId}
      on conflict (deployment_id) do update
         set listener_id = excluded.listener_id, epoch = excluded.epoch, seq = excluded.seq,
             generation = excluded.generation, observed_at = now(),
             report = case when observations.report -> 'last_exit' is null then excluded.report
                           else jsonb_build_object('last_exit', observations.report -> 'last_exit') || excluded.report end
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
    ), exited as (
      insert into events (tenant_id, deployment_id, revision_id, kind, data)
      select d.tenant_id, d.id, (s.exit ->> 'revision_id')::uuid, 'replica.exited',
             jsonb_build_object('replica_id', s.exit -> 'replica_id', 'reason', s.exit #> '{cause,reason}',
               'message', ${shortened(sql`s.exit #>> '{cause,message}'`)}, 'exit_code', s.exit #> '{cause,exit_code}',
               'signal', s.exit #> '{cause,signal}', 'exited_at', s.exit -> 'at', 'restarts', s.exit -> 'restarts',
               'exits_in_a_row', s.streak)
        from (select deployment_id, report -> 'last_exit' as exit,
                     coalesce((report ->> 'crash_streak')::integer, 0) as streak from stored) s
        join deployments d on d.id = s.deployment_id left join before b on b.deployment_id = s.deployment_id
       where s.exit is not null and s.exit ->> 'id' is distinct from b.exit ->> 'id' and s.streak < ${crashLoopStreak}
         and (b.exit is null or (s.exit ->> 'at')::timestamptz >= (b.exit ->> 'at')::timestamptz)
       order by d.id
      returning id
    ), ${enqueued("known", { unless: "is_expected" })}
    select deployment_id, exists (select from exited) as has_exits from stored`);
  if (rows.length > 0) {
    db.reached("report stored");
    db.changes.wake();
    if (rows[0]?.has_exits) db.changes.wakeWatchers();
  }
  return rows.length;
}
