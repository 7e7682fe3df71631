import type { IncomingMessage } from "node:http";
import type { ReplicaLogChunk } from "../../compute.ts";
import { lineCostBytes, readableLines, readLogLine } from "../../log-line.ts";
import type { Engine } from "../engine/engine.ts";
import { type Frame, FrameSplitter } from "../engine/streams.ts";

type Line = ReplicaLogChunk["lines"][number];

/** Maximum of a line on the wire (`ReplicaLogLine.message`). A longer line continues as the next line. */
const lineBytesMax = 64 * 1024;

/** Limit for reading ahead. Above it the engine waits, and its files hold the rest. */
const bufferBytesMax = 1024 * 1024;

/** A log starts at once, even of a quiet container. Logs are read in sequence, so none may block the others. */
const openTimeoutMs = 5_000;

/** How long reading a finished log waits for output that the engine has not sent yet. */
const restTimeoutMs = 2_000;

/** Position in a stream: the engine's timestamp of the last line, and the number of lines read with that timestamp. */
interface Position {
  at: string;
  count: number;
}
type Positions = Record<Frame["stream"], Position>;
const start: Position = { at: "", count: 0 };

/**
 * The output of one container as the engine stores it. The key of a line consists of stream, timestamp (nanoseconds) and
 * its number among the lines of the same timestamp, so it is the same on every read.
 */
export class ContainerLog {
  readonly #engine: Engine;
  readonly #containerId: string;
  readonly #keyPrefix: string;
  #tail: LogTail | undefined;

  constructor(engine: Engine, containerId: string, keyPrefix: string) {
    this.#engine = engine;
    this.#containerId = containerId;
    this.#keyPrefix = keyPrefix;
  }

  /**
   * @param after cursor of an earlier call. The connection to the engine stays open for the next call.
   * @param options.isFinal the container has ended: waits for its remaining output
   */
  async read(
    after: string | null,
    { bytesMax, isFinal }: { bytesMax: number; isFinal: boolean },
  ): Promise<ReplicaLogChunk> {
    const cursor = after ?? writeCursor({ stdout: start, stderr: start });
    let tail = this.#tail;
    if (tail === undefined || tail.cursor !== cursor || (tail.isAtEnd && !(isFinal && tail.isComplete))) {
      tail?.close();
      // Stored only once it is open: a connection that an unreachable engine never answered would stay silent.
      this.#tail = undefined;
      tail = new LogTail(readCursor(cursor), this.#keyPrefix);
      await tail.open(this.#engine, this.#containerId);
      this.#tail = tail;
    }
    if (isFinal) await tail.waitForRest(bytesMax, restTimeoutMs);
    return { lines: tail.take(bytesMax), cursor: tail.cursor };
  }

  close(): void {
    this.#tail?.close();
  }
}

/** A line without its end yet: the engine cuts lines at 16 KiB. */
interface Unfinished {
  key: string;
  parts: Buffer[];
  bytes: number;
}

/** One connection that follows a log, with the lines that it has received and the caller has not taken yet. */
class LogTail {
  /** Lines up to here were read over an earlier connection. */
  readonly #begin: Positions;
  readonly #keyPrefix: string;
  #received: Positions = { stdout: start, stderr: start };
  /** Position after the last complete line. The beginning of an unfinished line is read again over the next connection. */
  #finished: Positions;
  #taken: Positions;
  readonly #unfinished: Partial<Record<Frame["stream"], Unfinished>> = {};
  readonly #buffered: { line: Line; positions: Positions; bytes: number }[] = [];
  #bufferedBytes = 0;
  #response: IncomingMessage | undefined;
  #hasEnded = false;
  #isComplete = false;
  #wake = () => {};

  constructor(begin: Positions, keyPrefix: string) {
    this.#begin = begin;
    this.#finished = begin;
    this.#taken = begin;
    this.#keyPrefix = keyPrefix;
  }

  /** Cursor after the last line that was taken. */
  get cursor(): string {
    return writeCursor(this.#taken);
  }

  /** True when everything was taken and the connection has ended. */
  get isAtEnd(): boolean {
    return this.#hasEnded && this.#buffered.length === 0;
  }

  /** True when the engine ended the log properly; false also when the connection broke. */
  get isComplete(): boolean {
    return this.#isComplete;
  }

  async open(engine: Engine, containerId: string): Promise<void> {
    const { stdout, stderr } = this.#begin;
    const since = toUnixTime(stdout.at < stderr.at ? stdout.at : stderr.at);
    const query = { follow: true, stdout: true, stderr: true, timestamps: true, since };
    const opening = new AbortController();
    const giveUp = () => opening.abort(new Error(`the engine did not start sending the log of ${containerId}`));
    const timer = setTimeout(giveUp, openTimeoutMs);
    const path = `/containers/${containerId}/logs`;
    const response = await engine.stream("GET", path, { query, signal: opening.signal }).finally(() => {
      clearTimeout(timer);
    });
    this.#response = response;
    const splitter = new FrameSplitter();
    response.on("data", (chunk: Buffer) => {
      for (const frame of splitter.split(chunk)) this.#receive(frame);
      if (this.#bufferedBytes > bufferBytesMax) response.pause();
      this.#wake();
    });
    // Also when the engine goes away: the next read opens another connection at the same position.
    response.once("close", () => {
      this.#hasEnded = true;
      this.#wake();
    });
    response.once("end", () => {
      this.#isComplete = true;
      for (const stream of ["stdout", "stderr"] as const) this.#finishLine(stream);
    });
    response.on("error", () => {});
  }

  /**
   * Resolves when that many bytes can be taken, the log has ended, or the time is over. It does not resolve with the first
   * line, because the engine may send the lines of one stream a moment before those of the other.
   */
  async waitForRest(bytes: number, timeoutMs: number): Promise<void> {
    const isThere = () => this.#hasEnded || this.#bufferedBytes >= Math.min(bytes, bufferBytesMax);
    if (isThere()) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, timeoutMs);
    this.#wake = () => {
      if (isThere()) resolve();
    };
    await promise;
    clearTimeout(timer);
    this.#wake = () => {};
  }

  take(bytesMax: number): Line[] {
    let bytes = 0;
    let count = 0;
    while (count < this.#buffered.length && (count === 0 || bytes < bytesMax))
      bytes += this.#buffered[count++]?.bytes ?? 0;
    const taken = this.#buffered.splice(0, count);
    this.#taken = taken.at(-1)?.positions ?? this.#taken;
    this.#bufferedBytes -= bytes;
    if (this.#bufferedBytes <= bufferBytesMax / 2) this.#response?.resume();
    return taken.map(({ line }) => line);
  }

  close(): void {
    this.#response?.destroy();
  }

  #receive({ stream, bytes }: Frame): void {
    const space = bytes.indexOf(32);
    const at = bytes.toString("latin1", 0, space);
    const text = bytes.subarray(space + 1);
    const last = this.#received[stream];
    const position = { at, count: at === last.at ? last.count + 1 : 1 };
    this.#received = { ...this.#received, [stream]: position };
    if (isUpTo(position, this.#begin[stream])) return;
    const line = this.#unfinished[stream] ?? { key: `${at}:${position.count}`, parts: [], bytes: 0 };
    const isWhole = text.at(-1) === 10;
    line.parts.push(isWhole ? text.subarray(0, -1) : text);
    line.bytes += text.length;
    this.#unfinished[stream] = line;
    if (isWhole || line.bytes >= lineBytesMax) this.#finishLine(stream);
  }

  #finishLine(stream: Frame["stream"]): void {
    const unfinished = this.#unfinished[stream];
    if (unfinished === undefined) return;
    delete this.#unfinished[stream];
    const { level, message, timestamp } = readLogLine(Buffer.concat(unfinished.parts).toString("utf8"));
    const line: Line = {
      key: `${this.#keyPrefix}:${stream}:${unfinished.key}`,
      timestamp: timestamp ?? new Date(this.#received[stream].at),
      stream,
      level,
      message: message.slice(0, lineBytesMax),
    };
    this.#finished = { ...this.#finished, [stream]: this.#received[stream] };
    const bytes = Math.max(unfinished.bytes, lineCostBytes);
    this.#buffered.push({ line, positions: this.#finished, bytes });
    this.#bufferedBytes += bytes;
  }
}

const isUpTo = (position: Position, end: Position) =>
  position.at < end.at || (position.at === end.at && position.count <= end.count);

/** `<time>,<count>;<time>,<count>` of stdout and stderr. */
const writeCursor = ({ stdout, stderr }: Positions) =>
  [stdout, stderr].map(({ at, count }) => `${at},${count}`).join(";");

function readCursor(cursor: string): Positions {
  const positions = cursor.split(";").map((part) => /^(\d{4}-[0-9T:.-]+Z),(\d+)$/.exec(part));
  const [stdout = start, stderr = start] = positions.map((found) =>
    found === null ? start : { at: found[1] as string, count: Number(found[2]) },
  );
  return { stdout, stderr };
}

/** Converts to seconds and nanoseconds since 1970, as the engine expects; the text has nine fractional digits. */
function toUnixTime(at: string): string {
  if (at === "") return "0";
  const [whole = "", nanoseconds = "0Z"] = at.split(".");
  return `${Date.parse(`${whole}Z`) / 1000}.${nanoseconds.slice(0, -1)}`;
}

/** Returns the last lines that a container wrote, oldest first, each cut to a readable length. */
export async function readLastLines(engine: Engine, containerId: string, linesMax: number): Promise<string[]> {
  const query = { stdout: true, stderr: true, tail: linesMax };
  const response = await engine.stream("GET", `/containers/${containerId}/logs`, { query, timeoutMs: 10_000 });
  const splitter = new FrameSplitter();
  let text = "";
  for await (const chunk of response) {
    for (const { bytes } of splitter.split(chunk as Buffer)) text += bytes.toString("utf8");
  }
  const lines = text.split("\n").flatMap(readableLines);
  return lines.filter((line) => line.trim() !== "").slice(-linesMax);
}
