import { createServer, type RequestListener, type Server } from "node:http";
import type { Duplex } from "node:stream";
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
  parts: { answer: RequestListener; isForAgent: Gateway["matches"] },
): HttpServer {
  const server = createServer(gatewayServerOptions, parts.answer);
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
      const late = setTimeout(() => {
        server.closeAllConnections();
        for (const socket of upgraded) socket.destroy();
      }, endTimeoutMs);
      await closed;
      clearTimeout(late);
    },
  };
}
