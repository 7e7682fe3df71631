import { readFile, stat } from "node:fs/promises";
import path from "node:path";

/** Packages in a row of which each depends on a directory of the next. */
const depthMax = 4;

/**
 * Returns the directories outside its own that a JavaScript project needs: those of `file:` and `link:` dependencies, and of the
 * files that its tsconfig.json extends. Those that do not exist are left out, and the build fails with their name.
 */
export async function nodePaths(directory: string): Promise<string[]> {
  const found = new Set([directory]);
  let last = [directory];
  for (let depth = 0; depth < depthMax && last.length > 0; depth++) {
    const named = (await Promise.all(last.map(pathsOf))).flat().filter((one) => !found.has(one));
    last = [...new Set(named)];
    for (const one of last) found.add(one);
  }
  found.delete(directory);
  return [...found];
}

async function pathsOf(directory: string): Promise<string[]> {
  const read = (name: string) => readFile(path.join(directory, name), "utf8").catch(() => "");
  const [manifest, tsconfig] = await Promise.all([read("package.json"), read("tsconfig.json")]);
  const packages = [...manifest.matchAll(/"(?:file|link):(\.\.?\/[^"\n]{1,200})"/g)].map(([, name = ""]) => name);
  const [, extended = ""] = /"extends"\s*:\s*("[^"\n]{1,200}"|\[[^\]]{0,1000}\])/.exec(tsconfig) ?? [];
  const bases = [...extended.matchAll(/"(\.\.\/[^"\n]{1,200})"/g)].map(([, name = ""]) => name);
  const places = [
    ...packages.map((name) => path.resolve(directory, name)),
    ...bases.map((name) => path.dirname(path.resolve(directory, name))),
  ];
  const exists = await Promise.all(places.map(isDirectory));
  return places.filter((_, at) => exists[at]);
}

const isDirectory = (file: string) =>
  stat(file).then(
    (found) => found.isDirectory(),
    () => false,
  );
