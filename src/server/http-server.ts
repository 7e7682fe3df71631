import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { hasBody } from "../gateway/forward.ts";
import { type Gateway, gatewayServerOptions } from "../gateway/gateway.ts";

export interface HttpServer {
  server: Server;
  /** Stops accepting connections. Closes idle ones now, and the others after their response or after 2 s. */
  end(): Promise<void>;
}

const endTimeoutMs = 2_000;

const notFound = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/** Creates an HTTP server with WebSocket support for agents. Other upgrade requests get a 404. */
export function createHttpServer(
  gateway: Pick<Gateway, "upgrade">,
  parts: {
    answer: RequestListener;
    isForAgent: Gateway["matches"];
    /** Deadline for receiving a whole request. Default: the gateway's. */
    arrivalMsOf?: (request: IncomingMessage) => number | undefined;
  },
): HttpServer {
  // Node has one request timeout for all requests, and some bodies are gigabytes. `limitArrival` sets it per request.
  const { requestTimeout = 0, ...options } = gatewayServerOptions;
  const server = createServer({ ...options, requestTimeout: 0 }, (request, response) => {
    limitArrival(request, response, parts.arrivalMsOf?.(request) ?? requestTimeout);
    parts.answer(request, response);
  });
  // Node detaches upgraded sockets: it neither handles their errors nor closes them, but `server.close` waits for them.
  const upgraded = new Set<Duplex>();
  server.on("upgrade", (request, socket, head) => {
    upgraded.add(socket);
    socket.once("close", () => upgraded.delete(socket));
    if (parts.isForAgent(request)) return gateway.upgrade(request, socket, head);
    socket.on("error", () => socket.destroy());
    socket.end(notFound, () => socket.destroy());
  });
  return {
    server,
    async end() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeIdleConnections();
      const deadline = setTimeout(() => {
        server.closeAllConnections();
        for (const socket of upgraded) socket.destroy();
      }, endTimeoutMs);
      await closed;
      clearTimeout(deadline);
    },
  };
}

const late = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n";

/** Applies a deadline to the request body as Node does: answers 408 unless a response has started, then closes the connection. */
function limitArrival(request: IncomingMessage, response: ServerResponse, withinMs: number): void {
  if (!hasBody(request)) return;
  const { socket } = request;
  const timer = setTimeout(() => {
    if (request.complete) return;
    if (!response.headersSent) socket.write(late);
    socket.destroy();
  }, withinMs).unref();
  const end = () => {
    clearTimeout(timer);
    socket.off("close", end);
  };
  // A request that is answered before its body was read emits no end.
  request.once("close", end);
  socket.once("close", end);
}
