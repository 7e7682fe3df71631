import type { ReplicaExit, ReplicaState } from "../../compute/compute.ts";

interface Observation {
  state: ReplicaState;
  /** When it began, by the even clock that deadlines are counted by; settled at the first sight. */
  startedAtMs: number;
  /** Number of the observation that showed it last. */
  lastShownIn: number;
  /** Observations in a row that should have shown it and did not. */
  missed: number;
  /** Only observations with a later number can show or miss it: they began after it was started or last changed by us. */
  sinceNumber: number;
  /** The engine refused to start it, unless an observation says otherwise. */
  refusal: string | null;
}

/** An engine may answer once with what it saw before; a replica that two observations miss is lost. */
const missedMax = 2;

/**
 * What is known of all replicas: observations joined with what was done since they began. An observation is a list from
 * a moment in the past; a replica that was started or removed after that moment must not be misjudged by it.
 */
export class Observations {
  readonly #deployments = new Map<string, Observation[]>();
  /** The same by replica alone. */
  readonly #replicas = new Map<string, Observation>();
  /** Removed replicas, and the number of the observation that was under way then: it may still show them. */
  readonly #removed = new Map<string, number>();
  #lastStates: ReplicaState[] | null = null;
  #isUncertain = false;
  readonly #wallOffsetMs: () => number;

  /** @param wallOffsetMs how far the machine's clock, which drivers go by, is ahead of the even one. */
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

  /** A replica was started during or before observation `number`; with `refusal`, the engine said that it was not. */
  expect(state: ReplicaState, number: number, refusal: string | null): void {
    if (!this.#replicas.has(state.replicaId)) {
      const startedAtMs = state.startedAt.getTime();
      this.#add({ state, startedAtMs, lastShownIn: 0, missed: 0, sinceNumber: number, refusal });
    }
    this.#isUncertain = true;
  }

  /** A replica is gone, since before observation `number` ended. */
  forget(deploymentId: string, replicaId: string, number: number): void {
    this.#delete(deploymentId, replicaId);
    this.#removed.set(replicaId, number);
    this.#isUncertain = true;
  }

  /**
   * Takes over an observation.
   * @returns the deployments of which something changed, and whether another look is needed to be sure of a loss.
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
    // Nearly always everything known was shown, and nothing need be compared.
    if (shown < this.#replicas.size) this.#countMisses(number, changed);
    for (const [replicaId, removedDuring] of this.#removed) {
      if (number > removedDuring) this.#removed.delete(replicaId);
    }
    this.#isUncertain ||= this.#removed.size > 0;
    return { changed, isUncertain: this.#isUncertain };
  }

  /** @returns what is known of it now; undefined: it was removed meanwhile. */
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

  /** @returns whether the replica counts as lost now. */
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
    // A literal of them would have room for 16 more, 130 bytes of each deployment.
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
  message: "The replica is gone and nobody here removed it.",
  exitCode: null,
  signal: null,
  lastLines: [],
};

/** Unlike `StartError`, which a driver gives to what can never start, this may pass: a registry that is down, a full disk. */
const refusedExit = (message: string): ReplicaExit => ({ ...lostExit, reason: "EngineRefused", message });

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
