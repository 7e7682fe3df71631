import { readdir } from "node:fs/promises";
import path from "node:path";

/** Returns the paths of the files below a directory. Reads again when another program removes a directory meanwhile. */
export async function filesBelow(directory: string): Promise<string[]> {
  for (;;) {
    try {
      const entries = await readdir(directory, { recursive: true, withFileTypes: true });
      return entries.filter((entry) => entry.isFile()).map(({ parentPath, name }) => path.join(parentPath, name));
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}
