import { readFile } from "node:fs/promises";
import path from "node:path";
import { linkedDirectories } from "./linked-directories.ts";

/**
 * Returns the directories outside its own that a JavaScript project needs: those of `file:` and `link:` dependencies, and of the
 * files that its tsconfig.json extends. Those that do not exist are left out, and the build fails with their name.
 */
export const nodePaths = (directory: string): Promise<string[]> => linkedDirectories(directory, pathsOf);

async function pathsOf(directory: string): Promise<string[]> {
  const read = (name: string) => readFile(path.join(directory, name), "utf8").catch(() => "");
  const [manifest, tsconfig] = await Promise.all([read("package.json"), read("tsconfig.json")]);
  const packages = [...manifest.matchAll(/"(?:file|link):(\.\.?\/[^"\n]{1,200})"/g)].map(([, name = ""]) => name);
  const [, extended = ""] = /"extends"\s*:\s*("[^"\n]{1,200}"|\[[^\]]{0,1000}\])/.exec(tsconfig) ?? [];
  const bases = [...extended.matchAll(/"(\.\.\/[^"\n]{1,200})"/g)].map(([, name = ""]) => name);
  return [
    ...packages.map((name) => path.resolve(directory, name)),
    ...bases.map((name) => path.dirname(path.resolve(directory, name))),
  ];
}
