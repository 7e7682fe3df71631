import type { ReplicaState } from "../../compute/compute.ts";
import type { Traffic } from "../../gateway/route.ts";
import type { Observations } from "./observations.ts";
import type { Operations } from "./operations.ts";
import type { ReplicaFacts, RunCount } from "./plan-state.ts";

type LoadOfReplicas = Pick<Traffic, "inFlight" | "oldestRequestMs">;

const noLimitsYet = { memory: "not known yet", cpu: "not known yet" };

/** Returns the replicas of a deployment: the observed ones, and those that are starting and were not observed yet. */
export function replicaFacts(
  deploymentId: string,
  known: {
    observations: Observations;
    operations: Operations;
    traffic: LoadOfReplicas;
    runs: ReadonlyMap<string, RunCount> | null;
  },
): ReplicaFacts[] {
  const { observations, operations, traffic, runs } = known;
  const facts = new Map<string, ReplicaFacts>();
  for (const state of observations.of(deploymentId)) {
    const startedAtMs = observations.startedAtMs(state.replicaId);
    facts.set(state.replicaId, { ...factsOf(state, startedAtMs, traffic), runs: runs?.get(state.replicaId) ?? null });
  }
  for (const { replicaId, revisionId, kind, startedAtMs } of operations.of(deploymentId)) {
    const isBeingRemoved = kind === "remove";
    const observed = facts.get(replicaId);
    if (observed !== undefined) observed.isBeingRemoved = isBeingRemoved;
    else
      facts.set(replicaId, {
        replicaId,
        revisionId,
        phase: "starting",
        startedAtMs,
        isBeingRemoved,
        inFlight: 0,
        oldestRequestMs: 0,
        runs: null,
        limits: noLimitsYet,
      });
  }
  return [...facts.values()];
}

function factsOf(
  { startedAt: _at, deploymentId: _, ...state }: ReplicaState,
  startedAtMs: number | null,
  traffic: LoadOfReplicas,
): Omit<ReplicaFacts, "runs"> {
  const { replicaId } = state;
  const inFlight = traffic.inFlight(replicaId);
  return {
    ...state,
    startedAtMs,
    isBeingRemoved: false,
    inFlight,
    oldestRequestMs: traffic.oldestRequestMs(replicaId),
  };
}
