import { Socket } from "node:net";

/** After this long without an answer a stopping server gives PostgreSQL up. Leases end the work that stays unfinished. */
const shutdownTimeoutMs = 10_000;

const checkIntervalMs = 250;

/**
 * The sockets of a pool of connections to PostgreSQL. A stopping server does not wait long for a frozen PostgreSQL,
 * however many callers still have statements to send: it closes all of its connections at once.
 */
export class PostgresSockets {
  readonly #sockets = new Set<Socket>();
  readonly #waiting = new Set<{ sinceMs: number }>();
  #watch: NodeJS.Timeout | undefined;
  #isCut = false;

  /** Opens a socket for `pg`. */
  open(): Socket {
    const socket = new Socket();
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    // Destroy it only after `pg` has started to use it: pg reconnects a socket that is destroyed earlier.
    if (this.#isCut) setImmediate(() => socket.destroy());
    return socket;
  }

  /** Runs `ask` and watches how long it waits. @throws Error once the connections were closed. */
  async answered<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#isCut) throw new Error("the database does not answer and this server is stopping");
    const wait = { sinceMs: performance.now() };
    this.#waiting.add(wait);
    try {
      return await ask();
    } finally {
      this.#waiting.delete(wait);
    }
  }

  /** From now on closes all connections as soon as one caller waits for too long. */
  limitShutdown(): void {
    const beganMs = performance.now();
    this.#watch ??= setInterval(() => {
      const lateMs = performance.now() - shutdownTimeoutMs;
      if ([...this.#waiting].some(({ sinceMs }) => Math.max(sinceMs, beganMs) < lateMs)) this.cut();
    }, checkIntervalMs).unref();
  }

  /** Closes all sockets without a terminate message: a frozen server does not answer it, and half-closed sockets would keep this process alive. */
  cut(): void {
    this.#isCut = true;
    clearInterval(this.#watch);
    for (const socket of this.#sockets) socket.destroy();
  }
}
