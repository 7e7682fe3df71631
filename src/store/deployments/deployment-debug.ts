import type { DeploymentDebug } from "../../contract/administration/debug.ts";
import type { ResourceSpec } from "../../contract/deployments/resource-spec.ts";
import type { Db } from "../engine/database.ts";
import { sql } from "../engine/sql.ts";
import type { DeploymentDatabase } from "./deployment-databases.ts";

/** When the reconciler works on a deployment, and when its listener last reported. */
export interface DeploymentDebugRow {
  outcomes: DeploymentDebug["outcomes"] | null;
  run_at: Date | null;
  attempts: number | null;
  lease_owner: string | null;
  lease_until: Date | null;
  observed_at: Date | null;
  listener: { compute_type: string; last_seen_at: string | null };
  databases: Pick<DeploymentDatabase, "postgres" | "redis"> | null;
  resource_spec: ResourceSpec | null;
}

/** Returns the queue entry, the last report's time, the listener, the kinds of databases and the given sizes; undefined when it is gone. */
export async function readDeploymentDebug(db: Db, deploymentId: string): Promise<DeploymentDebugRow | undefined> {
  const { rows } = await db.query<DeploymentDebugRow>(sql`
    select q.outcomes, q.run_at, q.attempts, q.lease_owner, q.lease_until, o.observed_at,
           (select json_build_object('compute_type', l.compute_type, 'last_seen_at', l.last_seen_at)
              from listeners l where l.id = d.listener_id) as listener,
           (select json_build_object('postgres', b.postgres, 'redis', b.redis)
              from deployment_databases b where b.deployment_id = d.id) as databases,
           d.source_config -> 'resource_spec' as resource_spec
      from deployments d
      left join reconcile_queue q on q.deployment_id = d.id
      left join observations o on o.deployment_id = d.id
     where d.id = ${deploymentId}`);
  return rows[0];
}
