import { type DestinationStream, pino } from "pino";

/** pino's levels: lines from this level on are written at once, because each may be the last one. */
const warn = 40;

/** Buffer for lines that stderr does not accept; further lines are lost. */
const waitingLengthMax = 1024 * 1024;

/**
 * stderr of this process, for the log. The lines of one turn of the event loop are written together at its end: a busy
 * server has about ten per turn, and a write for each took 10 % of its processor time. At exit nothing is left to write;
 * `kill -9` loses the lines of one turn.
 */
class StandardError {
  /** Level of the line being written; pino sets it because of the metadata symbol below. */
  lastLevel = 0;
  #text = "";
  #sink: { write(text: string): unknown } | undefined;

  write(line: string): void {
    this.#sink ??= this.#open();
    if (this.#text === "") setImmediate(() => this.#flush());
    this.#text += line;
    if (this.lastLevel >= warn) this.#flush();
  }

  #flush(): void {
    if (this.#text === "") return;
    const text = this.#text;
    this.#text = "";
    this.#sink?.write(text);
  }

  #open() {
    process.on("exit", () => this.#flush());
    const sink = pino.destination({ dest: 2, sync: true, maxLength: waitingLengthMax });
    // A full disk or a closed terminal accepts no lines, which is no reason to stop serving.
    sink.on("error", () => {});
    return sink;
  }
}

/** The single stderr of the process, shared by all loggers. */
export const standardError: DestinationStream = Object.assign(new StandardError(), {
  [Symbol.for("pino.metadata")]: true,
});
