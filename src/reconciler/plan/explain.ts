import type { DeploymentDebug } from "../../contract/administration/debug.ts";
import { type DeploymentDebugRow, readDeploymentDebug } from "../../store/deployments/deployment-debug.ts";
import { readDeploymentState } from "../../store/deployments/deployment-state.ts";
import type { Db } from "../../store/engine/database.ts";
import { listenerIsAway, planDeployment } from "./plan.ts";
import { readState } from "./read-state.ts";
import type { DeploymentState } from "./state.ts";
import type { Step } from "./step.ts";

/**
 * Returns what the reconciler sees of one deployment and would do next, without doing it; undefined when it is gone.
 * `pierhead why` shows it when a deployment seems stuck.
 */
export async function explainDeployment(
  db: Db,
  deploymentId: string,
): Promise<Omit<DeploymentDebug, "health"> | undefined> {
  const store = { now: () => db.now(), readDeploymentState: (id: string) => readDeploymentState(db, id) };
  const read = await readState(store, deploymentId);
  if (read === undefined) return undefined;
  const { state, now } = read;
  const row = await readDeploymentDebug(db, deploymentId);
  if (row === undefined) return undefined;
  const step = planDeployment(state, now);
  return {
    deployment_id: deploymentId,
    desired: {
      status: state.status,
      active_revision_id: state.activeRevisionId,
      unsettled_revisions: state.unsettled.map(({ id, status, deadlineAt }) => ({
        id,
        status,
        deadline_at: deadlineAt?.toISOString() ?? null,
      })),
      builds: state.builds.map(({ revisionId, status, attempts, abandoned }) => ({
        revision_id: revisionId,
        status,
        attempts,
        abandoned,
      })),
      // `pierhead move` finds out from this what it has to copy.
      databases: row.databases,
      // What was given. The response of a deployment fills in defaults, and then it looks as if workers (`queue_*`) were wanted.
      resource_spec: row.resource_spec,
    },
    observed: state.observation && {
      ...state.observation.report,
      observed_at: row.observed_at?.toISOString() ?? null,
      listener: row.listener,
    },
    next_step: { kind: step.kind, because: reasonOf(step, row, state) },
    outcomes: row.outcomes ?? [],
    lease: {
      owner: row.lease_owner,
      until: row.lease_until?.toISOString() ?? null,
      next_pass_at: row.run_at?.toISOString() ?? null,
      attempts: row.attempts ?? 0,
    },
    assignment: state.assignment && { ...state.assignment },
  };
}

function reasonOf(step: Step, row: DeploymentDebugRow, { activeRevisionId, latest }: DeploymentState): string {
  const seen = row.listener.last_seen_at === null ? "never seen" : `last seen ${row.listener.last_seen_at}`;
  switch (step.kind) {
    case "wait":
      return `${step.because} (its listener: ${seen})`;
    case "extendRollout":
      return `${listenerIsAway} (${seen})`;
    case "none":
      if (activeRevisionId === null && latest !== null)
        return `nothing serves: the newest revision is ${latest.status}`;
      return "desired and observed state agree";
    default:
      if (row.lease_owner !== null) return "a worker is running a pass now";
      return row.run_at === null
        ? "no pass is scheduled; the next resync will find this deployment"
        : `the next pass is due at ${row.run_at.toISOString()}`;
  }
}
