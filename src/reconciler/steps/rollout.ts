import type { Handover } from "../../contract/listeners/assignment.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import type { DesiredAssignment } from "../../store/data-plane/assigned-revisions.ts";
import type { FaultPoint } from "../../store/engine/fault-points.ts";
import type { StepDeps } from "../deps.ts";
import { currentHealth } from "../plan/plan.ts";
import type { DeploymentState } from "../plan/state.ts";
import { describeAssignment } from "./assignment.ts";
import { moveRevision } from "./move-revision.ts";
import { done, type Performed } from "./performed.ts";
import { afterAssignment, afterDescription, afterMove } from "./state-after.ts";

/**
 * Steps that change what the listener should run. The status of the revision and the assignment of the listener change
 * in one statement, so they never disagree.
 */

/** Assigns a revision as the target. The first time, it moves AWAITING_DEPLOY -> DEPLOYING with it. */
export async function rollOut(
  deps: StepDeps,
  state: DeploymentState,
  { revisionId, servingRevisionId }: { revisionId: string; servingRevisionId: string | null },
): Promise<Performed> {
  const desired = { op: "apply", targetRevisionId: revisionId, servingRevisionId } as const;
  const performed = await (state.unsettled.some(({ id, status }) => id === revisionId && status === "AWAITING_DEPLOY")
    ? moveWithAssignment(deps, state, desired, {
        revisionId,
        from: "AWAITING_DEPLOY",
        to: "DEPLOYING",
        because: "handed to the listener",
      })
    : replaceAssignment(deps, state, desired));
  return announced(deps, "rollout assigned", performed);
}

/** Moves DEPLOYING -> DEPLOYED. The target becomes active, and the listener should serve it from now on. */
export async function finishRollout(
  deps: StepDeps,
  state: DeploymentState,
  { revisionId }: { revisionId: string },
): Promise<Performed> {
  const health = currentHealth({
    ...afterMove(state, revisionId, { status: "DEPLOYED", deadlineAt: null, message: null, failure: null }),
    activeRevisionId: revisionId,
  });
  const moved = await moveRevision(deps, state, {
    revisionId,
    from: "DEPLOYING",
    to: "DEPLOYED",
    because: describeSwitch(state.observation?.report.handover),
    set: { image_version: state.observation?.report.server_version ?? null },
    assignment: "proven",
    // In the same statement, because it follows every rollout.
    health,
  });
  const desired = { op: "apply", targetRevisionId: revisionId, servingRevisionId: revisionId } as const;
  const after = afterAssignment(moved, desired);
  const performed =
    after.kind === "done" && after.state
      ? { ...after, state: { ...after.state, activeRevisionId: revisionId, health } }
      : after;
  return announced(deps, "rollout finished", performed);
}

/** Says what a handover cost the callers, for the event of the rollout. */
function describeSwitch(handover: Handover | undefined): string {
  const base = "healthy, and traffic has moved";
  if (handover === undefined) return base;
  const { held_ms, requests_cut: requests, runs_cut: runs, runs_continue: doContinue } = handover;
  const held = `${base}; requests waited ${(held_ms / 1_000).toFixed(1)} s for the switch`;
  if (requests + runs === 0) return held;
  const resumed = doContinue ? "continue from their last checkpoint" : "start again if the agent server keeps runs";
  return `${held}; cut at the drain timeout: ${requests} requests, ${runs} runs${runs > 0 ? `, which ${resumed}` : ""}`;
}

/** Records what a rollout in progress waits for, as the message of its revision. */
export async function describeRollout(
  { store }: StepDeps,
  state: DeploymentState,
  { revisionId, message }: { revisionId: string; message: string },
): Promise<Performed> {
  const isRecorded = await store.describeRollout(revisionId, message);
  return isRecorded ? { kind: "done", state: afterDescription(state, revisionId, message) } : done;
}

/** Moves DEPLOYING -> DEPLOY_FAILED. The listener goes back to the active revision. */
export async function failRollout(
  deps: StepDeps,
  state: DeploymentState,
  { revisionId, message, failure }: { revisionId: string; message: string; failure: Failure },
): Promise<Performed> {
  const { activeRevisionId } = state;
  const desired = { op: "apply", targetRevisionId: activeRevisionId, servingRevisionId: activeRevisionId } as const;
  const performed = await moveWithAssignment(deps, state, desired, {
    revisionId,
    from: "DEPLOYING",
    to: "DEPLOY_FAILED",
    because: "the rollout failed",
    message,
    failure,
  });
  return announced(deps, "rollout failed", performed);
}

/** Assigns the active revision and nothing else. */
export async function settleAssignment(
  deps: StepDeps,
  state: DeploymentState,
  { revisionId }: { revisionId: string | null },
): Promise<Performed> {
  const desired = { op: "apply", targetRevisionId: revisionId, servingRevisionId: revisionId } as const;
  return announced(deps, "assignment settled", await replaceAssignment(deps, state, desired));
}

/** Tells the listener to remove everything that it runs for the deployment. */
export async function assignDelete(deps: StepDeps, state: DeploymentState): Promise<Performed> {
  const desired = { op: "delete", targetRevisionId: null, servingRevisionId: null } as const;
  return announced(deps, "delete assigned", await replaceAssignment(deps, state, desired));
}

type Desired = Omit<DesiredAssignment, "deploymentId">;

async function moveWithAssignment(
  deps: StepDeps,
  state: DeploymentState,
  desired: Desired,
  move: Parameters<typeof moveRevision>[2],
): Promise<Performed> {
  const assignment = await describeAssignment(deps, { deploymentId: state.id, ...desired });
  if (assignment === undefined) return done;
  return afterAssignment(await moveRevision(deps, state, { ...move, assignment }), desired);
}

/** Replaces the assignment that this pass read. When another worker has replaced it, the pass reads everything again. */
async function replaceAssignment(deps: StepDeps, state: DeploymentState, desired: Desired): Promise<Performed> {
  const assignment = await describeAssignment(deps, { deploymentId: state.id, ...desired });
  if (assignment === undefined) return done;
  const isWritten = await deps.store.writeAssignment({ ...assignment, seen: state.assignment?.generation ?? 0 });
  return isWritten ? afterAssignment({ kind: "done", state }, desired) : done;
}

function announced({ store }: StepDeps, point: FaultPoint, performed: Performed): Performed {
  store.reached(point);
  store.wake();
  return performed;
}
