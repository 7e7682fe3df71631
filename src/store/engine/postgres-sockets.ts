import { Socket } from "node:net";

/** At the end a PostgreSQL without an answer for so long is none: what is left undone ends by its lease. */
const farewellMs = 10_000;

const lookIntervalMs = 250;

/**
 * What a pool of connections to PostgreSQL is made of. When the server stops nobody waits for long for one that stands still,
 * however many still have something to ask: it is given up as a whole.
 */
export class PostgresSockets {
  readonly #sockets = new Set<Socket>();
  readonly #waiting = new Set<{ sinceMs: number }>();
  #watch: NodeJS.Timeout | undefined;
  #isCut = false;

  /** What `pg` connects with. */
  open(): Socket {
    const socket = new Socket();
    this.#sockets.add(socket);
    socket.once("close", () => this.#sockets.delete(socket));
    // After `pg` has begun with it: one that is destroyed before begins anew.
    if (this.#isCut) setImmediate(() => socket.destroy());
    return socket;
  }

  /** Asks for something. @throws Error when nobody is asked any more. */
  async answered<T>(ask: () => Promise<T>): Promise<T> {
    if (this.#isCut) throw new Error("the database does not answer, and this server stops");
    const wait = { sinceMs: performance.now() };
    this.#waiting.add(wait);
    try {
      return await ask();
    } finally {
      this.#waiting.delete(wait);
    }
  }

  /** From here on all are cut when one waits for too long. */
  hurry(): void {
    const beganMs = performance.now();
    this.#watch ??= setInterval(() => {
      const lateMs = performance.now() - farewellMs;
      if ([...this.#waiting].some(({ sinceMs }) => Math.max(sinceMs, beganMs) < lateMs)) this.cut();
    }, lookIntervalMs).unref();
  }

  /** Without a goodbye, which a server that stands still does not answer: half closed, they would keep this process. */
  cut(): void {
    this.#isCut = true;
    clearInterval(this.#watch);
    for (const socket of this.#sockets) socket.destroy();
  }
}
