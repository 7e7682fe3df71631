import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/**
 * Below the ephemeral ports (from 32768 in Linux, from 49152 elsewhere) and below the node ports of Kubernetes, so that no
 * outgoing connection takes a port between its selection and its use.
 */
const range = { from: 20_000, to: 29_999 };
const count = range.to - range.from + 1;

/**
 * Ports of 127.0.0.1 for programs that we start. They are handed out in sequence from a random start, so the port of a
 * server that has just died is reused only after 10,000 starts, when no request for the old server is left.
 */
export class Ports {
  #next = randomInt(count);
  readonly #given = new Set<number>();

  /**
   * Reserves a port on which nothing listens and that no other start has reserved.
   * @throws Error when no port is free, or when testing ports fails.
   */
  async take(): Promise<number> {
    for (let tries = 0; tries < count; tries++) {
      const port = range.from + this.#next;
      this.#next = (this.#next + 1) % count;
      if (this.#given.has(port)) continue;
      this.#given.add(port);
      const isOurs = await isFree(port).catch((error: unknown) => {
        this.#given.delete(port);
        throw error;
      });
      if (isOurs) return port;
      this.#given.delete(port);
    }
    throw new Error(`no port from ${range.from} to ${range.to} is free on 127.0.0.1`);
  }

  /** Marks the port of a program that an earlier process started as reserved. */
  reserve(port: number): void {
    this.#given.add(port);
  }

  release(port: number): void {
    this.#given.delete(port);
  }
}

function isFree(port: number): Promise<boolean> {
  const { promise, resolve, reject } = Promise.withResolvers<boolean>();
  const server = createServer();
  // Any other error, such as too many open files, would repeat for the other 9,999 ports.
  server.once("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EADDRINUSE" || error.code === "EACCES") resolve(false);
    else reject(error);
  });
  server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  return promise;
}
