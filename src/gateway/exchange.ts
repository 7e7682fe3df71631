import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Address } from "./address.ts";
import type { FailureKind, TrafficCounter } from "./counts.ts";
import { ownHeaders } from "./headers.ts";
import { answerRefusal, type Refusal } from "./refusal.ts";
import type { Replica } from "./replica.ts";
import type { UpgradeSocket } from "./upgrade-socket.ts";

/**
 * How long the rest of a body is read and thrown away after its answer. Closing at once would reset the connection,
 * and the client would see that instead of the answer.
 */
const lingerMs = 5_000;

/**
 * One request on its way through the gateway, from its arrival until its answer is complete or broken off. Whatever
 * happens, it ends once, gives back the replica it was counted on and leaves no connection behind.
 */
export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly address: Address;
  readonly requestId: string;
  /** Set for a WebSocket: the raw connection, and what came in on it. */
  readonly upgrade: UpgradeSocket | null;
  readonly arrivedAtMs = performance.now();
  /** Of the route it was last sent along. */
  revisionId: string | null = null;
  attempts = 0;
  /** Replicas that accepted no connection. */
  readonly tried: Replica[] = [];
  /** Called once, when it is over. */
  onEnd: () => void = () => {};
  readonly #counter: TrafficCounter;
  #replica: Replica | null = null;
  #upstream: ClientRequest | null = null;
  #deadline: NodeJS.Timeout | null = null;
  #failure: FailureKind | null = null;
  #hasEnded = false;
  #isAdmitted = false;
  #isTunnel = false;

  constructor(
    parts: Pick<Exchange, "request" | "response" | "address" | "requestId" | "upgrade"> & { counter: TrafficCounter },
  ) {
    this.request = parts.request;
    this.response = parts.response;
    this.address = parts.address;
    this.requestId = parts.requestId;
    this.upgrade = parts.upgrade;
    this.#counter = parts.counter;
    this.#counter.requests += 1;
    (this.upgrade?.socket ?? this.response).once("close", () => this.#end());
  }

  /** Nothing that an agent server does can change its answer any more. */
  get isSettled(): boolean {
    return this.#hasEnded || this.#failure !== null;
  }

  get counter(): TrafficCounter {
    return this.#counter;
  }

  /** It was let in, and keeps its deployment awake from here on. Who may not call does not: guesses at keys never end. */
  admit(): void {
    this.#isAdmitted = true;
    this.#recordTime();
  }

  /** Counts it on a replica; `upstream` is destroyed when the client leaves. */
  attempt(replica: Replica, upstream: ClientRequest): void {
    this.attempts += 1;
    this.#replica = replica;
    this.#upstream = upstream;
    replica.begin();
    this.#counter.inFlight += 1;
  }

  /** The attempt came to nothing: it is no longer under way to its replica. */
  releaseReplica(): void {
    const replica = this.#replica;
    if (replica === null) return;
    this.#replica = null;
    this.#upstream = null;
    this.#counter.inFlight -= 1;
    replica.end();
  }

  /** Refuses it once `durationMs` have passed. */
  setDeadline(durationMs: number, refuse: () => void): void {
    this.#deadline ??= setTimeout(refuse, durationMs).unref();
  }

  /** Answers in the agent server's place, or breaks the answer off when it has begun. Only the first call counts. */
  refuse(refusal: Refusal): void {
    if (this.isSettled) return;
    this.fail(refusal.kind ?? "refused");
    this.#upstream?.destroy();
    if (this.response.headersSent) this.breakOff();
    else answerRefusal(this.response, refusal, ownHeaders(this));
  }

  /** Counts a failure; the first one is the reason. */
  fail(kind: FailureKind): void {
    if (this.isSettled) return;
    this.#failure = kind;
    this.#counter.countFailure(kind);
  }

  /** Ends the connection in the middle of the answer: the client must not take it for whole. */
  breakOff(): void {
    (this.upgrade?.socket ?? this.response).destroy();
  }

  /** It became a WebSocket: no limit of time, its end is the end of the connection. */
  becomeTunnel(): void {
    this.#isTunnel = true;
    clearTimeout(this.#deadline ?? undefined);
    this.#counter.countAnswer(101);
  }

  #recordTime(): void {
    this.#counter.lastRequestAtMs = Math.round(performance.timeOrigin + performance.now());
  }

  #end(): void {
    const isWhole = this.#isTunnel || this.response.writableFinished;
    if (!isWhole) this.fail("aborted");
    this.#hasEnded = true;
    clearTimeout(this.#deadline ?? undefined);
    if (!this.#isTunnel && this.response.headersSent) this.#counter.countAnswer(this.response.statusCode);
    if (this.#isAdmitted) this.#recordTime();
    this.#upstream?.destroy();
    this.releaseReplica();
    if (this.upgrade === null) discardBody(this.request);
    this.onEnd();
  }
}

/** Reads what is left of an answered request's body, so that its connection can be used again, for a bounded time. */
function discardBody(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return;
  request.resume();
  const timer = setTimeout(() => {
    if (!request.complete) request.socket.destroy();
  }, lingerMs);
  timer.unref();
}
