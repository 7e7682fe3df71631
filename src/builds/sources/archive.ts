import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, open } from "node:fs/promises";
import path from "node:path";
import { pipeline, type Readable } from "node:stream";
import { createGunzip } from "node:zlib";
import { Parser, type ReadEntry } from "tar";
import { BuildFailure } from "../failure.ts";

export interface ArchiveLimits {
  /** Total size of all files after unpacking. */
  bytesMax: number;
  entriesMax: number;
  /** Larger files become empty ones of a size above it, so that readers see that they are too large to read. Default: no limit. */
  fileBytesMax?: number;
}

/** More entries than any source tree needs, because node_modules is not uploaded. */
export const archiveEntriesMax = 100_000;

/** Limits in bytes for a path in the archive and for one segment of it: what Linux file systems accept. */
const pathBytesMax = 1_024;
const nameBytesMax = 255;

/** Levels of directories in a path: more than any source tree has. */
const depthMax = 100;

/** Overhead of tar: 3 blocks of 512 bytes per entry cover the header, an extended header and its text. */
const overheadBytesPerEntry = 3 * 512;
const blockBytes = 512;

/**
 * Unpacks a gzip tar of regular files and directories into an empty directory. Any other entry (a link, a device, a path
 * that leaves the directory, the same file twice) rejects the whole archive before that entry touches the disk. Sizes come
 * from the headers, so a decompression bomb is stopped before it is written. Modes are 0644 and 0755, the owner is ours.
 *
 * @param sha256 hex digest that the file must have, if known; checked first.
 * @throws BuildFailure `ArchiveRefused` naming the entry, `FetchFailed` when the file is not what was uploaded.
 */
export async function unpackArchive(
  file: string,
  directory: string,
  options: { sha256?: string; limits: ArchiveLimits; signal: AbortSignal },
): Promise<{ entries: number; bytes: number }> {
  const unpacking = new Unpacking(directory, options.limits);
  try {
    if (options.sha256 !== undefined && (await digestOf(file)) !== options.sha256)
      throw gone("has changed since its upload");
    await unpacking.read(gunzip(file), options.signal);
  } catch (error) {
    if (error instanceof BuildFailure || options.signal.aborted) throw error;
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ENOENT") {
      throw gone("is not on this server. Several servers share uploads only in object storage (PIERHEAD_S3_BUCKET)");
    }
    if (code !== undefined && !/^(Z_|TAR_)/.test(code)) throw error;
    throw refuse(`it is damaged (${message})`);
  }
  return { entries: unpacking.entries, bytes: unpacking.bytes };
}

async function digestOf(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) hash.update(chunk);
  return hash.digest("hex");
}

function gunzip(file: string): Readable {
  const unzip = createGunzip();
  pipeline(createReadStream(file), unzip, () => {}); // an error ends `unzip`, where it is thrown
  return unzip;
}

/** One archive that is being unpacked. Entries are checked in the order of their headers and written one after another. */
class Unpacking {
  readonly #directory: string;
  readonly #limits: ArchiveLimits;
  readonly #kinds = new Map<string, "file" | "directory">();
  #writing: Promise<void> = Promise.resolve();
  #current: ReadEntry | undefined;
  #failure: unknown;
  /** Resumes reading when the parser has room again or after a failure. */
  #goOn: () => void = () => {};
  entries = 0;
  bytes = 0;

  constructor(directory: string, limits: ArchiveLimits) {
    this.#directory = directory;
    this.#limits = limits;
  }

  async read(stream: Readable, signal: AbortSignal): Promise<void> {
    const parser = new Parser({
      strict: true,
      filter: (_path, entry) => this.#accept(entry as ReadEntry),
      onReadEntry: (entry) => this.#enqueue(entry),
    });
    parser.on("ignoredEntry", (entry: ReadEntry) => this.#fail(refuse(ignored(entry))));
    parser.on("error", (error: Error) => this.#fail(error));
    parser.on("drain", () => this.#goOn());
    try {
      await this.#feed(parser, stream, signal);
      const ended = new Promise<void>((resolve) => {
        this.#goOn = resolve;
        parser.once("end", resolve);
      });
      parser.end();
      await ended;
    } catch (error) {
      this.#fail(error);
    }
    await this.#writing;
    if (this.#failure !== undefined) throw this.#failure;
    if (this.entries === 0) throw refuse("it holds no files");
  }

  async #feed(parser: Parser, stream: Readable, signal: AbortSignal): Promise<void> {
    let isAtEnd = false;
    parser.on("eof", () => {
      isAtEnd = true;
    });
    const bytesMax = this.#limits.bytesMax + this.#limits.entriesMax * overheadBytesPerEntry;
    let bytesRead = 0;
    for await (const chunk of blocksOf(stream)) {
      signal.throwIfAborted();
      bytesRead += chunk.length;
      if (bytesRead > bytesMax) throw refuse(`it unpacks to more than ${megabytes(this.#limits.bytesMax)}`);
      if (!parser.write(chunk)) {
        await new Promise<void>((resolve) => {
          this.#goOn = resolve;
        });
      }
      if (this.#failure !== undefined) throw this.#failure;
      if (isAtEnd) return; // padding, or a second archive, follows the end mark: neither is read
    }
  }

  /** Records the first failure. The entry that is being written receives no more content and ends. */
  #fail(error: unknown): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#current?.destroy(error);
    this.#goOn();
  }

  /** Called with each header, before its content is read. */
  #accept(entry: ReadEntry): boolean {
    if (this.#failure !== undefined) return false;
    try {
      this.#check(entry);
    } catch (error) {
      this.#fail(error);
    }
    return this.#failure === undefined;
  }

  #check(entry: ReadEntry): void {
    const { type, size } = entry;
    const isDirectory = type === "Directory";
    if (!isDirectory && type !== "File" && type !== "OldFile" && type !== "ContiguousFile") {
      throw refuse(`${shown(entry.path)} is a ${kindOf(type)}; only files and directories are allowed`);
    }
    this.entries++;
    if (this.entries > this.#limits.entriesMax) throw refuse(`it has more than ${this.#limits.entriesMax} entries`);
    this.bytes += size;
    if (!(size >= 0) || this.bytes > this.#limits.bytesMax) {
      throw refuse(`it unpacks to more than ${megabytes(this.#limits.bytesMax)} (at ${shown(entry.path)})`);
    }
    const name = safeName(entry.path);
    if (name === "" && isDirectory) return;
    if (name === "") throw refuse(`${shown(entry.path)} is not the name of a file`);
    this.#claim(name, isDirectory ? "directory" : "file", entry.path);
  }

  /**
   * Reserves a path. Two entries may name the same directory, but no other path may occur twice. Directories that no entry names
   * count as entries too: one path may create a hundred.
   */
  #claim(name: string, kind: "file" | "directory", given: string): void {
    for (let parent = path.posix.dirname(name); parent !== "."; parent = path.posix.dirname(parent)) {
      const known = this.#kinds.get(parent);
      if (known === "file") throw refuse(`${shown(given)} lies below a file`);
      if (known === "directory") break;
      this.#kinds.set(parent, "directory");
    }
    const known = this.#kinds.get(name);
    if (known === "file" || (known === "directory" && kind === "file")) throw refuse(`${shown(given)} is in it twice`);
    this.#kinds.set(name, kind);
    if (this.#kinds.size > this.#limits.entriesMax) {
      throw refuse(`it has more than ${this.#limits.entriesMax} files and directories`);
    }
  }

  #enqueue(entry: ReadEntry): void {
    if (this.#failure !== undefined) {
      entry.resume();
      return;
    }
    this.#current = entry;
    const stored = this.#store(entry).catch((error: unknown) => {
      this.#fail(error);
      entry.resume();
    });
    // The next entry begins when this one has been read, which can be before its file is closed.
    this.#writing = Promise.all([this.#writing, stored]).then(() => {});
  }

  async #store(entry: ReadEntry): Promise<void> {
    const target = path.join(this.#directory, safeName(entry.path));
    if (entry.type === "Directory") {
      entry.resume();
      await mkdir(target, { recursive: true });
      return;
    }
    await mkdir(path.dirname(target), { recursive: true });
    const { fileBytesMax = Number.POSITIVE_INFINITY } = this.#limits;
    if (entry.size > fileBytesMax) {
      entry.resume();
      const file = await open(target, "wx");
      return file.truncate(fileBytesMax + 1).finally(() => file.close());
    }
    const isExecutable = ((entry.mode ?? 0) & 0o111) !== 0;
    // "wx": the directory was empty and holds no links, so an existing file is a second spelling of the same name.
    const file = await open(target, "wx", isExecutable ? 0o755 : 0o644);
    try {
      for await (const chunk of entry as AsyncIterable<Buffer>) await file.write(chunk);
    } finally {
      await file.close();
    }
  }
}

/** Yields whole tar blocks. Rejects a stream that does not begin with tar, because the parser would unpack gzip inside gzip. */
async function* blocksOf(stream: Readable): AsyncGenerator<Buffer> {
  let rest = Buffer.alloc(0);
  let isFirst = true;
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    const all = Buffer.concat([rest, chunk]);
    const end = all.length - (all.length % blockBytes);
    rest = all.subarray(end);
    if (end === 0) continue;
    if (isFirst && !looksLikeTar(all)) throw refuse("there is no tar archive inside the gzip");
    isFirst = false;
    yield all.subarray(0, end);
  }
  if (isFirst || rest.length > 0) throw refuse("it is truncated, or not a tar archive");
}

/** Verifies the checksum of the first header (six octal digits at byte 148), or that the block is empty. */
function looksLikeTar(block: Buffer): boolean {
  const header = block.subarray(0, blockBytes);
  if (header.every((byte) => byte === 0)) return true;
  const sum = header.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 0x20 : byte), 0);
  return Number.parseInt(header.toString("latin1", 148, 156).replace(/[\0 ]/g, ""), 8) === sum;
}

/** Returns the normalized path below the directory; "" is the directory itself. */
function safeName(given: string): string {
  if (/\p{Cc}|\\/u.test(given)) throw refuse(`${shown(given)} has control characters or backslashes in its name`);
  if (given.startsWith("/") || /^[A-Za-z]:/.test(given)) throw refuse(`${shown(given)} is an absolute path`);
  const parts = given.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw refuse(`${shown(given)} leaves the archive's root`);
  if (parts.length > depthMax) throw refuse(`${shown(given)} is more than ${depthMax} directories deep`);
  const name = parts.join("/");
  if (Buffer.byteLength(name) > pathBytesMax || parts.some((part) => Buffer.byteLength(part) > nameBytesMax)) {
    throw refuse(`${shown(given)} has a name that is too long`);
  }
  return name;
}

/** Describes an entry that the parser skips: a type it does not know, or an extended header above 1 MB. */
function ignored({ path: name, type, meta }: ReadEntry): string {
  return meta ? `the header before ${shown(name)} is too large` : `${shown(name)} is a ${kindOf(type)}`;
}

function kindOf(type: string): string {
  const words: Record<string, string> = { Link: "hard link", SymbolicLink: "symbolic link", FIFO: "named pipe" };
  return words[type] ?? type.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
}

const refuse = (why: string) => new BuildFailure("ArchiveRefused", `The archive is refused: ${why}.`);
export const gone = (what: string) =>
  new BuildFailure("FetchFailed", `The uploaded archive ${what}. Upload the source again.`);
const megabytes = (bytes: number) => `${Math.round(bytes / 1024 / 1024)} MB`;
const shown = (name: string) => `'${name.replace(/\p{Cc}/gu, "?").slice(0, 120)}'`;
