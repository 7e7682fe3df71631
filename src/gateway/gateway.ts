import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerOptions, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Logger } from "../telemetry/log.ts";
import { findAddress, type Site } from "./address.ts";
import { CallerAuthorizer, type Identify } from "./caller-authorizer.ts";
import type { TrafficCounts } from "./counts.ts";
import { Deployment } from "./deployment.ts";
import { Exchange } from "./exchange.ts";
import { type Failure, type ForwardOptions, forward, hasBody } from "./forward.ts";
import { ownHeaders, requestIdOf } from "./headers.ts";
import { readsAsInternal } from "./internal-path.ts";
import { answerRefusal, refusals } from "./refusal.ts";
import { Replica } from "./replica.ts";
import type { Admission, Route, Traffic } from "./route.ts";
import { tunnel } from "./tunnel.ts";
import { UpgradeSocket } from "./upgrade-socket.ts";

export interface GatewayLimits {
  /** Request body; 25 MiB (contract 4.7). Over it: 413. */
  bodyBytesMax: number;
  /** From forwarding to the last byte of the answer; 1 h (contract 4.7). Over it: 504, or the answer breaks off. */
  requestDurationMs: number;
  /** Waiting for a held or sleeping deployment. Over it: 503 with Retry-After. */
  waitMs: number;
  /** Requests waiting for one deployment. Over it: 503 with Retry-After. */
  waitingMax: number;
  /** Until a replica accepts a connection. */
  connectTimeoutMs: number;
  /** Unused connections to replicas are closed after this long; shorter than the agent servers' own 5 s. */
  idleSocketMs: number;
}

export const defaultLimits: GatewayLimits = {
  bodyBytesMax: 25 * 1024 * 1024,
  requestDurationMs: 3_600_000,
  waitMs: 120_000,
  waitingMax: 10_000,
  connectTimeoutMs: 10_000,
  idleSocketMs: 4_000,
};

const asksForWebSocket = ({ headers }: IncomingMessage) => /^websocket$/i.test(headers.upgrade ?? "");

/**
 * For `http.createServer` of whoever listens for the gateway: node's strict parser, its default header size (16 KiB,
 * else 431), 20 s for the headers (else 408), and 5 minutes for a request to come in whole (25 MiB at 90 kB/s). Answers and
 * WebSockets have no limit here.
 */
export const gatewayServerOptions: ServerOptions = {
  insecureHTTPParser: false,
  requireHostHeader: true,
  headersTimeout: 20_000,
  // Who is late is noticed that much later.
  connectionsCheckingInterval: 5_000,
  requestTimeout: 300_000,
  noDelay: true,
  // Who vanished without a word, as a laptop that was closed does: else a quiet WebSocket counts as under way for ever.
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
  // Who asks for another protocol besides, as Java's client and `curl --http2` do with h2c, gets a plain answer (RFC 9110 7.8).
  shouldUpgradeCallback: asksForWebSocket,
};

export interface GatewayOptions extends Pick<Site, "rootDomain" | "pathPrefix"> {
  /** Base of Pierhead's own addresses; its scheme is what agent servers are told, its host is never a deployment. */
  publicUrl: string | null;
  logger: Logger;
  limits?: Partial<GatewayLimits>;
  /** Set when a proxy of the operator stands in front: its `x-forwarded-*` are believed. */
  trustsForwarded?: boolean;
  /** Says who calls, for routes that admit some only; without it they admit nobody. */
  identify?: Identify;
}

export interface GatewayHealth {
  routes: Record<Route["state"], number>;
  inFlight: number;
  waiting: number;
  /** Requests for addresses no deployment has, `/internal` included, since start. */
  unknown: number;
}

/** Carries requests to the replicas the routes name. It listens nowhere: a server hands it what `matches`. */
export interface Gateway extends Traffic {
  /** Whether a request, by path or host name, is for a deployment and not for Pierhead itself. */
  matches(request: IncomingMessage): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** For the server's `upgrade` event. WebSockets pass; any other protocol is not switched to. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  counts(): TrafficCounts[];
  health(): GatewayHealth;
  /** The first step of an end: what comes and what waits is refused, and told to come again; what is under way goes on. */
  stopAccepting(): void;
  /** Refuses, gives what is under way `graceMs` to end, then breaks it off. */
  close(options?: { graceMs: number }): Promise<void>;
}

export function createGateway(options: GatewayOptions): Gateway {
  return new HttpGateway(options);
}

/** Attempts per request: the first, and two more while repeating it can do no harm. */
const attemptsMax = 3;

/** The exit of a replica is noticed within a second; half as much again for the route to follow. */
const routeUpdateMs = 1_500;

/** At the end, for refusals to reach their clients. */
const closeFlushMs = 1_000;

class HttpGateway implements Gateway {
  readonly #site: Site;
  readonly #limits: GatewayLimits;
  readonly #logger: Logger;
  readonly #forwardOptions: ForwardOptions;
  readonly #deployments = new Map<string, Deployment>();
  readonly #replicas = new Map<string, Replica>();
  readonly #exchanges = new Set<Exchange>();
  /** One for all: a closure for each of ten thousand replicas is 0.7 MB. */
  readonly #forgetReplica = ({ id }: Replica) => void this.#replicas.delete(id);
  readonly #authorizer: CallerAuthorizer;
  #wake: (deploymentId: string) => void = () => {};
  #unknown = 0;
  #isClosing = false;
  #onIdle: () => void = () => {};

  constructor(options: GatewayOptions) {
    const { rootDomain, pathPrefix, publicUrl, logger, limits, trustsForwarded = false } = options;
    const own = publicUrl === null ? null : new URL(publicUrl);
    this.#site = { rootDomain: rootDomain.toLowerCase(), pathPrefix, ownHost: own?.hostname ?? null };
    this.#limits = { ...defaultLimits, ...limits };
    this.#logger = logger;
    this.#authorizer = new CallerAuthorizer(options.identify);
    this.#forwardOptions = { ...this.#limits, publicScheme: own?.protocol.slice(0, -1) ?? null, trustsForwarded };
  }

  setRoute(route: Route): void {
    let deployment = this.#deployments.get(route.slug);
    if (deployment?.route.deploymentId !== route.deploymentId) {
      if (deployment !== undefined) this.removeRoute(route.slug);
      deployment = new Deployment(route, this.#limits);
      this.#deployments.set(route.slug, deployment);
    }
    const replicas = route.targets.map((target) => this.#replicaFor(target));
    deployment.setRoute(route, replicas, () => this.#wake(route.deploymentId));
  }

  removeRoute(slug: string): void {
    const deployment = this.#deployments.get(slug);
    this.#deployments.delete(slug);
    deployment?.remove();
  }

  inFlight(replicaId: string): number {
    return this.#replicas.get(replicaId)?.inFlight ?? 0;
  }

  async drained(replicaId: string, options: { timeoutMs: number; signal: AbortSignal }): Promise<boolean> {
    options.signal.throwIfAborted();
    return (await this.#replicas.get(replicaId)?.untilIdle(options)) ?? true;
  }

  lastRequestAt(slug: string): Date | null {
    const at = this.#deployments.get(slug)?.lastRequestAtMs ?? null;
    return at === null ? null : new Date(at);
  }

  onWake(wake: (deploymentId: string) => void): void {
    this.#wake = wake;
  }

  matches(request: IncomingMessage): boolean {
    return findAddress(request, this.#site) !== null;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    // Node reads nothing that was sent ahead behind such a request: whoever did is told by the end of the connection.
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false;
    this.#receive(request, response, null);
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Node types it as a stream; from an http.Server it is always the connection itself.
    const upgrade = new UpgradeSocket(socket as Socket, head);
    this.#receive(request, upgrade.plainResponse(request), upgrade);
  }

  counts(): TrafficCounts[] {
    return [...this.#deployments.values()].map((deployment) => deployment.counts());
  }

  health(): GatewayHealth {
    const health: GatewayHealth = {
      routes: { open: 0, held: 0, asleep: 0, closed: 0 },
      inFlight: 0,
      waiting: 0,
      unknown: this.#unknown,
    };
    for (const { route, inFlight, waiting } of this.#deployments.values()) {
      health.routes[route.state] += 1;
      health.inFlight += inFlight;
      health.waiting += waiting;
    }
    return health;
  }

  stopAccepting(): void {
    this.#isClosing = true;
    for (const deployment of this.#deployments.values()) deployment.refuseWaiting(refusals.stopping());
  }

  async close({ graceMs } = { graceMs: 0 }): Promise<void> {
    this.stopAccepting();
    if (this.#exchanges.size > 0 && graceMs > 0) await this.#idle(graceMs);
    for (const exchange of this.#exchanges) {
      if (!exchange.isSettled) exchange.breakOff();
    }
    if (this.#exchanges.size > 0) await this.#idle(closeFlushMs);
    for (const slug of [...this.#deployments.keys()]) this.removeRoute(slug);
  }

  #idle(graceMs: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, graceMs);
      this.#onIdle = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #replicaFor(target: Route["targets"][number]): Replica {
    const known = this.#replicas.get(target.replicaId);
    if (known !== undefined) {
      known.host = target.host;
      known.port = target.port;
      return known;
    }
    const { idleSocketMs } = this.#limits;
    const replica = new Replica(target, { idleSocketMs, onGone: this.#forgetReplica });
    this.#replicas.set(replica.id, replica);
    return replica;
  }

  #receive(request: IncomingMessage, response: ServerResponse, upgrade: UpgradeSocket | null): void {
    const requestId = requestIdOf(request, randomUUID);
    const address = findAddress(request, this.#site);
    const deployment = address === null ? undefined : this.#deployments.get(address.slug);
    if (address === null || deployment === undefined || readsAsInternal(address.path)) {
      this.#unknown += 1;
      answerRefusal(response, refusals.unknown(), ownHeaders({ requestId, revisionId: null }));
      return;
    }
    const exchange = new Exchange({ request, response, address, requestId, upgrade, counter: deployment.counter });
    exchange.revisionId = deployment.route.revisionId;
    this.#exchanges.add(exchange);
    exchange.onEnd = () => this.#forget(exchange);
    const refusal = this.#isClosing ? refusals.stopping() : this.#malformedRefusal(exchange);
    if (refusal !== null) exchange.refuse(refusal);
    else if (deployment.route.admission === undefined) this.#admit(deployment, exchange);
    else void this.#admitCaller(deployment, exchange, deployment.route.admission);
  }

  /** Who may not call is told so before anything of his request is read, or a sleeping deployment is woken. */
  async #admitCaller(deployment: Deployment, exchange: Exchange, admission: Admission): Promise<void> {
    const refusal = await this.#authorizer.authorize(exchange, admission);
    if (exchange.isSettled) return;
    if (refusal === null) this.#admit(deployment, exchange);
    else exchange.refuse(refusal);
  }

  #forget(exchange: Exchange): void {
    this.#exchanges.delete(exchange);
    if (this.#exchanges.size === 0) this.#onIdle();
  }

  #malformedRefusal({ request, upgrade }: Exchange) {
    const { headers } = request;
    if (request.httpVersionMajor !== 1) return refusals.badRequest("Only HTTP/1.0 and HTTP/1.1 are spoken here.");
    const coding = headers["transfer-encoding"];
    if (coding !== undefined && coding.toLowerCase() !== "chunked") return refusals.unsupportedCoding();
    if (Number(headers["content-length"] ?? 0) > this.#limits.bodyBytesMax) {
      return refusals.oversize(this.#limits.bodyBytesMax);
    }
    if (upgrade !== null && hasBody(request)) return refusals.badRequest("A request to upgrade carries no body.");
    return null;
  }

  /** Sends it on its way when its route is open and nobody waits before it; lets it wait, or refuses it, otherwise. */
  #admit(deployment: Deployment, exchange: Exchange): void {
    exchange.revisionId = deployment.route.revisionId;
    exchange.admit();
    const hasRoom = deployment.admit(exchange, {
      go: () => this.#dispatch(deployment, exchange),
      wake: () => this.#wake(deployment.route.deploymentId),
    });
    if (!hasRoom) exchange.refuse(refusals.queueFull(this.#limits.waitingMax));
  }

  #dispatch(deployment: Deployment, exchange: Exchange): void {
    if (exchange.isSettled) return;
    const { revisionId } = deployment.route;
    exchange.revisionId = revisionId;
    const replica = deployment.chooseReplica(exchange);
    if (replica === null) {
      exchange.refuse(refusals.noReplica(revisionId));
      return;
    }
    const { requestDurationMs } = this.#limits;
    exchange.setDeadline(requestDurationMs, () => exchange.refuse(refusals.overdue(revisionId, requestDurationMs)));
    const send = exchange.upgrade !== null && asksForWebSocket(exchange.request) ? tunnel : forward;
    send(exchange, replica, this.#forwardOptions, (failure) => this.#retry(deployment, exchange, replica, failure));
  }

  /** Another attempt when no replica saw the request, or a kept connection had died under a repeatable one. */
  #retry(deployment: Deployment, exchange: Exchange, replica: Replica, failure: Failure): void {
    exchange.releaseReplica();
    if (failure.kind === "neverSent" || failure.kind === "connectTimeout") exchange.tried.push(replica);
    const canRepeat = failure.kind !== "broken" && exchange.attempts < attemptsMax && !this.#isClosing;
    if (canRepeat && deployment.hasAnother(exchange)) this.#admit(deployment, exchange);
    else if (canRepeat && failure.kind === "neverSent") {
      this.#awaitReplica(deployment, exchange, performance.now() + routeUpdateMs, () =>
        this.#giveUp(exchange, replica, failure),
      );
    } else this.#giveUp(exchange, replica, failure);
  }

  /** A replica that refuses connections has just ended: whoever writes the routes is about to say what comes instead. */
  #awaitReplica(deployment: Deployment, exchange: Exchange, untilMs: number, giveUp: () => void): void {
    const timer = setTimeout(() => {
      if (exchange.isSettled) return;
      if (deployment.hasAnother(exchange)) this.#admit(deployment, exchange);
      else if (performance.now() > untilMs || this.#isClosing) giveUp();
      else this.#awaitReplica(deployment, exchange, untilMs, giveUp);
    }, 50);
    timer.unref();
  }

  #giveUp(exchange: Exchange, replica: Replica, { kind, reason }: Failure): void {
    const { requestId, revisionId, address } = exchange;
    const fields = { slug: address.slug, revision_id: revisionId, replica_id: replica.id, request_id: requestId };
    this.#logger.warn({ ...fields, reason }, "replica did not answer");
    const isOverdue = kind === "connectTimeout";
    const overdue = () => refusals.connectOverdue(revisionId, this.#limits.connectTimeoutMs);
    exchange.refuse(isOverdue ? overdue() : refusals.unreachable(revisionId, reason));
  }
}
