import type { DeploymentReplicas, Replica } from "../../contract/deployments/replica.ts";
import { operations } from "../../contract/operations.ts";
import { findReport, type MeasuredUse, type ReportRow } from "../../store/data-plane/deployment-report.ts";
import { type Api, route } from "../http/route.ts";
import { readDeployment } from "./deployment-routes.ts";

/** Adds the route that lists the replicas of a deployment. */
export function addReplicaRoutes(api: Api): void {
  const { db } = api.deps;
  route(api, operations.listReplicas, async ({ principal, params }) => {
    const { id } = await readDeployment(db, principal, params.deployment_id);
    const found = await findReport(db, id);
    return found === undefined ? nothingReported : replicasOf(found);
  });
}

const nothingReported: DeploymentReplicas = {
  replicas: [],
  reported_at: null,
  asleep: false,
  last_exit: null,
  last_exit_at: null,
  exits_in_a_row: 0,
};

/** Whether the cause of a report, if it has one, is its last exit. */
const isExit = ({ cause, last_exit: exit }: ReportRow["report"]) =>
  cause === null || cause.reason === exit?.cause.reason;

/** Several replicas are measured each. The use of one that runs alone since before the measurement is that of the deployment. */
function useOf(
  replicaId: string,
  { use, alone }: { use: MeasuredUse | null; alone: string | null },
): Pick<Replica, "cpu_cores" | "memory_mib"> {
  const own = use?.by_replica?.find(({ replica_id }) => replica_id === replicaId);
  if (own !== undefined) return { cpu_cores: own.cpu_cores, memory_mib: own.memory_mib };
  const isWhole = use?.replicas === 1 && alone !== null && Date.parse(alone) <= Date.parse(use.at);
  return isWhole ? { cpu_cores: use.cpu_cores, memory_mib: use.memory_mib } : { cpu_cores: null, memory_mib: null };
}

function replicasOf({ report, observed_at: at, numbers, use }: ReportRow): DeploymentReplicas {
  return {
    replicas: report.replicas.map(({ replica_id, revision_id, phase, started_at, restarts, limits }) => ({
      id: replica_id,
      revision_id,
      revision_number: numbers[revision_id] ?? null,
      phase,
      started_at,
      restarts,
      limits,
      ...useOf(replica_id, { use, alone: report.replicas.length === 1 ? started_at : null }),
    })),
    reported_at: at.toISOString(),
    asleep: report.asleep,
    last_exit: report.cause ?? report.last_exit?.cause ?? null,
    last_exit_at: isExit(report) ? (report.last_exit?.at ?? null) : null,
    exits_in_a_row: report.crash_streak ?? 0,
  };
}
