import { mkdir, open, readdir, rename, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import type { ObjectStorage } from "../integrations/object-storage.ts";
import type { LogArchive } from "../reconciler/loop/log-archive.ts";

const folder = "log-archive/";
/** Limit for deleting one object. */
const removeTimeoutMs = 60_000;

/** Keeps archived log lines below `log-archive/` in the bucket. */
export class BucketLogArchive implements LogArchive {
  readonly #storage: ObjectStorage;

  constructor(storage: ObjectStorage) {
    this.#storage = storage;
  }

  async put(name: string, content: Buffer, signal: AbortSignal): Promise<void> {
    await this.#storage.putStream(folder + name, () => once(content), signal);
  }

  async removeBefore(day: string, signal: AbortSignal): Promise<number> {
    let count = 0;
    while (!signal.aborted) {
      const ending = () => AbortSignal.any([signal, AbortSignal.timeout(removeTimeoutMs)]);
      // Keys are listed in order, and begin with their day.
      const old = (await this.#storage.list(folder, ending())).filter((key) => key.slice(folder.length) < day);
      if (old.length === 0) break;
      for (const key of old) await this.#storage.remove(key, ending());
      count += old.length;
    }
    return count;
  }
}

/** Keeps archived log lines in `log-archive/` of the data directory. */
export class DirectoryLogArchive implements LogArchive {
  readonly #root: string;

  constructor(dataDir: string) {
    this.#root = path.join(dataDir, "log-archive");
  }

  async put(name: string, content: Buffer): Promise<void> {
    const target = path.join(this.#root, name);
    await mkdir(path.dirname(target), { recursive: true, mode: 0o700 });
    const draft = `${target}.unfinished`;
    await writeFile(draft, content, { mode: 0o600, flush: true });
    await rename(draft, target);
    await flushDirectories(path.dirname(target), path.dirname(this.#root));
  }

  async removeBefore(day: string): Promise<number> {
    const days = await readdir(this.#root).catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") return [];
      throw error;
    });
    const old = days.filter((name) => name < day);
    for (const name of old) await rm(path.join(this.#root, name), { recursive: true, force: true });
    return old.length;
  }
}

/** Makes new names durable, because the database deletes the lines next: those in `directory` and in each one above it up to `root`. */
async function flushDirectories(directory: string, root: string): Promise<void> {
  for (let current = directory; ; current = path.dirname(current)) {
    await using opened = await open(current);
    await opened.sync();
    if (current === root) return;
  }
}

async function* once(content: Buffer): AsyncGenerator<Buffer, void, undefined> {
  yield content;
}
