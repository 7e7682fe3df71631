import { describeError, type Logger } from "../telemetry/log.ts";

/** Shutdown handlers of started parts, called in reverse order. A handler that fails does not prevent the others from running. */
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

  /** Runs all handlers once. A second call waits for the first one. */
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
