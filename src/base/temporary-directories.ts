import { lstat, readdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { removeTree } from "./remove-tree.ts";

/** Every operation with a temporary directory ends within minutes, so an older directory is of a server that was killed. */
const abandonedAfterMs = 24 * 3_600_000;

/** Removes the temporary directories with these prefixes that killed servers left behind. Skips those of other users. */
export async function removeAbandonedDirectories(prefixes: readonly string[]): Promise<void> {
  for (const name of await readdir(tmpdir()).catch(() => [])) {
    if (!prefixes.some((prefix) => name.startsWith(prefix))) continue;
    const directory = path.join(tmpdir(), name);
    const found = await lstat(directory).catch(() => null);
    if (found === null || Date.now() - found.mtimeMs < abandonedAfterMs) continue;
    await removeTree(directory).catch(() => {});
  }
}
