import type { ClientRequest, IncomingMessage, ServerResponse } from "node:http";
import type { Address } from "./address.ts";
import type { AdmittedCaller } from "./caller-headers.ts";
import type { FailureKind, TrafficCounter } from "./counts.ts";
import { ownHeaders } from "./headers.ts";
import { answerRefusal, type Refusal } from "./refusal.ts";
import type { Replica } from "./replica.ts";
import type { FailedRequest } from "./route.ts";
import type { UpgradeSocket } from "./upgrade-socket.ts";

/**
 * How long the rest of a request body is read and discarded after its answer. Closing at once would reset the connection,
 * and the client would see the reset instead of the answer.
 */
const lingerMs = 5_000;

/**
 * One request in the gateway, from its arrival until its answer is complete or broken off. It ends exactly once, releases
 * its replica and leaves no connection behind.
 */
export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly address: Address;
  readonly requestId: string;
  /** For a WebSocket request: its raw connection. */
  readonly upgrade: UpgradeSocket | null;
  readonly arrivedAtMs = performance.now();
  /** Null: the route admits everyone, so nothing was checked. */
  caller: AdmittedCaller | null = null;
  /** Whether a user of the console sent it. Headers and answers are then confined to `console-call.ts`. */
  isFromConsole = false;
  /** Revision of the route that the request was last sent along. */
  revisionId: string | null = null;
  attempts = 0;
  /** Replicas that accepted no connection. */
  readonly tried: Replica[] = [];
  /** What happens again and again while it is an open WebSocket. */
  whileTunnel: { act: () => void; everyMs: number } | null = null;
  /** Called once, when the exchange has ended. */
  onEnd: () => void = () => {};
  readonly #counter: TrafficCounter;
  #replica: Replica | null = null;
  #lastReplicaId: string | null = null;
  #upstream: ClientRequest | null = null;
  #deadline: NodeJS.Timeout | null = null;
  #failure: FailureKind | null = null;
  #hasEnded = false;
  #isAdmitted = false;
  #isTunnel = false;
  /** Whether `refuse` came after the answer had begun. */
  #wasStopped = false;

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

  /** Whether the answer is final, so that the agent server can no longer change it. */
  get isSettled(): boolean {
    return this.#hasEnded || this.#failure !== null;
  }

  /** Address at which the agent server of this attempt listens; null between attempts. */
  get server(): Pick<Replica, "host" | "port" | "agentPort"> | null {
    return this.#replica;
  }

  get counter(): TrafficCounter {
    return this.#counter;
  }

  /** Marks the request as admitted, so that it keeps its deployment awake. Rejected ones must not: guesses at keys never end. */
  admit(): void {
    this.#isAdmitted = true;
    this.#recordTime();
  }

  /** Counts the request on a replica. `upstream` is destroyed when the client leaves. */
  attempt(replica: Replica, upstream: ClientRequest): void {
    this.attempts += 1;
    this.#replica = replica;
    this.#lastReplicaId = replica.id;
    this.#upstream = upstream;
    replica.begin(this);
    this.#counter.inFlight += 1;
  }

  /** Releases the replica after an attempt that failed. */
  releaseReplica(): void {
    const replica = this.#replica;
    if (replica === null) return;
    this.#replica = null;
    this.#upstream = null;
    this.#counter.inFlight -= 1;
    replica.end(this);
  }

  /** Calls `refuse` after `durationMs`. */
  setDeadline(durationMs: number, refuse: () => void): void {
    this.#deadline ??= setTimeout(refuse, durationMs).unref();
  }

  /** Answers instead of the agent server, or breaks off an answer that has begun. Only the first call has an effect. */
  refuse(refusal: Refusal): void {
    if (this.isSettled) return;
    this.fail(refusal.kind ?? "refused");
    this.#upstream?.destroy();
    if (this.response.headersSent) {
      this.#wasStopped = true;
      this.breakOff();
    } else answerRefusal(this.response, refusal, ownHeaders(this));
  }

  /** Counts a failure. Only the first one counts. */
  fail(kind: FailureKind): void {
    if (this.isSettled) return;
    this.#failure = kind;
    this.#counter.countFailure(kind);
  }

  /** Closes the connection in the middle of an answer, so that the client does not take it for complete. */
  breakOff(): void {
    (this.upgrade?.socket ?? this.response).destroy();
  }

  /** Turns the exchange into a WebSocket tunnel without a time limit, which ends with its connection. */
  becomeTunnel(): void {
    this.#isTunnel = true;
    clearTimeout(this.#deadline ?? undefined);
    const again = this.whileTunnel;
    this.#deadline = again === null ? null : setInterval(again.act, again.everyMs).unref();
    this.#counter.countAnswer(101);
  }

  /** How an ended exchange failed for its client; null: it did not, or the client left first. */
  failureFor(deploymentId: string): FailedRequest | null {
    const { revisionId, requestId, request, response } = this;
    const status = response.statusCode;
    if (this.#isTunnel || revisionId === null || this.#failure === "aborted" || !response.headersSent) return null;
    const end = this.#howAnswerEnded();
    if (status < 500 && end !== "cut" && end !== "stopped") return null;
    return {
      deploymentId,
      revisionId,
      requestId,
      replicaId: this.#lastReplicaId,
      method: request.method ?? "GET",
      path: this.address.path,
      status,
      end,
      durationMs: performance.now() - this.arrivedAtMs,
    };
  }

  #howAnswerEnded(): FailedRequest["end"] {
    if (this.#failure === "cut") return "cut";
    if (this.#wasStopped) return "stopped";
    return this.#failure === null ? "answered" : "refused";
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

/** Reads and discards the rest of an answered request's body for a limited time, so that its connection can be reused. */
function discardBody(request: IncomingMessage): void {
  if (request.complete || request.destroyed) return;
  request.resume();
  const timer = setTimeout(() => {
    if (!request.complete) request.socket.destroy();
  }, lingerMs);
  timer.unref();
}
