import type { ServerProcess } from "./server-process.ts";

/** A build whose servers died thrice is given up, as it should be: no build of a life may meet more deaths than this. */
const deathsMax = 2;

/** A quiet machine deploys in about two seconds: so far apart, deaths hit each part of it. */
const spreadMs = 3_000;

/** Ends whichever server of a life lives with SIGKILL, at random moments from the life's first second to its last. */
export class RandomDeaths {
  #server: ServerProcess | undefined;
  #timer: NodeJS.Timeout | undefined;
  #deaths = 0;

  /** The server that is to die next. */
  follow(server: ServerProcess): void {
    this.#server = server;
    void server.ended.then(() => {
      if (this.#server === server) this.end();
    });
    this.#plan();
  }

  /** No build goes on: the next one may meet as many deaths again. */
  settled(): void {
    this.#deaths = 0;
    this.#plan();
  }

  end(): void {
    this.#server = undefined;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #plan(): void {
    if (this.#server === undefined || this.#timer !== undefined || this.#deaths === deathsMax) return;
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#deaths += 1;
      this.#server?.child.kill("SIGKILL");
    }, Math.random() * spreadMs);
  }
}
