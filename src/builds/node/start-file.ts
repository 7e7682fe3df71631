import { readdir } from "node:fs/promises";
import path from "node:path";
import { isFileInside } from "../sources/inside.ts";

/** Directories that compilers fill. The tree below them depends on which sources a project has. */
const outputs = new Set(["dist", "build", "out", "lib"]);

/**
 * Returns a start command with the file that the build made, when the one that it names does not exist: with sources beside `src`,
 * TypeScript writes dist/src/main.js, where the command names dist/main.
 * @param directory of the command, relative to the root of the source.
 * @returns null: the file exists, or no other file is meant.
 */
export async function withBuiltFile(
  sourceDir: string,
  directory: string,
  argv: readonly string[],
): Promise<{ argv: string[]; named: string; found: string } | null> {
  const program = path.posix.basename(argv.find((word) => word !== "env" && !/^\w+=/.test(word)) ?? "");
  const at = argv.findIndex((word) => /^(?:\.\/)?\w+\/./.test(word));
  const named = (argv[at] ?? "").replace(/^\.\//, "");
  const [output = ""] = named.split("/");
  if (program !== "node" || !outputs.has(output)) return null;
  const has = (file: string) => isFileInside(sourceDir, path.posix.join(directory, file));
  for (const file of [named, ...[".js", ".cjs", ".mjs"].map((ending) => `${named}${ending}`), `${named}/index.js`])
    if (await has(file)) return null;
  const name = path.posix.basename(named).replace(/\.[cm]?js$/, "");
  const root = path.join(sourceDir, directory, output);
  const all = await readdir(root, { recursive: true }).catch(() => []);
  const [found, ...others] = all
    .map((file) => file.split(path.sep).join("/"))
    .filter((file) => !file.includes("node_modules/") && /\.[cm]?js$/.test(file))
    .filter((file) => path.posix.basename(file).replace(/\.[cm]?js$/, "") === name);
  if (found === undefined || others.length > 0) return null;
  const file = path.posix.join(output, found);
  return (await has(file)) ? { argv: argv.with(at, file), named, found: file } : null;
}
