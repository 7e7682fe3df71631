import { randomUUID } from "node:crypto";
import { open, readdir, rename, rm, stat, statfs } from "node:fs/promises";
import path from "node:path";

/**
 * Replaces a small file so that a crash leaves the old or the new content, never half of one. One caller at a time: what a
 * crash leaves beside it has the name that the next one uses, so that no second copy of a key stays about.
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

/** What a user without privileges may still write where this directory lies. */
export async function freeBytes(directory: string): Promise<number> {
  const { bavail, bsize } = await statfs(directory);
  return bavail * bsize;
}

const doomedMark = ".doomed-";

/** Deletes a file or directory inside `base`; anything else is refused, whatever a row says. */
export async function removeInside(base: string, target: string): Promise<void> {
  const resolved = path.resolve(base, target);
  if (!resolved.startsWith(path.resolve(base) + path.sep)) throw new Error(`refusing to delete outside ${base}`);
  // Renamed first: nobody who looks for it by name finds half of it.
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
 * Deletes what `removeInside` had renamed when its server died. Whoever else is at it, on a shared disk, finds nothing left to do.
 * @returns how many files and directories.
 */
export async function removeDoomed(base: string): Promise<number> {
  const doomed = (await readdir(base, { recursive: true })).filter((entry) =>
    path.basename(entry).includes(doomedMark),
  );
  for (const entry of doomed) await rm(path.join(base, entry), { recursive: true, force: true });
  return doomed.length;
}

export const isThere = (place: string) =>
  stat(place).then(
    () => true,
    () => false,
  );
