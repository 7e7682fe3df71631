import { type DestinationStream, pino } from "pino";

/** pino's levels: from this one on a line is written at once, as it may be the last one. */
const warn = 40;

/** Lines that nobody takes wait for so much room; what comes then is lost. */
const waitingLengthMax = 1024 * 1024;

/**
 * stderr of this process, for the log: what is written in one turn of the event loop goes out at its end, together. A
 * busy server has some ten lines in a turn, and a write for each took 10 % of its processor time. At the end of the process
 * nothing is left; `kill -9` takes the lines of one turn.
 */
class StandardError {
  /** Of the line that is written: pino sets it on who asks for it. */
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
    // A full disk, or a terminal that was closed, takes no lines: no reason to stop serving.
    sink.on("error", () => {});
    return sink;
  }
}

/** There is one stderr, whoever writes to it. */
export const standardError: DestinationStream = Object.assign(new StandardError(), {
  [Symbol.for("pino.metadata")]: true,
});
