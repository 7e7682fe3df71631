import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";

export interface Received {
  id: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into messages of every shape.
  message: any;
}

type Answer = { status: number; body?: string; headers?: Record<string, string> } | "hang up" | "silence";

/** A local receiver with configurable responses that records its messages and how many arrive at the same time. */
export async function startReceiver(answer: (received: Received, count: number) => Answer | Promise<Answer>) {
  const received: Received[] = [];
  const underWay = new Map<string, number>();
  let connections = 0;
  const most = { sameId: 0, together: 0 };
  const server = createServer(async (request, response) => {
    const body = await text(request);
    const id = String(request.headers["webhook-id"]);
    const got = { id, path: request.url ?? "", headers: request.headers, body, message: JSON.parse(body) };
    received.push(got);
    underWay.set(id, (underWay.get(id) ?? 0) + 1);
    most.sameId = Math.max(most.sameId, underWay.get(id) ?? 0);
    most.together = Math.max(
      most.together,
      [...underWay.values()].reduce((sum, count) => sum + count, 0),
    );
    const given = await answer(got, received.length);
    underWay.set(id, (underWay.get(id) ?? 1) - 1);
    if (given === "hang up") return request.socket.destroy();
    if (given !== "silence") response.writeHead(given.status, given.headers).end(given.body);
  });
  server.on("connection", () => {
    connections += 1;
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    most,
    connections: () => connections,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
