import type { DeploymentReport } from "../../contract/listeners/assignment.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";

/** The last report on a deployment, with the numbers of the revisions that its replicas run. */
export interface ReportRow {
  report: DeploymentReport;
  observed_at: Date;
  numbers: Record<string, number | null>;
}

/** Returns the last report on a deployment; undefined: there is none. The caller has checked access to it. */
export async function findReport(db: Db, deploymentId: string): Promise<ReportRow | undefined> {
  const { rows } = await db.query<ReportRow>(sql`
    select o.report, o.observed_at, (
             select coalesce(jsonb_object_agg(r.id, r.number), '{}') from revisions r
              where r.deployment_id = o.deployment_id
                and r.id::text in (select x ->> 'revision_id' from jsonb_array_elements(o.report -> 'replicas') x)
           ) as numbers
      from observations o where o.deployment_id = ${deploymentId}`);
  return rows[0];
}
