import { unlessAborted } from "../base/unless-aborted.ts";
import type { Compute, ReplicaExit, ReplicaSpec, ReplicaState } from "./compute.ts";
import { removeEach } from "./remove-each.ts";

/** Clock of the simulated world. Tests pass a virtual one. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Calls a function once after a delay. @returns a function that cancels it. */
  setTimeout(run: () => void, delayMs: number): () => void;
}

/** Which faults occur and how often. Every probability is per call or per replica, from 0 to 1. */
export interface Faults {
  /** Range of start times, log-uniform: most starts are quick and a few are very slow. */
  startDelayMs: { min: number; max: number };
  /** Range of times between SIGTERM and exit, log-uniform, cut off by `graceMs`. */
  stopDelayMs: { min: number; max: number };
  /** The replica exits instead of becoming ready. */
  startFails: number;
  /** The replica starts but never answers its health check: `NotHealthy` at the start deadline. */
  startHangs: number;
  /** `ensure` fails without starting the replica. */
  ensureRefuses: number;
  /** `ensure` fails although the replica was started. */
  ensureLies: number;
  /** `remove` fails although the replica is gone. */
  removeLies: number;
  /** `observe` returns its previous answer. */
  observeIsStale: number;
  /** Calls of `observe` fail. */
  observeFails: number;
  /** The change callback is not called when a replica became ready or exited: only the next regular poll finds it. */
  changeIsLost: number;
  /** Mean lifetime of a ready replica (exponential); null: it never dies. */
  lifetimeMs: number | null;
}

/** A world without faults, at the pace of a small agent server. */
const noFaults: Faults = {
  startDelayMs: { min: 5, max: 50 },
  stopDelayMs: { min: 1, max: 10 },
  startFails: 0,
  startHangs: 0,
  ensureRefuses: 0,
  ensureLies: 0,
  removeLies: 0,
  observeIsStale: 0,
  observeFails: 0,
  changeIsLost: 0,
  lifetimeMs: null,
};

export interface SimulatedWorldOptions {
  /** The same seed gives every replica and every call the same fate, in whatever order they come. */
  seed: number;
  faults?: Partial<Faults>;
  clock?: Clock;
  /** Address that ready replicas report. Nothing listens there unless the caller does. */
  address?: { host: string; port: number };
}

/** Simulated driver with its world. A later driver can be opened on the same world. */
export interface SimulatedCompute extends Compute {
  readonly world: SimulatedWorld;
}

/**
 * Opens a driver without processes: replicas are entries of a seeded world that delays, fails, gives wrong answers and
 * crashes replicas. For simulation and benchmarks: 10,000 replicas are one map. Closing the driver leaves its world
 * running, as real replicas would be.
 *
 * The environment of a replica can set its fate: `SIMULATE_START` = `ready`, `exit` or `hang` (default: the seed
 * decides), `SIMULATE_CAUSE` (the last line of a start that exits) and `SIMULATE_EXIT_AFTER_MS` (counted from ready).
 */
export function openSimulatedCompute(options: SimulatedWorldOptions | { world: SimulatedWorld }): SimulatedCompute {
  const world = "world" in options ? options.world : new SimulatedWorld(options);
  const subscribers = new Set<() => void>();
  let lastSeen: ReplicaState[] = [];
  const notifyAll = () => {
    for (const notify of subscribers) notify();
  };
  world.watchers.add(notifyAll);

  return {
    type: "simulated",
    world,
    async ensure(spec, signal) {
      signal.throwIfAborted();
      if (world.happens("ensureRefuses", spec.replicaId)) throw new Error("simulated: the engine refused");
      world.start(spec);
      if (world.happens("ensureLies", spec.replicaId)) throw new Error("simulated: the engine did not answer in time");
    },
    async observe(signal) {
      signal.throwIfAborted();
      if (world.happens("observeFails", "observe")) throw new Error("simulated: the engine did not answer in time");
      if (!world.happens("observeIsStale", "observe")) lastSeen = world.snapshot();
      return lastSeen;
    },
    async remove(replicaId, { graceMs, signal }) {
      await unlessAborted(() => world.stop(replicaId, graceMs), signal);
      if (world.happens("removeLies", replicaId)) throw new Error("simulated: the engine did not answer in time");
    },
    async removeAll(options) {
      await removeEach(
        this,
        world.snapshot().map(({ replicaId }) => replicaId),
        options,
      );
    },
    async removeState() {},
    onChange(notify) {
      subscribers.add(notify);
    },
    async close() {
      world.watchers.delete(notifyAll);
      subscribers.clear();
    },
  };
}

interface Entry {
  state: ReplicaState;
  /** The only part of the environment that is stored: whole environments of 10,000 replicas would take 20 MB. */
  overrides: { start: string | undefined; cause: string | undefined; exitAfterMs: string | undefined };
  /** Cancels the next planned event of this replica. */
  cancelNext: () => void;
  stopped?: Promise<void>;
}

const nothingNext = () => {};

const limit = "not enforced: a simulated replica uses nothing";
const limits = { memory: limit, cpu: limit };

/** The simulated replicas. Outlives the drivers that are opened on it. */
export class SimulatedWorld {
  readonly watchers = new Set<() => void>();
  readonly #entries = new Map<string, Entry>();
  readonly #drawCounts = new Map<string, number>();
  readonly #seed: number;
  readonly #faults: Faults;
  readonly #clock: Clock;
  readonly #address: { host: string; port: number };
  #snapshot: ReplicaState[] | undefined;
  #isNotifying = false;

  constructor({ seed, faults, clock = systemClock, address = { host: "127.0.0.1", port: 1 } }: SimulatedWorldOptions) {
    this.#seed = seed;
    this.#faults = { ...noFaults, ...faults };
    this.#clock = clock;
    this.#address = address;
  }

  /** Returns all states. Rebuilt once per change, so that observing 10,000 unchanged replicas costs nothing. */
  snapshot(): ReplicaState[] {
    this.#snapshot ??= Array.from(this.#entries.values(), (entry) => entry.state);
    return this.#snapshot;
  }

  /** Draws whether a fault occurs. The n-th draw for a subject always has the same result. */
  happens(fault: ProbabilityName, subject: string): boolean {
    const probability = this.#faults[fault];
    if (probability === 0) return false;
    const question = `${fault} ${subject}`;
    const turn = this.#drawCounts.get(question) ?? 0;
    this.#drawCounts.set(question, turn + 1);
    return this.#draw(`${question} ${turn}`) < probability;
  }

  start(spec: ReplicaSpec): void {
    if (this.#entries.has(spec.replicaId)) return;
    const { replicaId, deploymentId, revisionId, env } = spec;
    const entry: Entry = {
      overrides: {
        start: env["SIMULATE_START"],
        cause: env["SIMULATE_CAUSE"],
        exitAfterMs: env["SIMULATE_EXIT_AFTER_MS"],
      },
      state: {
        replicaId,
        deploymentId,
        revisionId,
        phase: "starting",
        startedAt: new Date(this.#clock.now()),
        limits,
      },
      cancelNext: nothingNext,
    };
    this.#entries.set(replicaId, entry);
    this.#snapshot = undefined;
    this.#planStart(entry, spec.startTimeoutMs);
  }

  /** Ends a running replica as if it had crashed. For tests. */
  crash(replicaId: string, exit: Partial<ReplicaExit> = {}): void {
    const entry = this.#entries.get(replicaId);
    if (entry?.state.phase !== "starting" && entry?.state.phase !== "ready") return;
    entry.cancelNext();
    this.#exit(entry, { ...crashed, ...exit });
  }

  /** Resolves when the replica is gone; a second call waits for the first. */
  stop(replicaId: string, graceMs: number): Promise<void> {
    const entry = this.#entries.get(replicaId);
    if (entry === undefined) return Promise.resolve();
    entry.stopped ??= new Promise((resolve) => {
      const delayMs = Math.min(graceMs, this.#drawMs(this.#faults.stopDelayMs, `stop ${replicaId}`));
      const wasRunning = entry.state.phase !== "exited";
      entry.cancelNext();
      if (wasRunning) this.#change(entry, { phase: "stopping" }, false);
      const forget = () => {
        this.#entries.delete(replicaId);
        this.#snapshot = undefined;
        resolve();
      };
      if (wasRunning) entry.cancelNext = this.#clock.setTimeout(forget, delayMs);
      else forget();
    });
    return entry.stopped;
  }

  #planStart(entry: Entry, startTimeoutMs: number): void {
    const { replicaId } = entry.state;
    const fate = entry.overrides.start ?? this.#drawFate(replicaId);
    const delayMs = fate === "hang" ? startTimeoutMs : this.#drawMs(this.#faults.startDelayMs, `start ${replicaId}`);
    entry.cancelNext = this.#clock.setTimeout(
      () => {
        if (fate === "exit") this.#exit(entry, brokenStart(entry.overrides.cause));
        else if (fate === "hang" || delayMs >= startTimeoutMs) this.#exit(entry, notHealthy(startTimeoutMs));
        else this.#becomeReady(entry);
      },
      Math.min(delayMs, startTimeoutMs),
    );
  }

  #drawFate(replicaId: string): "ready" | "exit" | "hang" {
    if (this.happens("startFails", replicaId)) return "exit";
    return this.happens("startHangs", replicaId) ? "hang" : "ready";
  }

  #becomeReady(entry: Entry): void {
    this.#change(entry, { phase: "ready", address: this.#address, serverVersion: "simulated" });
    const { lifetimeMs } = this.#faults;
    const { exitAfterMs } = entry.overrides;
    const leftMs =
      exitAfterMs !== undefined
        ? Number(exitAfterMs)
        : lifetimeMs !== null && this.#drawLifetimeMs(entry.state.replicaId, lifetimeMs);
    entry.cancelNext = nothingNext;
    if (leftMs !== false) entry.cancelNext = this.#clock.setTimeout(() => this.#exit(entry, crashed), leftMs);
  }

  #exit(entry: Entry, exit: ReplicaExit): void {
    const { address: _, ...state } = entry.state;
    entry.state = state;
    this.#change(entry, { phase: "exited", exit });
  }

  #change(entry: Entry, change: Partial<ReplicaState>, isReported = true): void {
    entry.state = { ...entry.state, ...change };
    this.#snapshot = undefined;
    if (!isReported || this.#isNotifying || this.happens("changeIsLost", entry.state.replicaId)) return;
    this.#isNotifying = true;
    // A thousand starts at the same moment cause one notification.
    queueMicrotask(() => {
      this.#isNotifying = false;
      for (const watch of this.watchers) watch();
    });
  }

  #drawLifetimeMs(replicaId: string, meanMs: number): number {
    return -Math.log(1 - this.#draw(`lifetime ${replicaId}`)) * meanMs;
  }

  #drawMs({ min, max }: { min: number; max: number }, question: string): number {
    return Math.max(min, 0.001) * (max / Math.max(min, 0.001)) ** this.#draw(question);
  }

  #draw(question: string): number {
    return fraction(`${this.#seed} ${question}`);
  }
}

type ProbabilityName = { [Name in keyof Faults]: Faults[Name] extends number ? Name : never }[keyof Faults];

const crashed: ReplicaExit = {
  reason: "Exited",
  message: "The agent server ended with exit code 1. The last lines of its log show the cause.",
  exitCode: 1,
  signal: null,
  lastLines: ["simulated: the agent server crashed"],
};

const brokenStart = (cause = "simulated: the agent server cannot start"): ReplicaExit => ({
  ...crashed,
  message: "The agent server ended with exit code 3 before it was ready. The last lines of its log show the cause.",
  exitCode: 3,
  lastLines: [cause],
});

const notHealthy = (startTimeoutMs: number): ReplicaExit => ({
  reason: "NotHealthy",
  message: `The agent server did not answer its health check within ${startTimeoutMs / 1000} s and was killed.`,
  exitCode: null,
  signal: "SIGKILL",
  lastLines: ["simulated: the agent server started but never answers"],
});

const systemClock: Clock = {
  now: Date.now,
  setTimeout(run, delayMs) {
    // Node's timers hold 31 bits; a longer delay would fire at once. The timer does not keep the process alive.
    const timer = setTimeout(run, Math.min(delayMs, 2 ** 31 - 1)).unref();
    return () => clearTimeout(timer);
  },
};

/** Returns a number in [0, 1) that depends on every character: FNV-1a, then murmur's finalizer to spread similar texts. */
function fraction(question: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < question.length; index++) {
    hash = Math.imul(hash ^ question.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
