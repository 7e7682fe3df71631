import { isFinal } from "../../domain/revision-status.ts";
import type { DesiredAssignment } from "../../store/data-plane/assigned-revisions.ts";
import type { DeploymentState, RevisionFacts } from "../plan/state.ts";
import type { Performed } from "./performed.ts";

/**
 * Returns the state after a move of this pass, without reading everything again. The compare-and-swap succeeded, so
 * no other worker moved the revision in between, and every other change makes the deployment due again.
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
  // Whether the move is worth a report is decided by the report step.
  const hostAfter = host?.hasReports ? { ...host, reportAt: new Date(0) } : host;
  return { ...state, unsettled: unsettled.filter(({ status }) => !isFinal(status)), host: hostAfter };
}

/** Adds an assignment that this pass wrote. Each write is a new generation, which no report answers yet. */
export function afterAssignment(performed: Performed, desired: Omit<DesiredAssignment, "deploymentId">): Performed {
  if (performed.kind !== "done" || performed.state === undefined) return performed;
  const { state } = performed;
  const generation = (state.assignment?.generation ?? 0) + 1;
  return { kind: "done", state: { ...state, assignment: { generation, ...desired, isCurrent: true } } };
}
