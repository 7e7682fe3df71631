import { randomInt } from "node:crypto";
import { createServer } from "node:net";

/**
 * Below those that a system gives to whoever asks for any (from 32768 on in Linux, from 49152 elsewhere) and below the
 * node ports of Kubernetes: no connection takes a port between its choice and its use.
 */
const range = { from: 20_000, to: 29_999 };
const count = range.to - range.from + 1;

/**
 * Ports of 127.0.0.1 for programs that we start. They are given in turn, from a random one on, so that the port of a
 * server that has just died is another's only after 10,000 starts, when nobody's request can meet the wrong one any more.
 */
export class Ports {
  #next = randomInt(count);
  readonly #given = new Set<number>();

  /** A port that nobody listens on and that is not given to another start. @throws Error when there is none, or none can be tried */
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

  /** Whoever has it was started by an earlier process. */
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
  // Anything else, such as too many open files, would be so with the next 9,999 as well.
  server.once("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EADDRINUSE" || error.code === "EACCES") resolve(false);
    else reject(error);
  });
  server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
  return promise;
}
