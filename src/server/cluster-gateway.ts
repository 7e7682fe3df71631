import { randomUUID } from "node:crypto";
import { lookup } from "node:dns/promises";
import { createServer, get, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiServer, findApiServer } from "../compute/kubernetes/api/api-server.ts";
import type { IsReached, IsRouted } from "../compute/kubernetes/cluster-context.ts";
import { createGateway, type Gateway } from "../gateway/gateway.ts";
import { ClusterRoutes } from "../listener/clusters/cluster-routes.ts";
import { type GatewayReading, type ReadGateways, readTraffic } from "../listener/clusters/gateway-traffic.ts";
import type { Logger } from "../telemetry/log.ts";
import { Closing } from "./closing.ts";
import type { ClusterGatewayConfig } from "./cluster-gateway-config.ts";
import { createHttpServer } from "./http-server.ts";
import { urlOf } from "./listen.ts";
import { httpIdentify } from "./listener-transport.ts";
import { version } from "./version.ts";

export interface ClusterGateway {
  /** Base of the agents under `/d/<slug>/`. */
  url: string;
  /** Accepts new requests until the cluster sends no more, then waits for those in flight. */
  close(): Promise<void>;
}

const pollMs = 100;
const askTimeoutMs = 2_000;

/** The cluster's proxies learn of a ready pod within a second. Where they do not, a rollout waits for minReadySeconds. */
const reachedWithinMs = 1_500;
const reachPollMs = 25;

/**
 * Starts one replica of the gateway in a cluster. It gets its routes from the cluster and asks the control plane about callers only,
 * so agents go on answering while the control plane is away.
 * @throws Error naming the part and the reason.
 */
export async function startClusterGateway(
  config: ClusterGatewayConfig,
  { logger }: { logger: Logger },
): Promise<ClusterGateway> {
  const closing = new Closing(logger);
  try {
    const { kubernetesHost: host, kubernetesPort: port, namespaces, trustedProxies } = config;
    const { kubernetesUrl, kubernetesTokenFile: tokenFile, kubernetesCaFile: caFile } = config;
    const api = new ApiServer(await findApiServer({ host, port }, { url: kubernetesUrl, tokenFile, caFile }));
    closing.add("API server", async () => api.close());
    const identify = httpIdentify(config.url);
    const gateway = createGateway({ ...config.site, trustedProxies, logger, identify });
    closing.add("gateway", () => gateway.close());
    const routes = new ClusterRoutes({ api, namespaces, traffic: gateway, logger });
    closing.add("routes", async () => routes.close());
    let isLeaving = false;
    const isReady = () => routes.isListed && !isLeaving;
    const counts = serveCounts(gateway, {
      isReady,
      routedForMs: (id) => (isReady() ? routes.routedForMs(id) : null),
      isOpen: (id) => isReady() && routes.isOpen(id),
    });
    const countsUrl = await bind(counts, config.host, config.countsPort);
    closing.add("counters", async () => void counts.close().closeAllConnections());
    const server = createHttpServer(gateway, {
      answer(request, response) {
        // The next request of this client goes to another replica.
        if (isLeaving) response.shouldKeepAlive = false;
        gateway.handle(request, response);
      },
      isForAgent: () => true,
      proxies: trustedProxies,
    });
    const url = await bind(server.server, config.host, config.port);
    closing.add("sockets", () => server.end());
    closing.add("requests", async () => {
      isLeaving = true;
      await sleep(config.leaveMs);
      server.server.close();
      await ended(gateway, config.drainMs);
    });
    routes.start();
    logger.info({ url, counts_url: countsUrl, control_plane: config.url, version }, "gateway started");
    return { url, close: () => closing.run() };
  } catch (error) {
    await closing.run();
    throw error;
  }
}

/** Waits until no request is in flight or waits, for at most `timeoutMs`. */
async function ended(gateway: Gateway, timeoutMs: number): Promise<void> {
  const untilMs = performance.now() + timeoutMs;
  const isBusy = () => {
    const { inFlight, waiting } = gateway.health();
    return inFlight + waiting > 0;
  };
  while (isBusy() && performance.now() < untilMs) await sleep(pollMs);
}

const trafficPath = "/traffic";
const routesPath = "/routes/";
const openRoutesPath = "/open-routes/";

/** Within this time, the controllers of the cluster learn of a new gateway and its addresses. */
const settledMs = 10_000;

/** Epoch milliseconds of a clock that does not jump, as the gateway's counters have them. */
const steadyNow = () => performance.timeOrigin + performance.now();

/** Answers the probes of the cluster and the listener, on a port that callers do not reach. */
function serveCounts(
  gateway: Gateway,
  {
    isReady,
    routedForMs,
    isOpen,
  }: {
    isReady: () => boolean;
    routedForMs: (deploymentId: string) => number | null;
    isOpen: (deploymentId: string) => boolean;
  },
): Server {
  const instanceId = randomUUID();
  const startedAtMs = steadyNow();
  const questions: Record<string, (deploymentId: string) => boolean> = {
    [routesPath]: (id) => (routedForMs(id) ?? 0) >= settledMs,
    [openRoutesPath]: isOpen,
  };
  return createServer((request, response) => {
    const answer = (status: number, body: unknown) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (request.url === trafficPath) answer(200, readTraffic(gateway, { instanceId, startedAtMs, nowMs: steadyNow() }));
    else if (request.url === "/ok") answer(200, { ok: true });
    else if (request.url === "/ready") answer(isReady() ? 200 : 503, { ok: isReady() });
    else {
      const [, question = "", id = ""] = /^(\/[a-z-]+\/)(.+)$/.exec(request.url ?? "") ?? [];
      const ok = questions[question]?.(id) === true;
      answer(ok ? 200 : 404, { ok });
    }
  });
}

function bind(server: Server, host: string, port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => resolve(urlOf(host, (server.address() as AddressInfo).port)));
  });
}

/**
 * Reads the counters of every replica of a gateway: of each address that the name of one of these URLs has, which for a headless
 * Service are its pods.
 */
export function httpReadGateways(urls: string[]): ReadGateways {
  return async (signal) => {
    const found = await Promise.all(urls.map(addressesOf));
    const results = await Promise.allSettled(found.flat().map((address) => readGateway(address, signal)));
    const readings = results.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    return { readings, isComplete: readings.length > 0 && readings.length === results.length };
  };
}

/** Returns a function that asks every replica of a gateway whether it can replace the deployment's own route. Errors count as no. */
export function httpIsRouted(urls: string[]): IsRouted {
  return (deploymentId, signal) => allAgree(urls, `${routesPath}${deploymentId}`, signal);
}

/** Asks every replica of a gateway. Errors count as no. */
async function allAgree(urls: string[], path: string, signal: AbortSignal): Promise<boolean> {
  try {
    const found = (await Promise.all(urls.map(addressesOf))).flat();
    const ending = AbortSignal.any([signal, AbortSignal.timeout(askTimeoutMs)]);
    const answers = await Promise.all(
      found.map((address) => fetch(`${address}${path}`, { signal: ending, redirect: "error" })),
    );
    // A body that is not read holds its connection.
    for (const { body } of answers) await body?.cancel();
    return answers.length > 0 && answers.every(({ ok }) => ok);
  } catch {
    return false;
  }
}

/**
 * Returns a function that waits a moment until requests to a deployment reach its pods: until every replica of the gateway has a
 * route to one, or without a gateway until a request through its Service is answered.
 * @param urls of the gateway in the cluster; empty: there is none
 */
export function httpIsReached(urls: string[]): IsReached {
  return async ({ deploymentId, url }, signal) => {
    const ending = AbortSignal.any([signal, AbortSignal.timeout(reachedWithinMs)]);
    while (!ending.aborted) {
      const isReached =
        urls.length > 0
          ? await allAgree(urls, `${openRoutesPath}${deploymentId}`, ending)
          : await isAnswered(url, ending);
      if (isReached) return true;
      await sleep(reachPollMs, undefined, { signal: ending }).catch(() => {});
    }
    signal.throwIfAborted();
    return false;
  };
}

/** Whether a request gets an answer that can be the agent's own. A proxy that knows no pod answers 503. */
function isAnswered(url: string, signal: AbortSignal): Promise<boolean> {
  return new Promise((resolve) => {
    // On a connection of its own, which ends with the answer.
    const request = get(url, { agent: false, signal }, (response) => {
      response.destroy();
      resolve((response.statusCode ?? 500) < 500);
    });
    request.on("error", () => resolve(false));
  });
}

async function addressesOf(url: string): Promise<string[]> {
  const { hostname, port } = new URL(url);
  const all = await lookup(hostname.replace(/^\[|\]$/g, ""), { all: true });
  return all.map(({ address, family }) => `http://${family === 6 ? `[${address}]` : address}:${port}`);
}

async function readGateway(address: string, signal: AbortSignal): Promise<GatewayReading> {
  const answer = await fetch(`${address}${trafficPath}`, { signal, redirect: "error" });
  if (!answer.ok) throw new Error(`the gateway answered with status ${answer.status}`);
  return (await answer.json()) as GatewayReading;
}
