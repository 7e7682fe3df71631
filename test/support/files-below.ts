import { readdir } from "node:fs/promises";
import path from "node:path";

/** More attempts than this mean that the directory itself is missing. */
const triesMax = 100;

/** Returns the paths of the files below a directory. Reads again when another program removes a directory meanwhile. */
export async function filesBelow(directory: string): Promise<string[]> {
  for (let tries = 1; ; tries += 1) {
    try {
      const entries = await readdir(directory, { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => path.join(parentPath, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT" || tries === triesMax) throw error;
    }
  }
}
