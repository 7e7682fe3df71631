import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { hasBody } from "../gateway/forward.ts";
import { type Gateway, gatewayServerOptions } from "../gateway/gateway.ts";

export interface HttpServer {
  server: Server;
  /** Takes no more connections; idle ones end now, the others when their answer is out, at the latest after 2 s. */
  end(): Promise<void>;
}

const endTimeoutMs = 2_000;

const notFound = "HTTP/1.1 404 Not Found\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/** Serves agents beside something else: who asks for a WebSocket gets one of an agent, or is told that there is none. */
export function createHttpServer(
  gateway: Pick<Gateway, "upgrade">,
  parts: {
    answer: RequestListener;
    isForAgent: Gateway["matches"];
    /** How long a request may take to come in whole. Default: as the gateway has it. */
    arrivalMsOf?: (request: IncomingMessage) => number | undefined;
  },
): HttpServer {
  // Node has one time for all requests, and some bodies are gigabytes.
  const { requestTimeout = 0, ...options } = gatewayServerOptions;
  const server = createServer({ ...options, requestTimeout: 0 }, (request, response) => {
    limitArrival(request, response, parts.arrivalMsOf?.(request) ?? requestTimeout);
    parts.answer(request, response);
  });
  // Node lets go of these: it neither hears of their errors nor ends them, and waits for them before a server is closed.
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
      const patience = setTimeout(() => {
        server.closeAllConnections();
        for (const socket of upgraded) socket.destroy();
      }, endTimeoutMs);
      await closed;
      clearTimeout(patience);
    },
  };
}

const late = "HTTP/1.1 408 Request Timeout\r\nconnection: close\r\n\r\n";

/** As node does it: who is late is told so, unless something else was answered already, and is cut off. */
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
  // One that was answered before it was read says nothing of its end.
  request.once("close", end);
  socket.once("close", end);
}
