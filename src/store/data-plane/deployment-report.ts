import type { DeploymentReport } from "../../contract/listeners/assignment.ts";
import type { ReplicaUse } from "../../contract/logs/metrics.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/** The last report on a deployment, with the numbers of the revisions that its replicas run. */
export interface ReportRow {
  report: DeploymentReport;
  observed_at: Date;
  numbers: Record<string, number | null>;
  /** The last minute that was measured. null: none in the last three minutes. */
  use: MeasuredUse | null;
}

export interface MeasuredUse {
  at: string;
  replicas: number;
  cpu_cores: number | null;
  memory_mib: number | null;
  by_replica: ReplicaUse[] | null;
}

/** Returns the last report on a deployment; undefined: there is none. The caller has checked access to it. */
export async function findReport(db: Db, deploymentId: string): Promise<ReportRow | undefined> {
  const { rows } = await db.query<ReportRow>(sql`
    select o.report, o.observed_at, (
             select coalesce(jsonb_object_agg(r.id, r.number), '{}') from revisions r
              where r.deployment_id = o.deployment_id
                and r.id::text in (select x ->> 'revision_id' from jsonb_array_elements(o.report -> 'replicas') x)
           ) as numbers, (
             select jsonb_build_object('at', m.sampled_at, 'replicas', m.replicas, 'cpu_cores', m.cpu_cores,
                      'memory_mib', m.memory_mib, 'by_replica', m.replica_usage)
               from metric_minutes m where m.deployment_id = o.deployment_id and m.at > now() - interval '3 minutes'
              order by m.at desc limit 1
           ) as use
      from observations o where o.deployment_id = ${deploymentId}`);
  return rows[0];
}
