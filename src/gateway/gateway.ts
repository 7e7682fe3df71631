import { randomUUID } from "node:crypto";
import { type IncomingMessage, type Server, type ServerOptions, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { Shares, shareRules } from "../base/shares.ts";
import { noTrustedProxies, type TrustedProxies } from "../base/trusted-proxies.ts";
import type { Logger } from "../telemetry/log.ts";
import { findAddress, type Site, splitTarget } from "./address.ts";
import { BurstTurns } from "./burst-turns.ts";
import { CallerAuthorizer, type Identify } from "./caller-authorizer.ts";
import type { ConsoleCall } from "./console-call.ts";
import { TrafficCounter, type TrafficCounts } from "./counts.ts";
import { CustomAddresses } from "./custom-addresses.ts";
import { Deployment } from "./deployment.ts";
import { Exchange } from "./exchange.ts";
import { type Failure, type ForwardOptions, forward, hasBody } from "./forward.ts";
import { ownHeaders, requestIdOf } from "./headers.ts";
import { readsAsInternal } from "./internal-path.ts";
import { answerRefusal, refusals } from "./refusal.ts";
import { Replica } from "./replica.ts";
import type { Admission, FailedRequest, Route, Traffic } from "./route.ts";
import { tunnel } from "./tunnel.ts";
import { UpgradeSocket } from "./upgrade-socket.ts";

export interface GatewayLimits {
  /** Request body: 25 MiB (contract 4.7). Above: 413. */
  bodyBytesMax: number;
  /** From forwarding to the last byte of the response: 1 h (contract 4.7). Above: 504, or the response is aborted. */
  requestDurationMs: number;
  /** Time that a request waits for a held or sleeping deployment. Above: 503 with Retry-After. */
  waitMs: number;
  /** Requests that wait for one deployment. Above: 503 with Retry-After. */
  waitingMax: number;
  /** Requests that wait or are in flight, including streams and WebSockets. Above: 503 with Retry-After. */
  callsMax: number;
  /** Fraction of `callsMax` that one workspace may hold of what the others leave. Above: 429 with Retry-After. */
  workspaceShare: number;
  /** How long a caller is known. Then it is checked again, also while its WebSocket is open. A revoked key works this much longer (contract 7.4). */
  callerMemoryMs: number;
  /** Time until a replica accepts a connection. */
  connectTimeoutMs: number;
  /** Idle connections to replicas are closed after this long, which is shorter than the agent servers' own 5 s. */
  idleSocketMs: number;
}

export const defaultLimits: GatewayLimits = {
  bodyBytesMax: 25 * 1024 * 1024,
  requestDurationMs: 3_600_000,
  waitMs: 120_000,
  waitingMax: 10_000,
  callsMax: 20_000,
  workspaceShare: 0.5,
  callerMemoryMs: 60_000,
  connectTimeoutMs: 10_000,
  idleSocketMs: 4_000,
};

const asksForWebSocket = ({ headers }: IncomingMessage) => /^websocket$/i.test(headers.upgrade ?? "");

/**
 * Options for the `http.createServer` in front of the gateway: Node's strict parser and its default header size (16 KiB,
 * else 431), 20 s for the headers (else 408), and 5 minutes for the complete request (25 MiB at 90 kB/s). Answers and
 * WebSockets have no limit here.
 */
export const gatewayServerOptions: ServerOptions = {
  insecureHTTPParser: false,
  requireHostHeader: true,
  headersTimeout: 20_000,
  // Node checks for late headers at this interval.
  connectionsCheckingInterval: 5_000,
  requestTimeout: 300_000,
  noDelay: true,
  // Detects clients that vanish, such as a closed laptop. Otherwise an idle WebSocket would count as in flight forever.
  keepAlive: true,
  keepAliveInitialDelay: 60_000,
  // Other upgrades, such as h2c by Java's client and `curl --http2`, get a plain answer (RFC 9110 7.8).
  shouldUpgradeCallback: asksForWebSocket,
};

/**
 * Makes a server keep all headers of a request, which their size limits anyway. By default, Node before 24 leaves those after the first
 * thousand out of `headers`, but frames the body by them. A Content-Length that only the agent saw would make it take the next
 * request on its connection, which another caller sent, for a body.
 */
export function keepAllHeaders(server: Server): void {
  server.maxHeadersCount = 0;
}

export interface GatewayOptions extends Pick<Site, "rootDomain" | "pathPrefix"> {
  /** Base of Pierhead's own addresses. Agent servers get its scheme, and its host is never a deployment. */
  publicUrl: string | null;
  logger: Logger;
  limits?: Partial<GatewayLimits>;
  /** The operator's proxies in front of the gateway, whose `x-forwarded-*` headers can be trusted. Default: none. */
  trustedProxies?: TrustedProxies;
  /** Identifies callers, for routes with an `admission`. Without it, such routes admit no caller. */
  identify?: Identify;
  /** Port at which agent servers listen in networks of their own, such as those of containers. Absent: the port of the target. */
  agentPort?: number;
}

export interface GatewayHealth {
  routes: Record<Route["state"], number>;
  inFlight: number;
  waiting: number;
  /** Requests since start that address no deployment, including those to `/internal`. */
  unknown: number;
}

/** Forwards requests to the replicas that the routes name. It opens no port: a server passes it the requests it `matches`. */
export interface Gateway extends Traffic {
  /** Whether a request is for a deployment, by path or host name, and not for Pierhead itself. */
  matches(request: IncomingMessage): boolean;
  handle(request: IncomingMessage, response: ServerResponse): void;
  /** Forwards a request of the console to a deployment. Its own address and credentials do not count. */
  handleFromConsole(request: IncomingMessage, response: ServerResponse, call: ConsoleCall): void;
  /** Handles the server's `upgrade` event. Tunnels WebSockets, and answers other upgrades with plain HTTP. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Handles a request that came on a connection to one deployment alone, whatever its address says. */
  receiveFor(slug: string, request: IncomingMessage, to: ServerResponse | { socket: Duplex; head: Buffer }): void;
  counts(): TrafficCounts[];
  health(): GatewayHealth;
  /** First step of a shutdown: refuses new and waiting requests with Retry-After. Requests in flight continue. */
  stopAccepting(): void;
  /** Stops accepting, gives requests in flight `graceMs` to end, then aborts them. */
  close(options?: { graceMs: number }): Promise<void>;
}

export function createGateway(options: GatewayOptions): Gateway {
  return new HttpGateway(options);
}

/** Attempts per request: the first, and up to two retries while a retry is safe. */
const attemptsMax = 3;

/** The listener notices the exit of a replica within a second. Half a second more allows the new route to arrive. */
const routeUpdateMs = 1_500;

/** Time at the end of a shutdown for refusals to reach their clients. */
const closeFlushMs = 1_000;

class HttpGateway implements Gateway {
  readonly #site: Site;
  readonly #limits: GatewayLimits;
  readonly #logger: Logger;
  readonly #forwardOptions: ForwardOptions;
  readonly #agentPort: number | null;
  readonly #burstTurns = new BurstTurns();
  readonly #deployments = new Map<string, Deployment>();
  readonly #customAddresses = new CustomAddresses();
  readonly #replicas = new Map<string, Replica>();
  readonly #exchanges = new Set<Exchange>();
  /** Shared, because a closure for each of ten thousand replicas takes 0.7 MB. */
  readonly #forgetReplica = ({ id }: Replica) => void this.#replicas.delete(id);
  readonly #authorizer: CallerAuthorizer;
  readonly #calls: Shares;
  /**
   * Counts the background calls of all deployments, and is never read. In a deployment's own counter, an open console would keep it
   * awake, and its polls would count as traffic: they would dilute the share of errors that alerts watch.
   */
  readonly #backgroundCounter = new TrafficCounter();
  #wake: (deploymentId: string) => void = () => {};
  #reportFailed: (failed: FailedRequest) => void = () => {};
  #unknown = 0;
  #isClosing = false;
  #onIdle: () => void = () => {};

  constructor(options: GatewayOptions) {
    const { rootDomain, pathPrefix, publicUrl, logger, limits, trustedProxies = noTrustedProxies } = options;
    const own = publicUrl === null ? null : new URL(publicUrl);
    const custom = this.#customAddresses;
    this.#site = { rootDomain: rootDomain.toLowerCase(), pathPrefix, ownHost: own?.hostname ?? null, custom };
    this.#limits = { ...defaultLimits, ...limits };
    this.#logger = logger;
    this.#calls = new Shares(shareRules(this.#limits.callsMax, this.#limits.workspaceShare));
    const memoryMs = this.#limits.callerMemoryMs;
    this.#authorizer = new CallerAuthorizer(options.identify, { proxies: trustedProxies, memoryMs });
    this.#forwardOptions = { ...this.#limits, publicScheme: own?.protocol.slice(0, -1) ?? null, trustedProxies };
    this.#agentPort = options.agentPort ?? null;
  }

  setRoute(route: Route): void {
    let deployment = this.#deployments.get(route.slug);
    if (deployment?.route.deploymentId !== route.deploymentId) {
      if (deployment !== undefined) this.removeRoute(route.slug);
      deployment = new Deployment(route, this.#limits);
      this.#deployments.set(route.slug, deployment);
      this.#customAddresses.set(undefined, route);
    } else this.#customAddresses.set(deployment.route, route);
    const replicas = route.targets.map((target) => this.#replicaFor(target));
    deployment.setRoute(route, replicas, () => this.#wake(route.deploymentId));
  }

  removeRoute(slug: string): void {
    const deployment = this.#deployments.get(slug);
    this.#deployments.delete(slug);
    this.#customAddresses.set(deployment?.route, undefined);
    deployment?.remove();
  }

  inFlight(replicaId: string): number {
    return this.#replicas.get(replicaId)?.inFlight ?? 0;
  }

  oldestRequestMs(replicaId: string): number {
    return this.#replicas.get(replicaId)?.oldestRequestMs ?? 0;
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

  onFailedRequest(report: (failed: FailedRequest) => void): void {
    this.#reportFailed = report;
  }

  matches(request: IncomingMessage): boolean {
    return findAddress(request, this.#site) !== null;
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    // Node does not read pipelined data behind such a request, so closing the connection makes the client retry it.
    if (request.headers.upgrade !== undefined) response.shouldKeepAlive = false;
    this.#receive(request, response, null);
  }

  handleFromConsole(request: IncomingMessage, response: ServerResponse, call: ConsoleCall): void {
    // The browser left while its user was checked. `close` has been emitted already, so an exchange would never end.
    if (response.destroyed) return;
    const { slug, deploymentId, path, assertion, isBackground = false } = call;
    const requestId = requestIdOf(request, randomUUID);
    const deployment = this.#deployments.get(slug);
    const isElsewhere = deployment?.route.deploymentId !== deploymentId;
    if (deployment === undefined || isElsewhere || readsAsInternal(path)) {
      const refusal = isElsewhere ? refusals.elsewhere() : refusals.unknown();
      answerRefusal(response, refusal, ownHeaders({ requestId, revisionId: null }));
      return;
    }
    // A poll that waited would take the place of a request, and would wake the deployment if it fell asleep in the meantime.
    if (isBackground && deployment.route.state !== "open") {
      const refusal =
        deployment.route.state === "asleep" ? refusals.asleep() : refusals.closed(deployment.route.because);
      answerRefusal(response, refusal, ownHeaders({ requestId, revisionId: null }));
      return;
    }
    const address = { slug, path, prefix: "", authority: request.headers.host ?? "" };
    const exchange = new Exchange({
      request,
      response,
      address,
      requestId,
      upgrade: null,
      counter: isBackground ? this.#backgroundCounter : deployment.counter,
    });
    exchange.isFromConsole = true;
    // The browser sent a cookie, not a key, so there is no secret to look for in other headers.
    exchange.caller = { checked: { header: "x-api-key", secret: assertion }, assertion };
    this.#begin(deployment, exchange);
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Node declares a stream, but an http.Server always passes the connection itself.
    const upgrade = new UpgradeSocket(socket as Socket, head);
    this.#receive(request, upgrade.plainResponse(request), upgrade);
  }

  receiveFor(slug: string, request: IncomingMessage, to: ServerResponse | { socket: Duplex; head: Buffer }): void {
    const { authority, target } = splitTarget(request);
    const address = { slug, path: target, prefix: "", authority };
    if (to instanceof ServerResponse) return void this.#receive(request, to, null, address);
    const upgrade = new UpgradeSocket(to.socket as Socket, to.head);
    this.#receive(request, upgrade.plainResponse(request), upgrade, address);
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
    const agentPort = this.#agentPort;
    const burstTurns = this.#burstTurns;
    const replica = new Replica(target, { idleSocketMs, agentPort, burstTurns, onGone: this.#forgetReplica });
    this.#replicas.set(replica.id, replica);
    return replica;
  }

  #receive(
    request: IncomingMessage,
    response: ServerResponse,
    upgrade: UpgradeSocket | null,
    address = findAddress(request, this.#site),
  ): void {
    const requestId = requestIdOf(request, randomUUID);
    const deployment = address === null ? undefined : this.#deployments.get(address.slug);
    if (address === null || deployment === undefined || readsAsInternal(address.path)) {
      this.#unknown += 1;
      answerRefusal(response, refusals.unknown(), ownHeaders({ requestId, revisionId: null }));
      return;
    }
    const exchange = new Exchange({ request, response, address, requestId, upgrade, counter: deployment.counter });
    this.#begin(deployment, exchange);
  }

  #begin(deployment: Deployment, exchange: Exchange): void {
    exchange.revisionId = deployment.route.revisionId;
    this.#exchanges.add(exchange);
    const call = this.#calls.take({ workspaceId: deployment.route.workspaceId ?? deployment.route.deploymentId });
    exchange.onEnd = () => {
      if ("release" in call) call.release();
      // Background calls of the console are not counted either.
      const isCounted = exchange.counter !== this.#backgroundCounter;
      const failed = isCounted ? exchange.failureFor(deployment.route.deploymentId) : null;
      if (failed !== null) this.#reportFailed(failed);
      this.#forget(exchange);
    };
    const refusal = this.#isClosing ? refusals.stopping() : this.#malformedRefusal(exchange);
    if (refusal === null && !("release" in call)) {
      exchange.refuse(call.limit === "total" ? refusals.busy(call.max) : refusals.shareExceeded(call.max));
      return;
    }
    if (refusal !== null) exchange.refuse(refusal);
    else if (deployment.route.admission === undefined || exchange.isFromConsole) this.#admit(deployment, exchange);
    else void this.#admitCaller(deployment, exchange, deployment.route.admission);
  }

  /** Rejects unauthorized callers before it reads the body or wakes a sleeping deployment. */
  async #admitCaller(deployment: Deployment, exchange: Exchange, admission: Admission): Promise<void> {
    const { deploymentId } = deployment.route;
    const found = await this.#authorizer.authorize(exchange, { deploymentId, admission });
    if (exchange.isSettled) return;
    if ("status" in found) return exchange.refuse(found);
    exchange.caller = found;
    const everyMs = this.#limits.callerMemoryMs;
    exchange.whileTunnel = { act: () => void this.#checkAgain(deployment, exchange), everyMs };
    this.#admit(deployment, exchange);
  }

  /** Ends a WebSocket whose caller may no longer open one, as its key was revoked. A control plane that is away ends none. */
  async #checkAgain(deployment: Deployment, exchange: Exchange): Promise<void> {
    const { deploymentId, admission } = deployment.route;
    if (admission === undefined) return;
    const found = await this.#authorizer.authorize(exchange, { deploymentId, admission });
    if ("status" in found && (found.status === 401 || found.status === 403)) exchange.breakOff();
  }

  #forget(exchange: Exchange): void {
    this.#exchanges.delete(exchange);
    if (this.#exchanges.size === 0) this.#onIdle();
  }

  #malformedRefusal({ request, upgrade }: Exchange) {
    const { headers } = request;
    if (request.httpVersionMajor !== 1) return refusals.badRequest("Only HTTP/1.0 and HTTP/1.1 are supported.");
    const coding = headers["transfer-encoding"];
    if (coding !== undefined && coding.toLowerCase() !== "chunked") return refusals.unsupportedCoding();
    if (Number(headers["content-length"] ?? 0) > this.#limits.bodyBytesMax) {
      return refusals.oversize(this.#limits.bodyBytesMax);
    }
    if (upgrade !== null && hasBody(request)) return refusals.badRequest("An upgrade request must not have a body.");
    return null;
  }

  /** Sends a request if its route is open and no earlier request is waiting. Otherwise it waits or is refused. */
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
    replica.bursts.begin(() => {
      if (exchange.isSettled) return false;
      send(exchange, replica, this.#forwardOptions, (failure) => this.#retry(deployment, exchange, replica, failure));
      return true;
    });
  }

  /** Retries if no replica has seen the request, or if an idle connection was dead and the request can be repeated. */
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

  /** Waits for a new route: a replica that refuses connections has just exited, and the listener is about to notice. */
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
