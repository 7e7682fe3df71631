import { isFinal } from "../../domain/revision-status.ts";
import type { DeploymentState, RevisionFacts } from "../plan/state.ts";
import type { AssignmentWish } from "./assignment.ts";
import type { Performed } from "./perform.ts";

/**
 * What a pass knows after a step of its own without reading everything again: the compare-and-swap went through, so
 * nobody else moved in between, and what others asked for meanwhile makes the deployment due again.
 */
export function afterMove(
  state: DeploymentState,
  revisionId: string,
  moved: Pick<RevisionFacts, "status" | "deadlineAt"> & Partial<Pick<RevisionFacts, "hasArtifact">>,
): DeploymentState {
  const unsettled = state.unsettled.map((revision) => {
    if (revision.id !== revisionId) return revision;
    return { ...revision, ...moved };
  });
  const { host } = state;
  // What there is to tell now is for the next look to find out.
  const told = host?.isTold ? { ...host, tellAt: new Date(0) } : host;
  return { ...state, unsettled: unsettled.filter(({ status }) => !isFinal(status)), host: told };
}

/** Each change of an assignment is the next generation of it: no report answers it yet. */
export function afterAssignment(performed: Performed, wish: Omit<AssignmentWish, "deploymentId">): Performed {
  if (performed.kind !== "done" || performed.state === undefined) return performed;
  const { state } = performed;
  const generation = (state.assignment?.generation ?? 0) + 1;
  return { kind: "done", state: { ...state, assignment: { generation, ...wish, isCurrent: true } } };
}
