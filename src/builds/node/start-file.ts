import { mkdir, readdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { isFileInside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";

/** Directories that compilers fill. The tree below them depends on which sources a project has. */
const outputs = new Set(["dist", "build", "out", "lib"]);

/** Returns whether a start command runs a file that a build makes. */
export const startsBuiltFile = (argv: readonly string[]) =>
  argv.includes("node") &&
  argv.some((word) => outputs.has(word.replace(/^\.\//, "").split("/")[0] ?? "") && word.includes("/"));

/**
 * Adds the file that the start command of an image names, if the build did not make it: it loads the file that the build made. The
 * start command is fixed before the build runs.
 */
export async function addStartFile({ sourceDir, log }: BuildContext, directory: string, argv: string[]): Promise<void> {
  const built = await withBuiltFile(sourceDir, directory, argv);
  if (built === null) return;
  const named = /\.[cm]?js$/.test(built.named) ? built.named : `${built.named}.js`;
  const file = path.join(sourceDir, directory, named);
  await mkdir(path.dirname(file), { recursive: true });
  const target = path.posix.relative(path.posix.dirname(named), built.found);
  await writeFile(file, `import(${JSON.stringify(target.startsWith(".") ? target : `./${target}`)});\n`, {
    flag: "wx",
  });
  log.say(
    `The start command names ${built.named}, which does not exist. Added it: it loads ${built.found}, which the build made.`,
  );
}

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
