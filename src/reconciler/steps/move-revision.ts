import {
  awaitingBuildTimeoutMs,
  awaitingDeployTimeoutMs,
  deadlineMarginMs,
  listenerPollMs,
} from "../../domain/limits.ts";
import type { RevisionMove } from "../../store/revisions/revisions.ts";
import type { StepDeps } from "../deps.ts";
import { listenerIsAway } from "../plan/plan.ts";
import type { DeploymentState } from "../plan/state.ts";
import { done, type Performed } from "./performed.ts";
import { afterMove } from "./state-after.ts";
import { recordMove } from "./step-span.ts";

/** A move of a revision by a pass. The step sets its deadline. */
export type Move = Omit<RevisionMove, "deadlineAt" | "byPass"> & { revisionId: string };

/** Moves a revision and sets the deadline of its new status. When another worker was faster, the pass reads everything again. */
export async function moveRevision(
  { store, settings }: Pick<StepDeps, "store" | "settings">,
  state: DeploymentState,
  { revisionId, ...move }: Move,
): Promise<Performed> {
  const deadlineAt = deadlineOf({ store, settings }, move.to);
  const isMoved = await store.moveRevision(
    { id: revisionId, deploymentId: state.id },
    { ...move, deadlineAt, byPass: true },
  );
  if (!isMoved) return done;
  recordMove(move);
  const { artifact_id: artifactId } = move.set ?? {};
  const known = artifactId === undefined ? {} : { hasArtifact: artifactId !== null };
  return {
    kind: "done",
    state: afterMove(state, revisionId, {
      status: move.to,
      since: store.now(),
      deadlineAt,
      message: move.message ?? null,
      failure: move.failure ?? null,
      ...known,
    }),
  };
}

export async function skipRevisions(
  { store }: StepDeps,
  _state: DeploymentState,
  { revisionIds, supersededBy }: { revisionIds: string[]; supersededBy: string },
): Promise<Performed> {
  await store.skipRevisions(revisionIds, supersededBy);
  return done;
}

/** Extends the deadline of a rollout while its listener is away, so that the rollout has nearly its full time afterwards. */
export async function extendRollout(
  deps: StepDeps,
  _state: DeploymentState,
  { revisionId }: { revisionId: string },
): Promise<Performed> {
  const until = deadlineOf(deps, "DEPLOYING") as Date;
  await deps.store.postponeDeadline({ id: revisionId, status: "DEPLOYING" }, until);
  return { kind: "later", retryInMs: listenerPollMs, because: listenerIsAway };
}

/** Returns when a status that a revision enters now counts as stuck; null for final statuses and for the queue. */
export function deadlineOf({ store, settings }: Pick<StepDeps, "store" | "settings">, status: string): Date | null {
  const limits: Record<string, number> = {
    AWAITING_BUILD: awaitingBuildTimeoutMs,
    AWAITING_DEPLOY: awaitingDeployTimeoutMs,
    DEPLOYING: settings.deployTimeoutMs + deadlineMarginMs,
  };
  const limit = limits[status];
  return limit === undefined ? null : new Date(store.now().getTime() + limit);
}
