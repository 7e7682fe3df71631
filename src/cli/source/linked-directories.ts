import { stat } from "node:fs/promises";

/** Packages in a row of which each depends on a directory of the next. */
const depthMax = 4;

/**
 * Returns the directories that a project needs beside its own: those that it names, those that they name, and so on. Those that do
 * not exist are left out.
 * @param namedBy returns the directories that one directory names.
 */
export async function linkedDirectories(
  directory: string,
  namedBy: (directory: string) => Promise<string[]>,
): Promise<string[]> {
  const found = new Set([directory]);
  let last = [directory];
  for (let depth = 0; depth < depthMax && last.length > 0; depth++) {
    const named = [...new Set((await Promise.all(last.map(namedBy))).flat())].filter((one) => !found.has(one));
    const exists = await Promise.all(named.map(isDirectory));
    last = named.filter((_, at) => exists[at]);
    for (const one of last) found.add(one);
  }
  found.delete(directory);
  return [...found];
}

const isDirectory = (file: string) =>
  stat(file).then(
    (found) => found.isDirectory(),
    () => false,
  );
