import type { ServerProcess } from "./server-process.ts";

/** The server gives a build up after three deaths, as it should, so no build of a scenario may see more deaths than this. */
const deathsMax = 2;

/** A quiet machine deploys in about two seconds, so deaths at this distance hit each part of a deploy. */
const spreadMs = 3_000;

/** Kills the running server of a scenario with SIGKILL at random moments, from its first second to its last. */
export class RandomDeaths {
  #server: ServerProcess | undefined;
  #timer: NodeJS.Timeout | undefined;
  #deaths = 0;

  /** The server to kill next. */
  follow(server: ServerProcess): void {
    this.#server = server;
    void server.ended.then(() => {
      if (this.#server === server) this.end();
    });
    this.#plan();
  }

  /** Resets the count of deaths, because no build is in progress. */
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
