import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readdir, rename, rm, rmdir, stat } from "node:fs/promises";
import path from "node:path";
import type { Readable } from "node:stream";
import { errors } from "../../contract/error.ts";

export interface ReceivedFile {
  sha256: string;
  sizeBytes: number;
  /** Gives the file its final name; durable when it resolves. @returns false when its directory was removed meanwhile. */
  commit(): Promise<boolean>;
  discard(): Promise<void>;
  /** Takes back what was kept, and the directory if nothing else is in it. */
  remove(): Promise<void>;
}

/**
 * Writes a stream beside its final place, readable by our own user alone. Nothing is left behind when it fails.
 *
 * @throws ApiError 413 over `bytesMax`; 400 when the stream breaks off or is no gzip.
 */
export async function receiveFile(
  stream: Readable,
  target: string,
  options: { bytesMax: number; signal: AbortSignal },
): Promise<ReceivedFile> {
  const temporary = `${target}.${randomUUID()}.part`;
  const discard = () => rm(temporary, { force: true });
  await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
  try {
    const written = await write(stream, temporary, options);
    return { ...written, commit: () => commit(temporary, target), discard, remove: () => remove(target) };
  } catch (error) {
    await discard();
    throw error;
  }
}

async function write(stream: Readable, file: string, options: { bytesMax: number; signal: AbortSignal }) {
  const hash = createHash("sha256");
  const handle = await open(file, "wx", 0o600);
  try {
    let sizeBytes = 0;
    for await (const chunk of chunksOf(stream, options.signal)) {
      if (sizeBytes === 0 && !startsAsGzip(chunk)) throw errors.uploadBroken("it is no gzip archive.");
      sizeBytes += chunk.length;
      if (sizeBytes > options.bytesMax) throw errors.uploadTooLarge(options.bytesMax);
      hash.update(chunk);
      await handle.writeFile(chunk);
    }
    if (sizeBytes === 0) throw errors.uploadBroken("it is empty.");
    await handle.sync();
    return { sha256: hash.digest("hex"), sizeBytes };
  } finally {
    await handle.close();
  }
}

/** The first chunk of any sender has more than the two bytes that tell a gzip. */
const startsAsGzip = (chunk: Buffer) => chunk[0] === 0x1f && (chunk.length < 2 || chunk[1] === 0x8b);

/** The stream is not destroyed when the loop ends early: what is left of it is read away before we answer. */
async function* chunksOf(stream: Readable, signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
  const chunks = stream.iterator({ destroyOnReturn: false });
  try {
    for await (const chunk of chunks) {
      if (signal.aborted) break;
      yield chunk as Buffer;
    }
  } catch {
    throw errors.uploadBroken("the connection ended before the whole file had arrived.");
  }
  if (signal.aborted) throw errors.uploadBroken("the connection ended before the whole file had arrived.");
}

async function commit(temporary: string, target: string): Promise<boolean> {
  try {
    await rename(temporary, target);
    const directory = await open(path.dirname(target), "r");
    await directory.sync().finally(() => directory.close());
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}

async function remove(target: string): Promise<void> {
  await rm(target, { force: true });
  // Others may be in it, or it may be gone.
  await rmdir(path.dirname(target)).catch(() => {});
}

/**
 * Deletes what uploads left that a crash of the server broke off. Younger files may belong to another server that is
 * still receiving: a request ends after 5 minutes.
 */
export async function removeAbandoned(directory: string): Promise<void> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  const parts = entries.filter((entry) => entry.isFile() && entry.name.endsWith(".part"));
  for (const file of parts.map((entry) => path.join(entry.parentPath, entry.name))) {
    const { mtimeMs } = await stat(file).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > abandonedAfterMs) await rm(file, { force: true });
  }
}

const abandonedAfterMs = 3_600_000;

/**
 * Reads what is left of a body and throws it away: a client that is still sending sees a broken pipe instead of our
 * answer otherwise. Gives up on one that does not come to an end.
 */
export async function drain(stream: Readable, bytesMax: number): Promise<void> {
  let bytes = 0;
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
      bytes += (chunk as Buffer).length;
      if (bytes > bytesMax) return;
    }
  } catch {
    // The sender is gone: nobody is waiting for the answer.
  }
}
