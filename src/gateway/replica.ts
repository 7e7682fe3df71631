import { Agent } from "node:http";
import type { BurstsOfServer, BurstTurns } from "./burst-turns.ts";
import type { Route } from "./route.ts";

type Target = Route["targets"][number];

interface ReplicaOptions {
  idleSocketMs: number;
  agentPort: number | null;
  /** Turns of all replicas of the gateway. */
  burstTurns: BurstTurns;
  onGone: (replica: Replica) => void;
}

/** One target of a route: its connections and the number of its requests in flight. */
export class Replica {
  readonly id: string;
  host: string;
  port: number;
  /** Port at which the agent server listens in a network of its own. Null: `port`. */
  readonly agentPort: number | null;
  #agent: Agent | undefined;
  /** Requests in flight with the time at which each began, the oldest first. */
  readonly #requests = new Map<object, number>();
  #isRouted = true;
  readonly #idleSocketMs: number;
  readonly #onGone: (replica: Replica) => void;
  #idleCalls: Set<() => void> | undefined;
  readonly #burstTurns: BurstTurns;
  #bursts: BurstsOfServer | undefined;

  /**
   * `idleSocketMs` limits how long an idle connection is kept. It must be shorter than the agent server's own limit (5 s in
   * Node and in uvicorn), because a request that is sent while the server closes the connection fails.
   * `onGone` is called when no route names the replica any more and it has no request in flight.
   */
  constructor(target: Target, { idleSocketMs, agentPort, burstTurns, onGone }: ReplicaOptions) {
    this.id = target.replicaId;
    this.host = target.host;
    this.port = target.port;
    this.agentPort = agentPort;
    this.#idleSocketMs = idleSocketMs;
    this.#burstTurns = burstTurns;
    this.#onGone = onGone;
  }

  /** Created for the first request: a Node agent takes 1.5 kB, and most of ten thousand replicas get no request. */
  get agent(): Agent {
    this.#agent ??= new Agent({ keepAlive: true, scheduling: "lifo", timeout: this.#idleSocketMs });
    return this.#agent;
  }

  get bursts(): BurstsOfServer {
    this.#bursts ??= this.#burstTurns.ofServer();
    return this.#bursts;
  }

  get inFlight(): number {
    return this.#requests.size;
  }

  /** Age of the oldest request in flight. 0: there is none. */
  get oldestRequestMs(): number {
    const [beganAtMs] = this.#requests.values();
    return beganAtMs === undefined ? 0 : performance.now() - beganAtMs;
  }

  setRouted(isRouted: boolean): void {
    this.#isRouted = isRouted;
    this.#disposeWhenUnused();
  }

  begin(exchange: object): void {
    this.#requests.set(exchange, performance.now());
  }

  end(exchange: object): void {
    this.#requests.delete(exchange);
    if (this.inFlight > 0) return;
    for (const call of [...(this.#idleCalls ?? [])]) call();
    this.#disposeWhenUnused();
  }

  #disposeWhenUnused(): void {
    if (this.#isRouted || this.inFlight > 0) return;
    this.#agent?.destroy();
    this.#onGone(this);
  }

  /** Resolves to true once no request is in flight, or to false after `timeoutMs`. @throws the reason of `signal`. */
  untilIdle({ timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal }): Promise<boolean> {
    signal.throwIfAborted();
    if (this.inFlight === 0) return Promise.resolve(true);
    return new Promise((resolve, reject) => {
      const settle = (act: () => void) => () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", onAbort);
        this.#idleCalls?.delete(onIdle);
        act();
      };
      const onIdle = settle(() => resolve(true));
      const onAbort = settle(() => reject(signal.reason));
      const timer = setTimeout(
        settle(() => resolve(false)),
        timeoutMs,
      );
      signal.addEventListener("abort", onAbort);
      this.#idleCalls ??= new Set();
      this.#idleCalls.add(onIdle);
    });
  }
}

/**
 * Returns the replica with the fewest requests in flight. Among equals it takes the one after the last choice, so that an
 * idle deployment uses its replicas in turn. `turn` is a number that grows with each choice.
 */
export function chooseReplica(replicas: readonly Replica[], tried: readonly Replica[], turn: number): Replica | null {
  let best: Replica | null = null;
  for (let offset = 0; offset < replicas.length; offset += 1) {
    const replica = replicas[(turn + offset) % replicas.length];
    if (replica === undefined || tried.includes(replica)) continue;
    if (best === null || replica.inFlight < best.inFlight) best = replica;
  }
  return best;
}
