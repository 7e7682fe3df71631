import type { LatestRevision } from "../../domain/deployment-health.ts";
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
  {
    failure,
    ...moved
  }: Pick<RevisionFacts, "status" | "deadlineAt" | "message"> &
    Pick<LatestRevision, "failure"> &
    Partial<Pick<RevisionFacts, "hasArtifact" | "since">>,
): DeploymentState {
  const unsettled = state.unsettled.map((revision) => {
    return revision.id === revisionId ? { ...revision, ...moved } : revision;
  });
  const { host, latest } = state;
  // Whether the move is worth a report is decided by the report step.
  const hostAfter = host?.hasReports ? { ...host, reportAt: new Date(0) } : host;
  return {
    ...state,
    unsettled: unsettled.filter(({ status }) => !isFinal(status)),
    latest: latest?.id === revisionId ? { ...latest, status: moved.status, message: moved.message, failure } : latest,
    host: hostAfter,
  };
}

/** Returns the state after the message of a rollout was recorded. */
export function afterDescription(state: DeploymentState, revisionId: string, message: string): DeploymentState {
  const { unsettled, latest } = state;
  return {
    ...state,
    unsettled: unsettled.map((revision) => (revision.id === revisionId ? { ...revision, message } : revision)),
    latest: latest?.id === revisionId ? { ...latest, message } : latest,
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
