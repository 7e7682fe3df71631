import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface Asked {
  method: string;
  url: string;
  headers: IncomingMessage["headers"];
  body: string;
}

type Given = { status: number; body?: unknown; headers?: Record<string, string> } | "hang up" | "silence";

/** Starts a server on this machine with given responses, which records its requests. Like an old server, it has no event streams. */
export async function startAnswering(answer: (asked: Asked, count: number) => Given | Promise<Given>) {
  const asked: Asked[] = [];
  const server = createServer(async (request, response: ServerResponse) => {
    const { method = "", url = "", headers } = request;
    if (headers.accept === "text/event-stream") return response.writeHead(404).end('{"detail": "Not Found"}');
    const question = { method, url, headers, body: await text(request) };
    asked.push(question);
    const given = await answer(question, asked.length);
    if (given === "hang up") return request.socket.destroy();
    if (given === "silence") return;
    const body = typeof given.body === "string" ? given.body : JSON.stringify(given.body);
    response.writeHead(given.status, given.headers).end(given.body === undefined ? undefined : body);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    asked,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
