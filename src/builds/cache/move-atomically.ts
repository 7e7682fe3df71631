import { execFile } from "node:child_process";
import { open, readdir, rename } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

/**
 * Renames a directory into its place so that whoever finds it there finds all of it, also after a power cut: what is in it
 * reaches the disk first. Kernels may write down the new name long before the files, which are empty then.
 * @throws Error with the code of rename(2), also when something is at `to`.
 */
export async function moveWhole(
  from: string,
  to: string,
  { env, signal }: { env: Record<string, string>; signal: AbortSignal },
): Promise<void> {
  // One call for the whole file system (syncfs). Not all sync(1) can; those of macOS and of old systems end with an error.
  const isFlushed = await promisify(execFile)("sync", ["-f", from], { env, signal }).then(
    () => process.platform === "linux",
    () => false,
  );
  signal.throwIfAborted();
  if (!isFlushed) await flushEach(from, signal);
  await rename(from, to);
  await flush(path.dirname(to));
}

async function flushEach(directory: string, signal: AbortSignal): Promise<void> {
  for (const entry of await readdir(directory, { withFileTypes: true, recursive: true })) {
    signal.throwIfAborted();
    if (entry.isFile() || entry.isDirectory()) await flush(path.join(entry.parentPath, entry.name));
  }
  await flush(directory);
}

async function flush(file: string): Promise<void> {
  try {
    const handle = await open(file, "r");
    await handle.sync().finally(() => handle.close());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error; // nobody may read it, so nobody misses it
  }
}
