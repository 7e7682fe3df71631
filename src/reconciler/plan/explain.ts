import { sql } from "kysely";
import type { DeploymentDebug } from "../../contract/administration/debug.ts";
import type { Db } from "../../store/engine/database.ts";
import { listenerIsAway, planDeployment, type Step } from "./plan.ts";
import { readState } from "./read-state.ts";

/**
 * What the reconciler sees of one deployment and would do next, without doing it; undefined when it is gone.
 * Asked by `pierhead why` when something seems stuck.
 */
export async function explainDeployment(db: Db, deploymentId: string): Promise<DeploymentDebug | undefined> {
  const read = await readState(db, deploymentId);
  if (read === undefined) return undefined;
  const { state, now } = read;
  const { rows } = await sql<{
    outcomes: DeploymentDebug["outcomes"] | null;
    run_at: Date | null;
    attempts: number | null;
    lease_owner: string | null;
    lease_until: Date | null;
    observed_at: Date | null;
    listener: { compute_type: string; last_seen_at: string | null };
  }>`
    select q.outcomes, q.run_at, q.attempts, q.lease_owner, q.lease_until, o.observed_at,
           (select json_build_object('compute_type', l.compute_type, 'last_seen_at', l.last_seen_at)
              from listeners l where l.id = d.listener_id) as listener
      from deployments d
      left join reconcile_queue q on q.deployment_id = d.id
      left join observations o on o.deployment_id = d.id
     where d.id = ${deploymentId}`.execute(db.kysely);
  const row = rows[0];
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
    },
    observed: state.observation && {
      ...state.observation.report,
      observed_at: row.observed_at?.toISOString() ?? null,
      listener: row.listener,
    },
    next_step: { kind: step.kind, because: becauseOf(step, row) },
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

function becauseOf(
  step: Step,
  row: { run_at: Date | null; lease_owner: string | null; listener: { last_seen_at: string | null } },
): string {
  const seen = row.listener.last_seen_at === null ? "never seen" : `last seen ${row.listener.last_seen_at}`;
  switch (step.kind) {
    case "wait":
      return `${step.because} (its listener: ${seen})`;
    case "giveTime":
      return `${listenerIsAway} (${seen})`;
    case "none":
      return "desired and observed state agree";
    default:
      if (row.lease_owner !== null) return "a worker is on it now";
      return row.run_at === null
        ? "nobody is going to look: the next resync will"
        : `the next pass is due at ${row.run_at.toISOString()}`;
  }
}
