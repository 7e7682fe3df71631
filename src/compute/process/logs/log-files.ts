import {
  createReadStream,
  createWriteStream,
  fstatSync,
  ftruncateSync,
  readSync,
  renameSync,
  writeSync,
} from "node:fs";
import { open, readdir, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import type { ReplicaLogChunk } from "../../compute.ts";
import { lineCostBytes, readableLines, readLogLine } from "../../log-line.ts";

/**
 * One output stream of a replica. The replica writes it to a file itself, so the log survives this process. Each stream
 * has a current file and at most one older segment. A byte's *offset* counts from the first byte that the stream ever had,
 * so it stays valid when older output is dropped. The name of the segment contains the offset at which it begins and the
 * offset at which the current file begins: `stdout.<begin>-<current>.log`. If the segment ends before the current file
 * begins, the output between them was dropped.
 */
export interface LogStream {
  name: "stdout" | "stderr";
  file: string;
  segment: { file: string; begin: number; end: number } | undefined;
  /** Offset of the current file's first byte. */
  begin: number;
}

/** Two streams with two files each use 64 MiB per replica, plus what a burst adds between two checks. */
export const segmentBytesMax = 16 * 1024 * 1024;

/** Maximum of a line on the wire (`ReplicaLogLine.message`). A longer line continues as the next line. */
export const lineBytesMax = 64 * 1024;

export const streamNames = ["stdout", "stderr"] as const;

export async function findLogStream(directory: string, name: LogStream["name"]): Promise<LogStream> {
  const pattern = new RegExp(`^${name}\\.(\\d+)-(\\d+)\\.log$`);
  const segments = (await readdir(directory).catch(() => []))
    .flatMap((file) => {
      const [, begin, current] = pattern.exec(file) ?? [];
      if (current === undefined) return [];
      return [{ file: path.join(directory, file), begin: Number(begin), current: Number(current) }];
    })
    .sort((a, b) => b.current - a.current);
  const [last, ...older] = segments;
  for (const { file } of older) await rm(file, { force: true });
  const file = path.join(directory, `${name}.log`);
  if (last === undefined) return { name, file, segment: undefined, begin: 0 };
  const end = last.begin + (await fileSize(last.file));
  return { name, file, segment: { file: last.file, begin: last.begin, end }, begin: last.current };
}

/**
 * Limits the size of a stream: when the current file is larger than a segment, its end becomes the segment and the file is
 * truncated while the replica has it open (it appends, so its next byte becomes the first). Output between our last read
 * and the truncation, some microseconds, is lost.
 *
 * A crash between renaming and truncating shows the segment's lines twice under new offsets; no line is lost.
 */
export async function rotateLog(stream: LogStream, bytesMax = segmentBytesMax): Promise<void> {
  const size = await fileSize(stream.file);
  if (size <= bytesMax) return;
  const draft = `${stream.file}.draft`;
  const kept = await copyEnd(stream.file, { from: size - bytesMax, to: size, draft });
  const [current, segment] = [await open(stream.file, "r+"), await open(draft, "a")];
  try {
    const copied =
      kept === 0 ? { from: size, to: size } : copyRest(current.fd, segment.fd, { from: size - kept, to: size });
    const next = stream.begin + fstatSync(current.fd).size;
    const [begin, end] = [stream.begin + copied.from, stream.begin + copied.to];
    const file = path.join(path.dirname(stream.file), `${stream.name}.${begin}-${next}.log`);
    renameSync(draft, file);
    ftruncateSync(current.fd, 0);
    const old = stream.segment;
    stream.segment = { file, begin, end };
    stream.begin = next;
    if (old !== undefined) await rm(old.file, { force: true });
  } finally {
    await Promise.all([current.close(), segment.close()]);
  }
}

/** @returns how many bytes were copied. Copies none when the disk is full, because truncating the file helps most then. */
async function copyEnd(file: string, { from, to, draft }: { from: number; to: number; draft: string }) {
  try {
    await pipeline(createReadStream(file, { start: from, end: to - 1 }), createWriteStream(draft, { mode: 0o600 }));
    return to - from;
  } catch (error) {
    if (!["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "")) throw error;
    await writeFile(draft, "", { mode: 0o600 });
    return 0;
  }
}

/** How much a file may grow beyond a segment. At 1 GB/s this much is written while one segment is copied. */
const restBytesMax = 8 * 1024 * 1024;

/**
 * Copies what was added since, synchronously, so that almost nothing can be added after it. If that is too much, copies the
 * end of the file again, because the latest lines contain the cause of a failure (24 MiB at most, about 10 ms).
 * @returns the part of the file that the segment now contains
 */
function copyRest(current: number, segment: number, copied: { from: number; to: number }) {
  let { from, to } = copied;
  const size = fstatSync(current).size;
  if (size - to > restBytesMax) {
    ftruncateSync(segment, 0);
    from = size - (to - from);
    to = from;
  }
  const end = size + restBytesMax;
  const buffer = Buffer.allocUnsafe(256 * 1024);
  while (to < end) {
    const bytes = readSync(current, buffer, 0, buffer.length, to);
    if (bytes === 0) break;
    for (let written = 0; written < bytes; ) written += writeSync(segment, buffer, written, bytes - written);
    to += bytes;
  }
  return { from, to };
}

type Line = ReplicaLogChunk["lines"][number];

/**
 * Reads lines from an offset.
 * @param options.isFinal the replica writes no more, so a last line without a newline is complete
 * @returns the lines and the offset after the last of them
 */
export async function readLogStream(
  stream: LogStream,
  after: number,
  options: { keyPrefix: string; bytesMax: number; isFinal: boolean },
): Promise<{ lines: Line[]; next: number }> {
  const lines: Line[] = [];
  const offset = firstKept(stream, after);
  const wasCut = offset > after;
  if (wasCut) lines.push(droppedLine(stream, after, offset, options.keyPrefix));
  const bytesMax = Math.max(options.bytesMax, lineBytesMax + 1);
  const { bytes, endsAt, writtenAt } = await readSpan(stream, offset, bytesMax);
  const isComplete = endsAt === "gap" || (endsAt === "end" && options.isFinal);
  const pieces = splitLines(bytes, { isComplete, linesMax: Math.ceil(bytesMax / lineCostBytes) });
  for (const [index, piece] of pieces.entries()) {
    // After a gap the first line is incomplete: its beginning was dropped.
    if (wasCut && index === 0 && pieces.length > 1) continue;
    const text = bytes.toString("utf8", piece.begin, piece.end);
    lines.push(toLine(stream, offset + piece.begin, text, writtenAt, options.keyPrefix));
  }
  return { lines, next: offset + (pieces.at(-1)?.next ?? 0) };
}

/** Returns the first offset at or after `after` whose byte still exists. */
function firstKept({ segment, begin }: LogStream, after: number): number {
  if (segment !== undefined && segment.begin < segment.end && after < segment.end) {
    return Math.max(after, segment.begin);
  }
  return Math.max(after, begin);
}

interface Span {
  bytes: Buffer;
  /** `gap`: the output after it was dropped; `end`: nothing was written after it; `middle`: more follows. */
  endsAt: "gap" | "end" | "middle";
  /** Last modification of the first file that the bytes come from. */
  writtenAt: Date | undefined;
}

/** Reads bytes from an offset, from one file or across the end of the segment into the current file. */
async function readSpan(stream: LogStream, offset: number, bytesMax: number): Promise<Span> {
  const { segment, file, begin } = stream;
  if (segment === undefined || offset >= segment.end) {
    const size = await fileSize(file);
    const bytes = await readBytes(file, offset - begin, Math.min(bytesMax, size - (offset - begin)));
    const endsAt = offset - begin + bytes.length >= size ? "end" : "middle";
    return { bytes, endsAt, writtenAt: await modifiedAt(file) };
  }
  const bytes = await readBytes(segment.file, offset - segment.begin, Math.min(bytesMax, segment.end - offset));
  const writtenAt = await modifiedAt(segment.file);
  if (offset + bytes.length < segment.end || bytes.length === bytesMax) return { bytes, endsAt: "middle", writtenAt };
  if (segment.end < begin) return { bytes, endsAt: "gap", writtenAt };
  const rest = await readSpan(stream, begin, bytesMax - bytes.length);
  return { bytes: Buffer.concat([bytes, rest.bytes]), endsAt: rest.endsAt, writtenAt };
}

/** Returns the last lines of the output, oldest first, each cut to a readable length. */
export async function readLastLines(streams: LogStream[], linesMax: number): Promise<string[]> {
  const tails = await Promise.all(
    streams.map(async (stream) => {
      const lines = (await readTail(stream)).flatMap(readableLines);
      return { lines: lines.filter((line) => line.trim() !== ""), at: (await modifiedAt(stream.file))?.getTime() ?? 0 };
    }),
  );
  // The stream with the latest output comes last. Each gets half of the lines, and more when the other has fewer.
  const [earlier, later] = tails.sort((a, b) => a.at - b.at).map(({ lines }) => lines) as [string[], string[]];
  const half = Math.ceil(linesMax / 2);
  const laterCount = Math.min(later.length, Math.max(half, linesMax - earlier.length));
  return [...lastOf(earlier, linesMax - laterCount), ...lastOf(later, laterCount)];
}

const lastOf = (lines: string[], count: number) => (count > 0 ? lines.slice(-count) : []);

const tailBytes = 64 * 1024;

async function readTail(stream: LogStream): Promise<string[]> {
  const end = stream.begin + (await fileSize(stream.file));
  const { bytes, endsAt } = await readSpan(stream, firstKept(stream, end - tailBytes), tailBytes);
  const rest = endsAt === "gap" ? (await readSpan(stream, stream.begin, tailBytes)).bytes : "";
  return `${bytes}\n${rest}`.split("\n");
}

/**
 * Splits the beginning of these bytes into lines of at most `lineBytesMax`. Leaves an unfinished last line for later unless it is
 * complete.
 */
function splitLines(bytes: Buffer, { isComplete, linesMax }: { isComplete: boolean; linesMax: number }) {
  const pieces: { begin: number; end: number; next: number }[] = [];
  for (let begin = 0; begin < bytes.length && pieces.length < linesMax; ) {
    const lineEnd = bytes.indexOf(10, begin);
    const isOpen = lineEnd === -1;
    const end = isOpen ? bytes.length : lineEnd;
    if (end - begin > lineBytesMax) {
      const cut = characterStart(bytes, begin + lineBytesMax);
      pieces.push({ begin, end: cut, next: cut });
    } else if (isOpen && !isComplete) break;
    else pieces.push({ begin, end, next: isOpen ? end : end + 1 });
    begin = pieces.at(-1)?.next ?? bytes.length;
  }
  return pieces;
}

/** Steps back to the first byte of a UTF-8 character (RFC 3629: continuation bytes are 10xxxxxx). */
function characterStart(bytes: Buffer, position: number): number {
  let start = position;
  while (start > position - 4 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start--;
  return start;
}

function toLine(stream: LogStream, offset: number, text: string, writtenAt: Date | undefined, prefix: string): Line {
  const { level, message, timestamp } = readLogLine(text);
  return {
    key: `${prefix}:${stream.name}:${offset}`,
    timestamp: timestamp ?? writtenAt ?? new Date(),
    stream: stream.name,
    level,
    message: message.slice(0, lineBytesMax),
  };
}

function droppedLine(stream: LogStream, from: number, to: number, prefix: string): Line {
  const mib = ((to - from) / 1024 / 1024).toFixed(1);
  return {
    key: `${prefix}:${stream.name}:${from}:dropped`,
    timestamp: new Date(),
    stream: stream.name,
    level: "WARNING",
    message: `pierhead: ${mib} MiB of output were dropped here, because it was written faster than read or the disk was full.`,
  };
}

async function readBytes(file: string, position: number, bytesMax: number): Promise<Buffer> {
  if (bytesMax <= 0) return Buffer.alloc(0);
  const handle = await open(file, "r").catch(() => undefined);
  if (handle === undefined) return Buffer.alloc(0);
  try {
    const buffer = Buffer.alloc(bytesMax);
    const { bytesRead } = await handle.read(buffer, 0, bytesMax, position);
    return buffer.subarray(0, bytesRead);
  } finally {
    await handle.close();
  }
}

const fileSize = (file: string) =>
  stat(file).then(
    (found) => found.size,
    () => 0,
  );
const modifiedAt = (file: string) =>
  stat(file).then(
    (found) => found.mtime,
    () => undefined,
  );
