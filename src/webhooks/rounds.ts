import { setTimeout as sleep } from "node:timers/promises";
import { describeError, type Logger } from "../telemetry/log.ts";

export interface Pause {
  /** The minimum pause, even after a wake. */
  leastMs: number;
  mostMs: number;
}

export interface RoundsOptions {
  logger: Logger;
  /** Does one round. @returns how long to pause, woken and not. */
  round: () => Promise<Pause>;
  /** Logged when a round throws. */
  failure: string;
  /** After a round that threw. */
  failurePause: Pause;
}

/** Runs rounds one after the other, with a pause between two that a wake shortens, until it is stopped. */
export class Rounds {
  readonly #options: RoundsOptions;
  readonly #stopping = new AbortController();
  #ended = Promise.resolve();
  #wake = () => {};

  constructor(options: RoundsOptions) {
    this.#options = options;
  }

  /** Is aborted when the rounds are stopped. */
  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  start(): void {
    this.#ended = this.#run();
  }

  /** Ends the current pause. A wake during a round makes the next pause as short as possible. */
  wake(): void {
    this.#wake();
  }

  /** Aborts `signal` and waits for the end of the current round. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the server is stopping"));
    this.#wake();
    await this.#ended;
  }

  async #run(): Promise<void> {
    const { logger, round, failure, failurePause } = this.#options;
    while (!this.signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      let pause = failurePause;
      try {
        pause = await round();
      } catch (error) {
        if (!this.signal.aborted) logger.warn({ error: describeError(error) }, failure);
      }
      await this.#pause(pause, woken);
    }
  }

  async #pause({ leastMs, mostMs }: Pause, woken: Promise<void>): Promise<void> {
    const ending = new AbortController();
    const signal = AbortSignal.any([ending.signal, this.signal]);
    const wait = (ms: number) => sleep(ms, undefined, { signal }).catch(() => undefined);
    await wait(leastMs);
    if (mostMs > leastMs) await Promise.race([woken, wait(mostMs - leastMs)]);
    ending.abort();
  }
}
