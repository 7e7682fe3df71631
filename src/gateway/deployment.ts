import { TrafficCounter, type TrafficCounts } from "./counts.ts";
import type { Exchange } from "./exchange.ts";
import { type Refusal, refusals } from "./refusal.ts";
import { chooseReplica, type Replica } from "./replica.ts";
import type { Route } from "./route.ts";
import { WaitingQueue } from "./waiting-queue.ts";

/** Most of ten thousand deployments are asked nothing: what counts their requests is 0.6 kB, made for the first. */
const noRequests = new TrafficCounter().read();

/** What the gateway knows of one deployment: its route, who waits for it, and what was counted. */
export class Deployment {
  #counter: TrafficCounter | undefined;
  /** Made for the first that waits. */
  #queue: WaitingQueue | undefined;
  readonly #limits: { waitMs: number; waitingMax: number };
  #route: Route;
  #replicas: Replica[] = [];
  /** Grows with each choice of a replica. */
  #turn = 0;
  /** When a request first asked a sleeping route to wake. */
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

  /** Takes the route over; what waits goes on, is refused, or calls `wake`, as the new state says. */
  setRoute(route: Route, replicas: Replica[], wake: () => void): void {
    const wasAsleep = this.#route.state === "asleep";
    const leaving = this.#replicas.filter((replica) => !replicas.includes(replica));
    this.#route = route;
    this.#replicas = replicas;
    for (const replica of replicas) replica.setRouted(true);
    for (const replica of leaving) replica.setRouted(false);
    if (route.state === "open") this.#open();
    if (route.state === "closed") this.refuseWaiting(refusals.closed(route.because));
    // Also when it is said again: who was called before may not have been acting then.
    if (route.state !== "asleep" || this.waiting === 0) return;
    if (wasAsleep) wake();
    else this.#wake(wake);
  }

  /** The route is gone: whoever waits is told so, replicas end with what is under way. */
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
   * Calls `go` at once or when it is the request's turn, `wake` when it is the first to wait for a sleeping route.
   * False: too many wait already.
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

  /** The next replica for a request; null: none is left. */
  chooseReplica({ tried }: Exchange): Replica | null {
    this.#turn += 1;
    return chooseReplica(this.#replicas, tried, this.#turn);
  }

  /** Whether a request may still find a replica: one it has not tried, or by waiting for the route to open. */
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
