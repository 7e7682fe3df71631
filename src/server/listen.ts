import type { IncomingMessage, Server, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { FastifyInstance } from "fastify";
import type { Gateway } from "../gateway/gateway.ts";
import { accessTokenLifeMs } from "../registry/access-token.ts";
import type { RegistryProxy } from "../registry/registry-proxy.ts";
import { createHttpServer } from "./http-server.ts";

/** Who answers which requests. */
export interface Answering {
  api: FastifyInstance;
  gateway: Gateway;
  /** null: images are not pushed here. */
  registryProxy: RegistryProxy | null;
  metrics: (request: IncomingMessage) => Promise<{ contentType: string; text: string }>;
}

export interface Listening {
  url: string;
  close(): Promise<void>;
}

/**
 * One port for API, agents and images: what `matches` a deployment goes to the gateway, the rest to the API. With `gatewayPort`
 * the gateway has a port of its own as well.
 * @throws Error with a sentence about what to do when a port is taken.
 */
export async function listen(
  { api, gateway, registryProxy, metrics }: Answering,
  wish: { host: string; port: number; gatewayPort: number | undefined },
): Promise<Listening> {
  await api.ready();
  const main = createHttpServer(gateway, {
    answer(request, response) {
      if (gateway.matches(request)) gateway.handle(request, response);
      else if (registryProxy?.matches(request)) registryProxy.handle(request, response);
      else if (request.url === "/metrics") void answerMetrics(metrics(request), response);
      else api.routing(request, response);
    },
    isForAgent: (request) => gateway.matches(request),
    // A layer of an image comes in one request: it may take as long as the token it is sent with.
    arrivalMsOf: (request) => (registryProxy?.matches(request) ? accessTokenLifeMs : undefined),
  });
  const servers = [main];
  if (wish.gatewayPort !== undefined) {
    const answer = (request: IncomingMessage, response: ServerResponse) => gateway.handle(request, response);
    servers.push(createHttpServer(gateway, { answer, isForAgent: () => true }));
  }
  const [, other] = servers;
  await bind(main.server, wish, "--port (PORT)");
  if (other !== undefined && wish.gatewayPort !== undefined) {
    const place = { host: wish.host, port: wish.gatewayPort };
    await bind(other.server, place, "PIERHEAD_GATEWAY_PORT").catch(async (error) => {
      // A start that fails leaves nothing: a port that is still listened on would keep the process, half closed.
      await main.end();
      throw error;
    });
  }
  const { port } = main.server.address() as AddressInfo;
  return {
    url: urlOf(wish.host, port),
    close: async () => void (await Promise.all(servers.map((server) => server.end()))),
  };
}

/**
 * Where a server answers that listens on an address. All addresses, 0.0.0.0 and ::, are none to ask; the loopback is among
 * both, and is the one that container engines pull from over plain HTTP.
 */
export function urlOf(host: string, port: number): string {
  const asked = /^[0.:]+$/.test(host) ? "127.0.0.1" : host;
  return `http://${asked.includes(":") ? `[${asked}]` : asked}:${port}`;
}

async function answerMetrics(
  reading: Promise<{ contentType: string; text: string }>,
  response: ServerResponse,
): Promise<void> {
  try {
    const { contentType, text } = await reading;
    response.writeHead(200, { "content-type": contentType }).end(text);
  } catch {
    response.writeHead(503).end();
  }
}

function bind(server: Server, { host, port }: { host: string; port: number }, setting: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) => {
      const isTaken = error.code === "EADDRINUSE";
      const advice = `port ${port} on ${host} is taken: stop what listens there, or choose another one with ${setting}`;
      reject(isTaken ? new Error(advice, { cause: error }) : error);
    });
    server.listen(port, host, resolve);
  });
}
