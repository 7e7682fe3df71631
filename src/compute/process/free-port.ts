import { createServer } from "node:net";

/** A port that was free a moment ago and that none of our other starts has been given. */
export async function findFreePort(taken: ReadonlySet<number>): Promise<number> {
  for (;;) {
    const port = await listenOnce();
    if (!taken.has(port)) return port;
  }
}

async function listenOnce(): Promise<number> {
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  const server = createServer();
  server.on("error", reject);
  server.listen(0, "127.0.0.1", () => {
    const address = server.address();
    server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
  });
  return promise;
}
