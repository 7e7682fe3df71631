import type { StepDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import type { Action } from "../plan/step.ts";
import { NoFreeSlot } from "../slots.ts";
import { acceptBuild, beginBuild, cancelBuild } from "./builds.ts";
import { provisionDatabase } from "./databases.ts";
import { deleteDeployment, finalizeDeployment } from "./delete-deployment.ts";
import { extendDeadlines } from "./extend-deadlines.ts";
import { extendRollout, moveRevision, skipRevisions } from "./move-revision.ts";
import type { Performed } from "./performed.ts";
import { recordHealth } from "./record-health.ts";
import { resolveRevision } from "./resolve.ts";
import { assignDelete, describeRollout, failRollout, finishRollout, rollOut, settleAssignment } from "./rollout.ts";
import { inStepSpan } from "./step-span.ts";
import { createTracingProject, removeTracingProject } from "./tracing-projects.ts";

type StepFunction<Kind extends Action["kind"]> = (
  deps: StepDeps,
  state: DeploymentState,
  step: Extract<Action, { kind: Kind }>,
  signal: AbortSignal,
) => Promise<Performed>;

/** The function that performs each kind of step. */
const steps: { readonly [Kind in Action["kind"]]: StepFunction<Kind> } = {
  provision: provisionDatabase,
  resolve: resolveRevision,
  move: moveRevision,
  skip: skipRevisions,
  build: beginBuild,
  cancelBuild,
  acceptBuild,
  rollOut,
  finishRollout,
  failRollout,
  extendRollout,
  describeRollout,
  settleAssignment,
  assignDelete,
  recordHealth,
  finalize: finalizeDeployment,
  deleteRow: deleteDeployment,
  createTracingProject,
  removeTracingProject,
  inspectBranch: ({ codeHosts }, state, _step, signal) => codeHosts.inspectBranch(state, signal),
  unfollowBranch: ({ codeHosts }, state) => codeHosts.unfollowBranch(state),
  reportToHost: ({ codeHosts }, state, _step, signal) => codeHosts.reportToHost(state, signal),
};

/** Performs one step. Each may be repeated: a step that finds its work done changes nothing. */
export async function perform(
  deps: StepDeps,
  state: DeploymentState,
  step: Action,
  signal: AbortSignal,
): Promise<Performed> {
  const act = steps[step.kind] as StepFunction<Action["kind"]>;
  try {
    return await inStepSpan(deps.traces, state, step, () => act(deps, state, step, signal));
  } catch (error) {
    if (!(error instanceof NoFreeSlot)) throw error;
    await extendDeadlines(deps, state, error.retryInMs);
    return { kind: "later", retryInMs: error.retryInMs, because: "too many calls to other servers are in progress" };
  }
}
