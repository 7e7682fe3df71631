import { describeError, type Logger } from "../telemetry/log.ts";

/** What was started, to be ended in the opposite order. One part that fails to end does not keep the others from it. */
export class Closing {
  readonly #parts: { name: string; close: () => Promise<void> }[] = [];
  readonly #logger: Logger;
  #running: Promise<void> | undefined;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  add(name: string, close: () => Promise<void>): void {
    this.#parts.push({ name, close });
  }

  /** Calling it again waits for the first call. */
  run(): Promise<void> {
    this.#running ??= this.#closeAll();
    return this.#running;
  }

  async #closeAll(): Promise<void> {
    for (const part of this.#parts.toReversed()) {
      try {
        await part.close();
      } catch (error) {
        this.#logger.error({ part: part.name, error: describeError(error) }, "part did not close cleanly");
      }
    }
  }
}
