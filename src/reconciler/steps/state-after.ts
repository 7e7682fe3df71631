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
  moved: Pick<RevisionFacts, "status" | "deadlineAt"> &
    Partial<Pick<RevisionFacts, "hasArtifact">> & { message: string | null },
): DeploymentState {
  const { message: _, ...facts } = moved;
  const unsettled = state.unsettled.map((revision) => {
    return revision.id === revisionId ? { ...revision, ...facts } : revision;
  });
  const { host, latest } = state;
  // Whether the move is worth a report is decided by the report step.
  const hostAfter = host?.hasReports ? { ...host, reportAt: new Date(0) } : host;
  return {
    ...state,
    unsettled: unsettled.filter(({ status }) => !isFinal(status)),
    latest: latest?.id === revisionId ? { ...latest, status: moved.status, message: moved.message } : latest,
    host: hostAfter,
  };
}

/** Adds an assignment that this pass wrote. Each write is a new generation, which no report answers yet. */
export function afterAssignment(performed: Performed, desired: Omit<DesiredAssignment, "deploymentId">): Performed {
  if (performed.kind !== "done" || performed.state === undefined) return performed;
  const { state } = performed;
  const generation = (state.assignment?.generation ?? 0) + 1;
  const replicasMin = state.assignment?.replicasMin ?? {};
  return { kind: "done", state: { ...state, assignment: { generation, ...desired, replicasMin, isCurrent: true } } };
}
