import { once } from "node:events";
import { createServer, type IncomingMessage, type RequestListener, type Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { createGateway, type GatewayOptions, gatewayServerOptions } from "../../src/gateway/gateway.ts";
import type { Route } from "../../src/gateway/route.ts";
import { createLogger } from "../../src/telemetry/log.ts";

/** A gateway behind a real server on a free port. Requests that are not for a deployment get 418. */
export async function startGateway(options: Partial<GatewayOptions> = {}) {
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger, ...options });
  const server = createServer(gatewayServerOptions, (request, response) => {
    if (gateway.matches(request)) gateway.handle(request, response);
    else response.writeHead(418).end();
  });
  server.on("upgrade", (request, socket, head) => gateway.upgrade(request, socket, head));
  const port = await listen(server);
  return {
    gateway,
    port,
    url: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      await gateway.close();
      await stop(server);
    },
  };
}

/** A stand-in for an agent server. `port`: listens on that port again, like a restarted server. */
export async function startTarget(
  handler: RequestListener,
  options: { port?: number; keepAliveTimeout?: number } = {},
) {
  const server = createServer({ keepAliveTimeout: options.keepAliveTimeout ?? 5_000 }, handler);
  let connections = 0;
  server.on("connection", () => {
    connections += 1;
  });
  const port = await listen(server, options.port);
  return {
    server,
    port,
    connections: () => connections,
    target: (replicaId: string) => ({ replicaId, host: "127.0.0.1", port }),
    stop: () => stop(server),
    [Symbol.asyncDispose]: () => stop(server),
  };
}

export function route(targets: Route["targets"], parts: Partial<Route> = {}): Route {
  return { slug: "demo", deploymentId: "dep-1", revisionId: "rev-1", targets, state: "open", because: null, ...parts };
}

async function listen(server: Server, port = 0): Promise<number> {
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
}

async function stop(server: Server): Promise<void> {
  if (!server.listening) return;
  const closed = once(server, "close");
  server.close();
  server.closeAllConnections();
  await closed;
}

/** A raw connection that sends exactly the given bytes. */
export async function openRaw(port: number, text = "") {
  const socket: Socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  let received = "";
  let isEnded = false;
  socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
  });
  socket.on("close", () => {
    isEnded = true;
  });
  await once(socket, "connect");
  socket.write(text, "latin1");
  return {
    socket,
    received: () => received,
    isEnded: () => isEnded,
    /** Resolves with everything received once `pattern` matches it. */
    until: (pattern: RegExp) =>
      eventually(
        () => received,
        (text) => pattern.test(text),
      ),
    [Symbol.dispose]: () => void socket.destroy(),
  };
}

/** Sends one request on its own connection, exactly as written. Resolves with the whole answer. */
export async function exchangeRaw(port: number, text: string): Promise<string> {
  using raw = await openRaw(port, text);
  await eventually(raw.isEnded, (isEnded) => isEnded);
  return raw.received();
}

export async function readBody(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

/** Polls until `holds` returns true. Fails with the last state after the time limit. */
export async function eventually<T>(read: () => T, holds: (state: T) => boolean, timeoutMs = 30_000): Promise<T> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const state = read();
    if (holds(state)) return state;
    if (Date.now() > end) throw new Error(`never held, last state ${JSON.stringify(state)}`);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}
