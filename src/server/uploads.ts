import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { chmod, copyFile, link, mkdir, open, readdir, rename, rm, rmdir, stat } from "node:fs/promises";
import path from "node:path";
import type { ArchivePlace, ReceivedArchive, Uploads } from "../builds/sources/uploads.ts";
import type { ObjectStorage } from "../integrations/object-storage.ts";
import type { Logger } from "../telemetry/log.ts";
import type { Config } from "./config.ts";
import { finishRemovals, pathExists, removeInside } from "./files.ts";

const folder = "uploads";

/** Stores uploaded archives in the data directory. The database has their paths relative to it. */
export class DirectoryUploads implements Uploads {
  readonly isShared = false;
  readonly #dataDir: string;

  constructor(dataDir: string) {
    this.#dataDir = dataDir;
  }

  async keep({ path: file }: ReceivedArchive, objectPath: string): Promise<boolean> {
    const target = path.join(this.#dataDir, objectPath);
    try {
      await rename(file, target);
      const directory = await open(path.dirname(target), "r");
      await directory.sync().finally(() => directory.close());
      return true;
    } catch (error) {
      if (isMissing(error)) return false;
      throw error;
    }
  }

  async locate(objectPath: string): Promise<ArchivePlace> {
    return { path: path.join(this.#dataDir, objectPath) };
  }

  async remove(objectPath: string): Promise<void> {
    const target = path.join(this.#dataDir, objectPath);
    await removeInside(path.join(this.#dataDir, folder), target);
    // The directory may contain other files, or be gone.
    await rmdir(path.dirname(target)).catch(() => {});
  }

  async removeAllOf(deploymentId: string): Promise<void> {
    const uploads = path.join(this.#dataDir, folder);
    await removeInside(uploads, path.join(uploads, deploymentId));
  }

  finishRemovals(): Promise<number> {
    return finishRemovals(path.join(this.#dataDir, folder));
  }

  async copyTo(objectPath: string, target: string): Promise<void> {
    const source = path.join(this.#dataDir, objectPath);
    try {
      // Uploads may be on another disk, where a hard link fails.
      await link(source, target).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== "EXDEV") throw error;
        return copyFile(source, target);
      });
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
  }

  async takeOver(directory: string): Promise<() => Promise<void>> {
    const [from, to, before] = [
      path.join(directory, folder),
      path.join(this.#dataDir, folder),
      path.join(directory, "before"),
    ];
    if (!(await pathExists(from))) return async () => {};
    // The server's own mode: uploaded sources may be confidential, and the data directory may be in a shared location.
    await chmod(from, 0o700);
    const wasThere = await pathExists(to);
    if (wasThere) await rename(to, before);
    await rename(from, to);
    return async () => {
      await rename(to, from);
      if (wasThere) await rename(before, to);
    };
  }
}

/** Limit for sending or reading one archive. Not only its caller waits meanwhile: it holds its part of the upload space. */
const transferTimeoutMs = 10 * 60_000;
/** Limit for deleting the archives of one deployment. What is left is deleted in the next attempt. */
const removeTimeoutMs = 120_000;

/** Keeps uploaded archives in a bucket. Files are on this host only while they arrive. */
export class BucketUploads implements Uploads {
  readonly isShared = true;
  readonly #storage: ObjectStorage;
  readonly #timeoutMs: number;

  constructor(storage: ObjectStorage, { timeoutMs = transferTimeoutMs }: { timeoutMs?: number } = {}) {
    this.#storage = storage;
    this.#timeoutMs = timeoutMs;
  }

  async keep(file: ReceivedArchive, objectPath: string, signal: AbortSignal): Promise<boolean> {
    await this.#storage.put(objectPath, file, this.#deadline(signal));
    await rm(file.path, { force: true });
    await rmdir(path.dirname(file.path)).catch(() => {});
    return true;
  }

  async locate(objectPath: string, lifeMs: number): Promise<ArchivePlace> {
    return { url: await this.#storage.presign(objectPath, lifeMs) };
  }

  remove(objectPath: string): Promise<void> {
    return this.#storage.remove(objectPath, AbortSignal.timeout(removeTimeoutMs));
  }

  removeAllOf(deploymentId: string): Promise<void> {
    return this.#storage.removeAll(`${folder}/${deploymentId}/`, AbortSignal.timeout(removeTimeoutMs));
  }

  /** Deletions in a bucket are whole. */
  async finishRemovals(): Promise<number> {
    return 0;
  }

  async copyTo(objectPath: string, target: string, signal: AbortSignal): Promise<void> {
    await this.#storage.fetchTo(objectPath, target, this.#deadline(signal));
  }

  async takeOver(directory: string, signal: AbortSignal): Promise<() => Promise<void>> {
    const added: string[] = [];
    for (const objectPath of await archivesIn(directory)) {
      // Another installation may still use the objects in the bucket, because a backup can be restored beside its
      // original.
      if (!(await this.#storage.has(objectPath, signal))) added.push(objectPath);
      await this.#put(path.join(directory, objectPath), objectPath, signal);
    }
    return async () => {
      for (const objectPath of added) await this.remove(objectPath);
    };
  }

  /**
   * Moves the archives that this server kept in its data directory before it had a bucket. A file is deleted once the
   * bucket has it, so an interrupted move continues where it stopped.
   * @returns how many
   */
  async moveFrom(dataDir: string, signal: AbortSignal): Promise<number> {
    // What a crash left of deleted archives must not come back as objects, which nothing would delete.
    await finishRemovals(path.join(dataDir, folder));
    const found = await archivesIn(dataDir);
    for (const objectPath of found) {
      const file = path.join(dataDir, objectPath);
      await this.#put(file, objectPath, signal);
      await rm(file);
      await rmdir(path.dirname(file)).catch(() => {});
    }
    return found.length;
  }

  async #put(file: string, objectPath: string, signal: AbortSignal): Promise<void> {
    await this.#storage.put(objectPath, await describeFile(file), this.#deadline(signal));
  }

  #deadline(signal: AbortSignal): AbortSignal {
    return AbortSignal.any([signal, AbortSignal.timeout(this.#timeoutMs)]);
  }
}

/** Returns the object paths of the archives below a directory. */
async function archivesIn(directory: string): Promise<string[]> {
  const names = await readdir(path.join(directory, folder), { recursive: true }).catch(() => [] as string[]);
  return names.filter((name) => name.endsWith(".tar.gz")).map((name) => `${folder}/${name.replaceAll(path.sep, "/")}`);
}

const isMissing = (error: unknown) => (error as NodeJS.ErrnoException).code === "ENOENT";

/** Returns a file as object storage takes it. */
export async function describeFile(file: string): Promise<ReceivedArchive> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file) as AsyncIterable<Buffer>) hash.update(chunk);
  const { size: sizeBytes } = await stat(file);
  return { path: file, sha256: hash.digest("hex"), sizeBytes };
}

/** Opens the bucket and checks it; null: there is none. @throws ObjectStorageError naming the setting to check */
export async function openBucket(
  { bucket }: Pick<Config, "bucket">,
  signal: AbortSignal,
): Promise<ObjectStorage | null> {
  if (bucket === null) return null;
  const { ObjectStorage } = await import("../integrations/object-storage.ts");
  const storage = new ObjectStorage(bucket);
  await storage.check(signal);
  return storage;
}

/**
 * Opens the storage for uploaded archives. With a bucket, moves the archives of the data directory into it.
 * @throws ObjectStorageError
 */
export async function openUploads(
  dataDir: string,
  storage: ObjectStorage | null,
  signal: AbortSignal,
  logger?: Logger,
): Promise<Uploads> {
  // Archives are received here, whatever keeps them.
  await mkdir(path.join(dataDir, folder), { recursive: true, mode: 0o700 });
  if (storage === null) return new DirectoryUploads(dataDir);
  const uploads = new BucketUploads(storage);
  const archives = await uploads.moveFrom(dataDir, signal);
  if (archives > 0) logger?.info({ archives }, "uploads moved to the bucket");
  return uploads;
}
