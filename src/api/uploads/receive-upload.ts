import { createHash, randomUUID } from "node:crypto";
import { mkdir, open, readdir, rm, stat } from "node:fs/promises";
import path from "node:path";
import type { Readable } from "node:stream";
import type { ReceivedArchive } from "../../builds/sources/uploads.ts";
import { errors } from "../../contract/error.ts";

export interface ReceivedFile extends ReceivedArchive {
  /** Removes the file, unless it was moved. */
  discard(): Promise<void>;
}

export interface ReceiveOptions {
  bytesMax: number;
  signal: AbortSignal;
  /** Called with the bytes that have arrived. The next ones are read once it returns. */
  pace?: (bytes: number) => Promise<void>;
}

/**
 * Writes a stream, durably, to a temporary file beside `target` that only our own user can read. Removes the file on failure.
 *
 * @throws ApiError 413 above `bytesMax`; 400 when the stream breaks off or is not gzip.
 */
export async function receiveFile(stream: Readable, target: string, options: ReceiveOptions): Promise<ReceivedFile> {
  const temporary = `${target}.${randomUUID()}.part`;
  const discard = () => rm(temporary, { force: true });
  await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
  try {
    const written = await write(stream, temporary, options);
    return { ...written, path: temporary, discard };
  } catch (error) {
    await discard();
    throw error;
  }
}

async function write(stream: Readable, file: string, options: ReceiveOptions) {
  const hash = createHash("sha256");
  const handle = await open(file, "wx", 0o600);
  try {
    let sizeBytes = 0;
    for await (const chunk of chunksOf(stream, options.signal)) {
      if (sizeBytes === 0 && !startsAsGzip(chunk)) throw errors.uploadBroken("it is not a gzip archive.");
      sizeBytes += chunk.length;
      if (sizeBytes > options.bytesMax) throw errors.uploadTooLarge(options.bytesMax);
      hash.update(chunk);
      await handle.writeFile(chunk);
      await options.pace?.(chunk.length);
    }
    if (sizeBytes === 0) throw errors.uploadBroken("it is empty.");
    await handle.sync();
    return { sha256: hash.digest("hex"), sizeBytes };
  } finally {
    await handle.close();
  }
}

/** The first chunk always contains the two bytes that identify gzip. */
const startsAsGzip = (chunk: Buffer) => chunk[0] === 0x1f && (chunk.length < 2 || chunk[1] === 0x8b);

/** Keeps the stream open when the loop ends early, because the rest of the body is drained before the response. */
async function* chunksOf(stream: Readable, signal: AbortSignal): AsyncGenerator<Buffer, void, undefined> {
  const chunks = stream.iterator({ destroyOnReturn: false });
  try {
    for await (const chunk of chunks) {
      if (signal.aborted) break;
      yield chunk as Buffer;
    }
  } catch {
    throw errors.uploadBroken("the connection closed before the whole file arrived.");
  }
  if (signal.aborted) throw errors.uploadBroken("the connection closed before the whole file arrived.");
}

/**
 * Deletes the partial files of uploads that a server crash interrupted. Younger files may belong to another server that
 * is still receiving them: a request ends after 5 minutes.
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
 * Reads the rest of a body and discards it, up to `bytesMax`. Otherwise a client that is still sending sees a broken
 * pipe instead of our response.
 */
export async function drain(stream: Readable, bytesMax: number): Promise<void> {
  let bytes = 0;
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) {
      bytes += (chunk as Buffer).length;
      if (bytes > bytesMax) return;
    }
  } catch {
    // The sender has disconnected, so the response has no reader.
  }
}
