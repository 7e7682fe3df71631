import { stat } from "node:fs/promises";
import path from "node:path";

/** Returns the root of the git repository of a directory; null if it is in none. */
export async function repositoryOf(directory: string): Promise<string | null> {
  for (let at = directory; ; at = path.dirname(at)) {
    if ((await stat(path.join(at, ".git")).catch(() => undefined)) !== undefined) return at;
    if (path.dirname(at) === at) return null;
  }
}

export const isWithin = (outer: string, one: string): boolean =>
  one === outer || one.startsWith(outer === path.sep ? outer : outer + path.sep);
