import type { ReplicaExit, ReplicaState } from "../../compute/compute.ts";

/** Why a replica could not be started for now. */
export interface Refusal {
  reason: "EngineRefused" | "NoCapacity" | "RegistryUnreachable";
  message: string;
}

interface Observation {
  state: ReplicaState;
  /** Start time on the steady clock, which deadlines use. Fixed when the replica is first observed. */
  startedAtMs: number;
  /** Number of the last observation that showed it. */
  lastShownIn: number;
  /** Observations in a row that should have shown it and did not. */
  missed: number;
  /** Only observations with a higher number began after we started or last changed it, so only they can show or miss it. */
  sinceNumber: number;
  /** Why the engine refused to start it. Null once an observation shows it. */
  refusal: Refusal | null;
}

/** An engine may once answer with an outdated list. A replica that two observations miss is lost. */
const missedMax = 2;

/**
 * The known state of all replicas: observations joined with the operations that ran since they began. An observation lists
 * the replicas of a moment in the past, so it says nothing about a replica that was started or removed after that moment.
 */
export class Observations {
  readonly #deployments = new Map<string, Observation[]>();
  /** The same entries by replica id. */
  readonly #replicas = new Map<string, Observation>();
  /** Removed replicas with the number of the observation in progress at that time, which may still show them. */
  readonly #removed = new Map<string, number>();
  #lastStates: ReplicaState[] | null = null;
  #isUncertain = false;
  readonly #wallOffsetMs: () => number;

  /** @param wallOffsetMs how far the machine's clock, which drivers use, is ahead of the steady clock. */
  constructor(wallOffsetMs: () => number = () => 0) {
    this.#wallOffsetMs = wallOffsetMs;
  }

  startedAtMs(replicaId: string): number | null {
    return this.#replicas.get(replicaId)?.startedAtMs ?? null;
  }

  of(deploymentId: string): ReplicaState[] {
    return (this.#deployments.get(deploymentId) ?? []).map(({ state }) => state);
  }

  deploymentIds(): Iterable<string> {
    return this.#deployments.keys();
  }

  /** Records a start during or before observation `number`. `refusal` is the engine's reason if it refused the start. */
  expect(state: ReplicaState, number: number, refusal: Refusal | null): void {
    if (!this.#replicas.has(state.replicaId)) {
      const startedAtMs = state.startedAt.getTime();
      this.#add({ state, startedAtMs, lastShownIn: 0, missed: 0, sinceNumber: number, refusal });
    }
    this.#isUncertain = true;
  }

  /** Records a removal that completed before observation `number` ended. */
  forget(deploymentId: string, replicaId: string, number: number): void {
    this.#delete(deploymentId, replicaId);
    this.#removed.set(replicaId, number);
    this.#isUncertain = true;
  }

  /**
   * Applies an observation.
   * @returns the deployments that changed, and whether another observation is needed to confirm a loss.
   */
  update(states: ReplicaState[], number: number): { changed: Set<string>; isUncertain: boolean } {
    const changed = new Set<string>();
    if (states === this.#lastStates && !this.#isUncertain) return { changed, isUncertain: false };
    this.#lastStates = states;
    let shown = 0;
    for (const state of states) {
      const known = this.#apply(state, number, changed);
      if (known === undefined || known.lastShownIn === number) continue;
      known.lastShownIn = number;
      shown += 1;
    }
    this.#isUncertain = false;
    // In nearly every case the observation shows all known replicas, and there is nothing to compare.
    if (shown < this.#replicas.size) this.#countMisses(number, changed);
    for (const [replicaId, removedDuring] of this.#removed) {
      if (number > removedDuring) this.#removed.delete(replicaId);
    }
    this.#isUncertain ||= this.#removed.size > 0;
    return { changed, isUncertain: this.#isUncertain };
  }

  /** Returns the updated entry, or undefined if the replica was removed in the meantime. */
  #apply(state: ReplicaState, number: number, changed: Set<string>): Observation | undefined {
    const known = this.#replicas.get(state.replicaId);
    if (known === undefined) {
      const removedDuring = this.#removed.get(state.replicaId);
      if (removedDuring !== undefined && number <= removedDuring) return undefined;
      changed.add(state.deploymentId);
      const startedAtMs = state.startedAt.getTime() - this.#wallOffsetMs();
      return this.#add({ state, startedAtMs, lastShownIn: 0, missed: 0, sinceNumber: 0, refusal: null });
    }
    known.missed = 0;
    known.refusal = null;
    if (known.state !== state && !isSame(known.state, state)) {
      known.state = state;
      changed.add(state.deploymentId);
    }
    return known;
  }

  #countMisses(number: number, changed: Set<string>): void {
    for (const known of this.#replicas.values()) {
      if (known.lastShownIn !== number && this.#miss(known, number)) changed.add(known.state.deploymentId);
    }
  }

  /** Counts a miss. Returns whether the replica now counts as lost. */
  #miss(known: Observation, number: number): boolean {
    const { state, refusal, sinceNumber } = known;
    if (number <= sinceNumber) {
      this.#isUncertain = true;
      return false;
    }
    if (state.phase === "exited" && known.missed > 0) return false;
    known.missed += 1;
    const isLost = refusal !== null || known.missed >= missedMax;
    if (!isLost) {
      this.#isUncertain = true;
      return false;
    }
    const { address: _, ...rest } = state;
    known.state = {
      ...rest,
      phase: "exited",
      exit: state.exit ?? (refusal === null ? lostExit : refusedExit(refusal)),
    };
    return true;
  }

  #add(known: Observation): Observation {
    const { deploymentId, replicaId } = known.state;
    const others = this.#deployments.get(deploymentId) ?? [];
    // `concat` allocates no spare capacity. A literal with a spread would reserve 16 more entries, 130 bytes per deployment.
    this.#deployments.set(deploymentId, others.concat(known));
    this.#replicas.set(replicaId, known);
    return known;
  }

  #delete(deploymentId: string, replicaId: string): void {
    this.#replicas.delete(replicaId);
    const others = this.#deployments.get(deploymentId)?.filter(({ state }) => state.replicaId !== replicaId) ?? [];
    if (others.length === 0) this.#deployments.delete(deploymentId);
    else this.#deployments.set(deploymentId, others);
  }
}

const lostExit: ReplicaExit = {
  reason: "Lost",
  message: "The replica disappeared, and Pierhead did not remove it.",
  exitCode: null,
  signal: null,
  lastLines: [],
};

/** Unlike `StartError`, which means that a replica can never start, this may pass: a registry is down or a disk is full. */
const refusedExit = (refusal: Refusal): ReplicaExit => ({ ...lostExit, ...refusal });

function isSame(a: ReplicaState, b: ReplicaState): boolean {
  return (
    a.phase === b.phase &&
    a.address?.host === b.address?.host &&
    a.address?.port === b.address?.port &&
    a.serverVersion === b.serverVersion &&
    a.exit?.reason === b.exit?.reason &&
    a.limits.memory === b.limits.memory &&
    a.limits.cpu === b.limits.cpu
  );
}
