import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { networkInterfaces } from "node:os";
import type { FastifyInstance } from "fastify";
import { noTrustedProxies, type TrustedProxies } from "../base/trusted-proxies.ts";
import { connectProtocol, execProtocol } from "../contract/deployments/exec.ts";
import { tunnelProtocol } from "../contract/listeners/tunnel.ts";
import type { Gateway } from "../gateway/gateway.ts";
import { accessTokenLifeMs } from "../registry/access-token.ts";
import type { RegistryProxy } from "../registry/registry-proxy.ts";
import { createHttpServer } from "./http-server.ts";

/** The handlers of the server's ports. */
export interface RequestHandlers {
  api: FastifyInstance;
  gateway: Gateway;
  /** null: this server has no image registry. */
  registryProxy: RegistryProxy | null;
  /** Returns null for a caller that may see no metrics. */
  metrics: (request: IncomingMessage) => Promise<{ contentType: string; text: string } | null>;
}

export interface ListeningServer {
  url: string;
  close(): Promise<void>;
}

/**
 * Serves API, agents and images on one port. Requests that match a deployment go to the gateway, pushed and pulled images to the
 * registry proxy, the rest to the API. With `gatewayPort` the gateway also gets a port of its own.
 * @throws Error that names the port and the setting when a port is taken.
 */
export async function listen(
  { api, gateway, registryProxy, metrics }: RequestHandlers,
  addresses: { host: string; port: number; gatewayPort: number | undefined; trustedProxies?: TrustedProxies },
): Promise<ListeningServer> {
  await api.ready();
  const { trustedProxies: proxies = noTrustedProxies } = addresses;
  const main = createHttpServer(gateway, {
    answer(request, response) {
      if (gateway.matches(request)) gateway.handle(request, response);
      else if (registryProxy?.matches(request)) registryProxy.handle(request, response);
      else if (request.url === "/metrics") void answerMetrics(metrics(request), response);
      else api.routing(request, response);
    },
    isForAgent: (request) => gateway.matches(request),
    isForApi: ({ headers }) => apiProtocols.has(headers.upgrade?.toLowerCase() ?? ""),
    // A client uploads an image layer in one request, which may take as long as its access token is valid.
    arrivalMsOf: (request) => (registryProxy?.matches(request) ? accessTokenLifeMs : undefined),
    proxies,
  });
  const servers = [main];
  if (addresses.gatewayPort !== undefined) {
    const answer = (request: IncomingMessage, response: ServerResponse) => gateway.handle(request, response);
    servers.push(createHttpServer(gateway, { answer, isForAgent: () => true, proxies }));
  }
  const [, other] = servers;
  await bind(main.server, addresses, "--port (PORT)");
  if (other !== undefined && addresses.gatewayPort !== undefined) {
    const gatewayAddress = { host: addresses.host, port: addresses.gatewayPort };
    await bind(other.server, gatewayAddress, "PIERHEAD_GATEWAY_PORT").catch(async (error) => {
      // Closes the main port: an open port would keep the process of a failed start alive.
      await main.end();
      throw error;
    });
  }
  const { port } = main.server.address() as AddressInfo;
  return {
    url: urlOf(addresses.host, port),
    close: async () => void (await Promise.all(servers.map((server) => server.end()))),
  };
}

/** Protocols of upgraded connections that the API takes over. */
const apiProtocols = new Set([execProtocol, connectProtocol, tunnelProtocol]);

/**
 * Returns the address of this server for other machines: `own`, or the first address of this machine if it listens on all. A machine
 * without IPv4 has only addresses of IPv6, those of one link aside.
 * @param own URL with which this machine reaches the server
 */
export function replicaUrlOf(host: string, own: string, interfaces = networkInterfaces()): string {
  if (!/^[0.:]+$/.test(host)) return own;
  const addresses = Object.values(interfaces).flatMap((all) => all ?? []);
  const outside = addresses.filter(({ internal, address }) => !internal && !/^fe[89ab]/i.test(address));
  const first = outside.find(({ family }) => family === "IPv4") ?? outside[0];
  return first === undefined ? own : urlOf(first.address, Number(new URL(own).port));
}

/**
 * Returns the URL of a server that listens on `host`. The wildcard addresses 0.0.0.0 and :: cannot be called, so they become
 * 127.0.0.1, which both include and from which container engines pull over plain HTTP.
 */
export function urlOf(host: string, port: number): string {
  const asked = /^[0.:]+$/.test(host) ? "127.0.0.1" : host;
  return `http://${asked.includes(":") ? `[${asked}]` : asked}:${port}`;
}

const tokenNeeded =
  "Metrics need the bearer token in PIERHEAD_METRICS_TOKEN. PIERHEAD_ANONYMOUS_METRICS=true lets them be read without one.\n";

async function answerMetrics(
  reading: Promise<{ contentType: string; text: string } | null>,
  response: ServerResponse,
): Promise<void> {
  try {
    const read = await reading;
    if (read === null) response.writeHead(401, { "www-authenticate": "Bearer" }).end(tokenNeeded);
    else response.writeHead(200, { "content-type": read.contentType }).end(read.text);
  } catch {
    response.writeHead(503).end();
  }
}

function bind(server: Server, { host, port }: { host: string; port: number }, setting: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === "EADDRINUSE";
      const advice = `port ${port} on ${host} is taken: stop the program that listens there, or choose another port with ${setting}`;
      reject(isTaken ? new Error(advice, { cause: error }) : error);
    });
    server.listen(port, host, resolve);
  });
}
