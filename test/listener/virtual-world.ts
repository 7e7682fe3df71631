import { randomUUID } from "node:crypto";
import type { Clock } from "../../src/base/clock.ts";
import { createListenerClient, type OpenStream, type Send } from "../../src/client/listener-client.ts";
import type { Compute, ReplicaMetrics, ReplicaRuns } from "../../src/compute/compute.ts";
import { type Faults, openSimulatedCompute, type SimulatedWorld } from "../../src/compute/simulated.ts";
import type { Route, Traffic } from "../../src/gateway/route.ts";
import { createListener, type Listener } from "../../src/listener/listener.ts";
import { replicaFleet } from "../../src/listener/replicas/replica-fleet.ts";
import { createLogger } from "../../src/telemetry/log.ts";

/** An engine that is slow, refuses, lies and loses callbacks, with replicas that fail to start and die. */
export const hostile: Partial<Faults> = {
  startDelayMs: { min: 5, max: 8_000 },
  stopDelayMs: { min: 1, max: 5_000 },
  startFails: 0.1,
  startHangs: 0.03,
  ensureRefuses: 0.1,
  ensureLies: 0.1,
  removeLies: 0.1,
  observeIsStale: 0.1,
  observeFails: 0.05,
  changeIsLost: 0.1,
};

/** A clock that a test advances, with seeded randomness. */
export class VirtualClock implements Clock {
  #nowMs = 1_700_000_000_000;
  #turn = 0;
  #state: number;
  readonly #timers: { atMs: number; turn: number; run: () => void }[] = [];

  constructor(seed: number) {
    this.#state = seed;
  }

  now = (): number => this.#nowMs;
  monotonicMs = this.now;

  setTimeout = (run: () => void, delayMs: number): (() => void) => {
    const timer = { atMs: this.#nowMs + Math.max(0, delayMs), turn: this.#turn++, run };
    let at = this.#timers.length;
    while (at > 0 && (this.#timers[at - 1]?.atMs ?? 0) > timer.atMs) at--;
    this.#timers.splice(at, 0, timer);
    return () => {
      const index = this.#timers.indexOf(timer);
      if (index >= 0) this.#timers.splice(index, 1);
    };
  };

  /** mulberry32 */
  random = (): number => {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };

  chance(probability: number): boolean {
    return this.random() < probability;
  }

  oneOf<T>(items: readonly T[]): T | undefined {
    return items[Math.floor(this.random() * items.length)];
  }

  /** Advances time. Between two timers, everything that follows from the first one completes. */
  async pass(ms: number): Promise<void> {
    const endMs = this.#nowMs + ms;
    await settle();
    for (let next = this.#timers[0]; next !== undefined && next.atMs <= endMs; next = this.#timers[0]) {
      this.#timers.shift();
      this.#nowMs = Math.max(this.#nowMs, next.atMs);
      next.run();
      await settle();
    }
    this.#nowMs = endMs;
  }
}

/** Waits for promise chains without timers. A few turns of the event loop let each of them end. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 2; turn++) await new Promise(setImmediate);
}

/** Routes and requests in virtual time. A request stays on its replica until it ends. */
export class VirtualTraffic implements Traffic {
  readonly routes = new Map<string, Route>();
  readonly #clock: Clock;
  readonly #inFlight = new Map<string, number>();
  readonly #lastAtMs = new Map<string, number>();
  readonly #idleCalls = new Set<{ replicaId: string; call: () => void }>();
  #wake: (deploymentId: string) => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  setRoute(route: Route): void {
    this.routes.set(route.slug, route);
  }

  removeRoute(slug: string): void {
    this.routes.delete(slug);
  }

  inFlight(replicaId: string): number {
    return this.#inFlight.get(replicaId) ?? 0;
  }

  /** Simulated requests count as long ones, so a handover waits for them before it holds others. */
  oldestRequestMs(replicaId: string): number {
    return this.inFlight(replicaId) === 0 ? 0 : Number.POSITIVE_INFINITY;
  }

  /** Simulations collect no metrics. */
  counts(): [] {
    return [];
  }

  lastRequestAt(slug: string): Date | null {
    const atMs = this.#lastAtMs.get(slug);
    return atMs === undefined ? null : new Date(atMs);
  }

  onWake(wake: (deploymentId: string) => void): void {
    this.#wake = wake;
  }

  async drained(
    replicaId: string,
    { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
  ): Promise<boolean> {
    if (this.inFlight(replicaId) === 0) return true;
    return new Promise((resolve, reject) => {
      const waiting = { replicaId, call: () => end(() => resolve(true)) };
      const cancel = this.#clock.setTimeout(() => end(() => resolve(false)), timeoutMs);
      const end = (act: () => void) => {
        cancel();
        this.#idleCalls.delete(waiting);
        act();
      };
      this.#idleCalls.add(waiting);
      signal.addEventListener("abort", () => end(() => reject(signal.reason)), { once: true });
    });
  }

  /** A request arrives and, if a replica accepts it, lasts this long. */
  request(slug: string, lastsMs: number): void {
    const route = this.routes.get(slug);
    if (route === undefined) return;
    this.#lastAtMs.set(slug, this.#clock.now());
    if (route.state === "asleep") this.#wake(route.deploymentId);
    const replicaId = route.targets[0]?.replicaId;
    if (route.state !== "open" || replicaId === undefined) return;
    this.#inFlight.set(replicaId, this.inFlight(replicaId) + 1);
    this.#clock.setTimeout(() => {
      this.#lastAtMs.set(slug, this.#clock.now());
      this.#inFlight.set(replicaId, this.inFlight(replicaId) - 1);
      if (this.inFlight(replicaId) > 0) return;
      for (const waiting of [...this.#idleCalls]) if (waiting.replicaId === replicaId) waiting.call();
    }, lastsMs);
  }
}

export interface VirtualProcess {
  listener: Listener;
  traffic: VirtualTraffic;
  /** Kills the process like `kill -9`: no timer fires and no call is answered. */
  kill(): void;
}

/** Starts a listener process on virtual time. @param knows the optional features of its compute. */
export function startVirtualProcess(
  clock: VirtualClock,
  world: SimulatedWorld,
  send: Send,
  knows: Partial<ReplicaMetrics & ReplicaRuns> = {},
  openStream?: OpenStream,
): VirtualProcess {
  let isKilled = false;
  const own: Clock = {
    now: clock.now,
    monotonicMs: clock.now,
    random: clock.random,
    setTimeout: (run, delayMs) => clock.setTimeout(() => void (isKilled || run()), delayMs),
  };
  const never = new Promise<never>(() => {});
  const alive = <T>(call: () => Promise<T>): Promise<T> => {
    if (isKilled) return never;
    return call().then(
      (value) => (isKilled ? never : value),
      (error) => (isKilled ? never : Promise.reject(error)),
    );
  };
  const engine = openSimulatedCompute({ world });
  let hasObserved = false;
  const compute: Compute & typeof knows = {
    ...knows,
    type: engine.type,
    ensure: (spec, signal) => alive(() => engine.ensure(spec, signal)),
    async observe(signal) {
      // A freshly opened driver has no outdated list to answer with.
      while (!hasObserved) hasObserved = (await engine.observe(signal).catch(() => null)) === world.snapshot();
      return alive(() => engine.observe(signal));
    },
    remove: (replicaId, options) => alive(() => engine.remove(replicaId, options)),
    removeAll: (options) => alive(() => engine.removeAll(options)),
    removeState: (deploymentId) => alive(() => engine.removeState(deploymentId)),
    onChange: (changed) => engine.onChange(() => void (isKilled || changed())),
    close: () => engine.close(),
  };
  const traffic = new VirtualTraffic(own);
  const client = createListenerClient((request) => alive(() => send(request)), openStream);
  const options = { logger: createLogger("silent"), instanceId: randomUUID(), version: "0.0.0", clock: own };
  const listener = createListener({ client, ...options }, replicaFleet({ compute, traffic }));
  listener.start();
  return {
    listener,
    traffic,
    kill() {
      isKilled = true;
      void engine.close();
    },
  };
}
