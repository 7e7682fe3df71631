import { randomUUID } from "node:crypto";
import { open, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import path from "node:path";

/**
 * Replaces a small file so that a crash leaves the old or the new content, never a partial one. Callers must not write one file
 * concurrently. The draft has a fixed name, so that the next write replaces a crashed one and no second copy of a key remains.
 */
export async function writeDurably(file: string, content: string, mode: number): Promise<void> {
  const temporary = `${file}.draft`;
  try {
    const handle = await open(temporary, "w", mode);
    try {
      await handle.writeFile(content);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
    const directory = await open(path.dirname(file), "r");
    await directory.sync().finally(() => directory.close());
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
}

/** Returns the free bytes, for users without privileges, of the file system that holds this directory. */
export async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

const doomedMark = ".doomed-";

/** Deletes a file or directory inside `base`. @throws Error when `target` is outside `base`, whatever the database row says. */
export async function removeInside(base: string, target: string): Promise<void> {
  const resolved = path.resolve(base, target);
  if (!resolved.startsWith(path.resolve(base) + path.sep)) throw new Error(`refusing to delete outside ${base}`);
  // Renamed first, so that a reader finds the whole directory or nothing.
  const doomed = `${resolved}${doomedMark}${randomUUID()}`;
  try {
    await rename(resolved, doomed);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return;
    throw error;
  }
  await rm(doomed, { recursive: true, force: true });
}

/**
 * Finishes deletions of `removeInside` that a crash interrupted. On a shared disk another server may do the same at the same time.
 * @returns the number of files and directories.
 */
export async function finishRemovals(base: string): Promise<number> {
  const doomed = (await readdir(base, { recursive: true })).filter((entry) =>
    path.basename(entry).includes(doomedMark),
  );
  for (const entry of doomed) await rm(path.join(base, entry), { recursive: true, force: true });
  return doomed.length;
}

export const pathExists = (place: string) =>
  stat(place).then(
    () => true,
    () => false,
  );
