import { createReadStream, createWriteStream, fstatSync, ftruncateSync, renameSync } from "node:fs";
import { open, readdir, rm, stat } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import type { ReplicaLogChunk } from "../compute.ts";
import { readLogLine } from "./log-line.ts";

/**
 * Output of one replica, which it writes itself into files that outlive us. Each stream has the file it is written to
 * and at most one older segment; a byte's *offset* counts from the first byte the stream ever had, so that it is stable
 * whatever was dropped since. The name of the segment says where it begins and where the current file begins:
 * `stdout.<begin>-<current>.log`.
 */
export interface LogStream {
  name: "stdout" | "stderr";
  file: string;
  segment: { file: string; begin: number; end: number } | undefined;
  /** Offset of the current file's first byte. */
  begin: number;
}

/** Two streams with two files each make 64 MiB a replica. A burst between two checks comes on top until the next. */
export const segmentBytesMax = 16 * 1024 * 1024;

/** The wire form of a line holds no more (`ReplicaLogLine.message`); a longer one goes on as the next line. */
export const lineBytesMax = 64 * 1024;

export const streamNames = ["stdout", "stderr"] as const;

export async function findLogStream(directory: string, name: LogStream["name"]): Promise<LogStream> {
  const pattern = new RegExp(`^${name}\\.(\\d+)-(\\d+)\\.log$`);
  const segments = (await readdir(directory).catch(() => []))
    .flatMap((file) => {
      const [, begin, end] = pattern.exec(file) ?? [];
      return end === undefined ? [] : [{ file: path.join(directory, file), begin: Number(begin), end: Number(end) }];
    })
    .sort((a, b) => b.end - a.end);
  const [segment, ...older] = segments;
  for (const { file } of older) await rm(file, { force: true });
  return { name, file: path.join(directory, `${name}.log`), segment, begin: segment?.end ?? 0 };
}

/**
 * Keeps a stream within its bound: when the current file has outgrown a segment, its last 16 MiB become the segment and
 * the file is emptied under the writer's hands (it appends, so its next byte is the first). What the writer adds between
 * the copy and the truncation, some microseconds, is lost and counted as dropped.
 *
 * A crash between renaming and truncating shows the segment's lines twice under new offsets; none is lost.
 */
export async function rotateLog(stream: LogStream, bytesMax = segmentBytesMax): Promise<void> {
  const size = await fileSize(stream.file);
  if (size <= bytesMax) return;
  const from = size - bytesMax;
  const draft = `${stream.file}.draft`;
  await pipeline(
    createReadStream(stream.file, { start: from, end: size - 1 }),
    createWriteStream(draft, { mode: 0o600 }),
  );
  const current = await open(stream.file, "r+");
  try {
    const begin = stream.begin + from;
    const end = stream.begin + fstatSync(current.fd).size;
    const file = path.join(path.dirname(stream.file), `${stream.name}.${begin}-${end}.log`);
    renameSync(draft, file);
    ftruncateSync(current.fd, 0);
    const old = stream.segment;
    stream.segment = { file, begin, end };
    stream.begin = end;
    if (old !== undefined) await rm(old.file, { force: true });
  } finally {
    await current.close();
  }
}

type Line = ReplicaLogChunk["lines"][number];

/**
 * Reads on from an offset.
 * @param options.isFinal nothing will be added any more, so a last line without a line end is complete
 * @returns the lines and the offset behind the last of them
 */
export async function readLogStream(
  stream: LogStream,
  after: number,
  options: { keyPrefix: string; bytesMax: number; isFinal: boolean },
): Promise<{ lines: Line[]; next: number }> {
  const lines: Line[] = [];
  const size = await fileSize(stream.file);
  const oldest = stream.segment?.begin ?? stream.begin;
  let offset = after;
  let wasCut = false;
  if (offset < oldest) {
    lines.push(droppedLine(stream, offset, oldest, options.keyPrefix));
    offset = oldest;
    wasCut = true;
  }
  const { segment } = stream;
  const segmentEnd = segment === undefined ? 0 : segment.begin + (await fileSize(segment.file));
  const isOld = segment !== undefined && offset < segmentEnd;
  // What the writer added while a segment was made: neither file has it.
  if (!isOld && offset < stream.begin) offset = stream.begin;

  const place = isOld
    ? { file: segment.file, begin: segment.begin, size: segmentEnd - segment.begin }
    : { ...stream, size };
  const bytes = await readBytes(place.file, offset - place.begin, Math.max(options.bytesMax, lineBytesMax + 1));
  const reachesEnd = offset - place.begin + bytes.length >= place.size;
  const pieces = splitLines(bytes, { isComplete: reachesEnd && (isOld || options.isFinal) });
  const writtenAt = await modifiedAt(place.file);
  for (const [index, piece] of pieces.entries()) {
    const begin = offset + piece.begin;
    // After a gap the first line is the rest of one whose head was dropped.
    if (wasCut && index === 0 && pieces.length > 1) continue;
    lines.push(toLine(stream, begin, bytes.toString("utf8", piece.begin, piece.end), writtenAt, options.keyPrefix));
  }
  const next = offset + (pieces.at(-1)?.next ?? 0);
  return { lines, next };
}

/** The last lines of what was written, oldest first, each cut to a readable length. */
export async function readLastLines(directory: string, linesMax: number): Promise<string[]> {
  const tails = await Promise.all(
    streamNames.map(async (name) => {
      const stream = await findLogStream(directory, name);
      const lines = (await readTail(stream)).map((line) => readLogLine(line).message.slice(0, lastLineCharsMax));
      return { lines: lines.filter((line) => line.trim() !== ""), at: (await modifiedAt(stream.file))?.getTime() ?? 0 };
    }),
  );
  // The stream that was written to last has the last word; each gets half, and more when the other says less.
  const [earlier, later] = tails.sort((a, b) => a.at - b.at).map(({ lines }) => lines) as [string[], string[]];
  const half = Math.ceil(linesMax / 2);
  const laterCount = Math.min(later.length, Math.max(half, linesMax - earlier.length));
  return [...lastOf(earlier, linesMax - laterCount), ...lastOf(later, laterCount)];
}

const lastOf = (lines: string[], count: number) => (count > 0 ? lines.slice(-count) : []);

/** Thirty of them are to fit into a status message. */
const lastLineCharsMax = 1_000;
const tailBytes = 64 * 1024;

async function readTail(stream: LogStream): Promise<string[]> {
  const size = await fileSize(stream.file);
  const current = await readBytes(stream.file, Math.max(0, size - tailBytes), tailBytes);
  const { segment } = stream;
  // Just rotated: the end of the segment is what was said before.
  const old = size >= tailBytes || segment === undefined ? Buffer.alloc(0) : await readEnd(segment.file);
  return Buffer.concat([old, current]).toString("utf8").split("\n");
}

const readEnd = async (file: string) => readBytes(file, Math.max(0, (await fileSize(file)) - tailBytes), tailBytes);

/** Cuts bytes into lines of at most `lineBytesMax`. An unfinished last line is left for later, unless it is complete. */
function splitLines(bytes: Buffer, { isComplete }: { isComplete: boolean }) {
  const pieces: { begin: number; end: number; next: number }[] = [];
  for (let begin = 0; begin < bytes.length; ) {
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

/** Steps back to the first byte of a UTF-8 character (RFC 3629: following bytes are 10xxxxxx). */
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
    message: `pierhead: ${mib} MiB of output were dropped here: the replica writes faster than its log is read.`,
  };
}

async function readBytes(file: string, position: number, bytesMax: number): Promise<Buffer> {
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
