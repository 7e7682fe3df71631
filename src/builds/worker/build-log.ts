import { stripVTControlCharacters } from "node:util";
import { isNoise } from "../../base/log-noise.ts";
import type { BuildLine } from "../build.ts";

/** Longer lines continue on the next one, because the log store accepts at most 64 KiB per line. */
const lineBytesMax = 64 * 1024;

/** Output limits of one build: 50,000 lines are more than anyone reads, 20 MB is what a log page can still search. */
const defaultLimits = { linesMax: 50_000, bytesMax: 20 * 1024 * 1024 };

/** The last lines are saved outside the limits, so that a failure quotes them even after a flood of output. */
const lastLinesMax = 100;
const shownLinesMax = 30;

/**
 * The log of one build: Pierhead's own step lines and the output of commands, without control characters and the given
 * secrets. Output beyond the limits is counted and dropped; Pierhead's own lines are always written.
 */
export class BuildLog {
  readonly #write: (line: BuildLine) => void;
  readonly #secrets: string[];
  readonly #limits: { linesMax: number; bytesMax: number };
  #lines = 0;
  #bytes = 0;
  #dropped = { lines: 0, bytes: 0 };
  #lastLines: string[] = [];

  constructor(
    write: (line: BuildLine) => void,
    options: { secrets?: string[]; limits?: { linesMax: number; bytesMax: number } } = {},
  ) {
    this.#write = write;
    // Shorter strings are not secrets, and replacing them would make the text unreadable.
    this.#secrets = (options.secrets ?? []).filter((secret) => secret.length >= 4);
    this.#limits = options.limits ?? defaultLimits;
  }

  /** Writes a line of Pierhead's own. */
  say(message: string, level: BuildLine["level"] = "INFO"): void {
    for (const line of message.split("\n")) this.#emit("pierhead", level, this.#clean(line));
  }

  /** Writes one line of a command's output. */
  output(stream: "stdout" | "stderr", text: string): void {
    const message = this.#clean(text);
    this.#lastLines.push(message);
    if (this.#lastLines.length > lastLinesMax) this.#lastLines.shift();
    const bytes = Buffer.byteLength(message);
    if (this.#lines >= this.#limits.linesMax || this.#bytes + bytes > this.#limits.bytesMax) {
      this.#dropped = { lines: this.#dropped.lines + 1, bytes: this.#dropped.bytes + bytes };
      return;
    }
    this.#lines++;
    this.#bytes += bytes;
    this.#emit(stream, "INFO", message);
  }

  /** Clears the saved lines of the previous command, so that a failure quotes only its own command. */
  forgetLastLines(): void {
    this.#lastLines = [];
  }

  /** Returns the newest lines that say something, for a failure message. */
  lastLines(countMax: number): string[] {
    return this.#lastLines.filter((line) => line.trim() !== "" && !isNoise(line)).slice(-countMax);
  }

  /** Reports how much output was dropped, followed by the last lines. */
  close(): void {
    const { lines, bytes } = this.#dropped;
    if (lines === 0) return;
    this.say(
      `${lines} lines (${bytes} bytes) of output were dropped: a build log holds ${this.#limits.linesMax} lines and ${this.#limits.bytesMax} bytes. The last ones were:`,
    );
    for (const line of this.#lastLines.slice(-shownLinesMax)) this.say(line);
    this.#dropped = { lines: 0, bytes: 0 };
  }

  #emit(stream: BuildLine["stream"], level: BuildLine["level"], message: string): void {
    this.#write({ timestamp: new Date(), stream, level, message });
  }

  #clean(text: string): string {
    let clean = stripVTControlCharacters(text).replace(/[^\P{Cc}\t]/gu, "");
    for (const secret of this.#secrets) clean = clean.replaceAll(secret, "**********");
    return clean;
  }
}

/** Splits a stream of bytes into lines: at line breaks, and within lines that are too long for one entry. */
export class LineSplitter {
  readonly #onLine: (line: string) => void;
  #rest: Buffer[] = [];
  #restBytes = 0;

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine;
  }

  write(chunk: Buffer): void {
    for (let start = 0; start < chunk.length; ) {
      const lineBreak = chunk.indexOf(10, start);
      const end = Math.min(lineBreak === -1 ? chunk.length : lineBreak, start + lineBytesMax - this.#restBytes);
      this.#rest.push(chunk.subarray(start, end));
      this.#restBytes += end - start;
      if (end === lineBreak) this.#flush();
      else if (this.#restBytes === lineBytesMax) this.#flushPart();
      start = end === lineBreak ? end + 1 : end;
    }
  }

  end(): void {
    if (this.#restBytes > 0) this.#flush();
  }

  #flush(): void {
    this.#onLine(this.#take().toString("utf8"));
  }

  /** Emits a part without splitting a character: the bytes of an incomplete one stay for the next part. */
  #flushPart(): void {
    const part = this.#take();
    let end = part.length;
    while (end > part.length - 4 && ((part[end - 1] ?? 0) & 0xc0) === 0x80) end--;
    const isSplit = (part[end - 1] ?? 0) >= 0xc0;
    const cut = isSplit ? end - 1 : part.length;
    this.#onLine(part.toString("utf8", 0, cut));
    if (cut < part.length) {
      this.#rest = [part.subarray(cut)];
      this.#restBytes = part.length - cut;
    }
  }

  #take(): Buffer {
    const taken = Buffer.concat(this.#rest);
    this.#rest = [];
    this.#restBytes = 0;
    return taken;
  }
}
