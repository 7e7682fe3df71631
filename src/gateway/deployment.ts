import { TrafficCounter, type TrafficCounts } from "./counts.ts";
import type { Exchange } from "./exchange.ts";
import { type Refusal, refusals } from "./refusal.ts";
import { chooseReplica, type Replica } from "./replica.ts";
import type { Route } from "./route.ts";
import { WaitingQueue } from "./waiting-queue.ts";

/** Counts of a deployment without requests. Most of ten thousand have none, so their counter (0.6 kB) is created on demand. */
const noRequests = new TrafficCounter().read();

/** One deployment in the gateway: its route, its waiting requests and its counters. */
export class Deployment {
  #counter: TrafficCounter | undefined;
  /** Created when the first request waits. */
  #queue: WaitingQueue | undefined;
  readonly #limits: { waitMs: number; waitingMax: number };
  #route: Route;
  #replicas: Replica[] = [];
  /** Grows with each choice of a replica. */
  #turn = 0;
  /** When a request first woke a sleeping route. */
  #wokenAtMs: number | null = null;

  constructor(route: Route, limits: { waitMs: number; waitingMax: number }) {
    this.#route = route;
    this.#limits = limits;
  }

  get counter(): TrafficCounter {
    this.#counter ??= new TrafficCounter();
    return this.#counter;
  }

  get lastRequestAtMs(): number | null {
    return this.#counter?.lastRequestAtMs ?? null;
  }

  get inFlight(): number {
    return this.#counter?.inFlight ?? 0;
  }

  get waiting(): number {
    return this.#queue?.length ?? 0;
  }

  get route(): Route {
    return this.#route;
  }

  /** Replaces the route. By the new state, waiting requests are sent, refused, or wake the deployment. */
  setRoute(route: Route, replicas: Replica[], wake: () => void): void {
    const wasAsleep = this.#route.state === "asleep";
    const leaving = this.#replicas.filter((replica) => !replicas.includes(replica));
    this.#route = route;
    this.#replicas = replicas;
    for (const replica of replicas) replica.setRouted(true);
    for (const replica of leaving) replica.setRouted(false);
    if (route.state === "open") this.#open();
    if (route.state === "closed") this.refuseWaiting(refusals.closed(route.because));
    // Also for a repeated `asleep` route: the listener that was called before may not have been leading.
    if (route.state !== "asleep" || this.waiting === 0) return;
    if (wasAsleep) wake();
    else this.#wake(wake);
  }

  /** Removes the route. Waiting requests are refused, and replicas finish their requests in flight. */
  remove(): void {
    this.#route = { ...this.#route, state: "closed", targets: [] };
    this.refuseWaiting(refusals.unknown());
    for (const replica of this.#replicas) replica.setRouted(false);
    this.#replicas = [];
  }

  refuseWaiting(refusal: Refusal): void {
    this.#wokenAtMs = null;
    this.#queue?.removeAll((waiter) => waiter.refuse(refusal));
  }

  /**
   * Calls `go` at once or when the route opens, and `wake` if the request is the first to wait for a sleeping route.
   * Returns false if too many requests wait already.
   */
  admit(exchange: Exchange, { go, wake }: { go: () => void; wake: () => void }): boolean {
    const { state, because } = this.#route;
    if (state === "closed") exchange.refuse(refusals.closed(because));
    else if (state === "open" && this.waiting === 0) go();
    else return this.#wait(exchange, { go, wake });
    return true;
  }

  #wait(exchange: Exchange, { go, wake }: { go: () => void; wake: () => void }): boolean {
    this.#queue ??= new WaitingQueue(this.#limits);
    const queue = this.#queue;
    const onEnd = exchange.onEnd;
    const waiter = {
      go: () => {
        exchange.onEnd = onEnd;
        go();
      },
      refuse: (refusal: Refusal) => exchange.refuse(refusal),
      giveUp: () => exchange.refuse(refusals.waitedTooLong(this.#limits.waitMs)),
    };
    if (!queue.join(waiter)) return false;
    exchange.onEnd = () => {
      queue.leave(waiter);
      onEnd();
    };
    if (this.#route.state === "asleep" && queue.length === 1) this.#wake(wake);
    return true;
  }

  /** Returns the next replica for a request, or null if none is left. */
  chooseReplica({ tried }: Exchange): Replica | null {
    this.#turn += 1;
    return chooseReplica(this.#replicas, tried, this.#turn);
  }

  /** Whether a request may still find a replica: an untried one, or any once the route is open again. */
  hasAnother({ tried }: Exchange): boolean {
    return this.#route.state !== "open" || this.#replicas.some((replica) => !tried.includes(replica));
  }

  counts(): TrafficCounts {
    const { slug, deploymentId, revisionId } = this.#route;
    return { slug, deploymentId, revisionId, waiting: this.waiting, ...(this.#counter?.read() ?? noRequests) };
  }

  #open(): void {
    if (this.#wokenAtMs !== null) this.counter.countColdStart(performance.now() - this.#wokenAtMs);
    this.#wokenAtMs = null;
    this.#queue?.release(() => this.#route.state === "open");
  }

  #wake(wake: () => void): void {
    this.#wokenAtMs = performance.now();
    wake();
  }
}
