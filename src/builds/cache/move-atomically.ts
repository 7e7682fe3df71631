import { execFile } from "node:child_process";
import { open, readdir, rename } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";

/**
 * Renames a directory so that it appears at its new path complete, even after a power failure: its content is flushed to
 * disk first, because a kernel may persist the new name long before the files, which would then be empty.
 * @throws Error with the code of rename(2), also when `to` exists.
 */
export async function moveWhole(
  from: string,
  to: string,
  { env, signal }: { env: Record<string, string>; signal: AbortSignal },
): Promise<void> {
  // One call for the whole file system (syncfs). The sync(1) of macOS and of old systems does not support it and fails.
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
    if ((error as NodeJS.ErrnoException).code !== "EACCES") throw error; // an unreadable file cannot be flushed
  }
}
