import { readdir, stat } from "node:fs/promises";
import path from "node:path";
import { readSources } from "../../domain/detection/project-sources.ts";
import { standardModules } from "../../domain/detection/python-modules.ts";
import { projectReader } from "./project-reader.ts";

/**
 * Returns the nearest directory above a Python project, inside the source, with modules that the project imports, and that are neither
 * its own nor in its packages: a service of a repository whose services share modules. Null: none.
 * @param directory relative to the root of the source.
 * @param packages normalized names of its dependencies.
 */
export async function importRootAbove(
  sourceDir: string,
  directory: string,
  packages: ReadonlySet<string>,
): Promise<string | null> {
  const at = path.posix.normalize(directory);
  if (at === ".") return null;
  const reader = projectReader(sourceDir, directory);
  const files = new Set(await reader.list());
  const { texts } = await readSources(reader, files, /\.py$/);
  const imported = texts.flatMap(({ text }) => [...text.matchAll(/^[ \t]*(?:from|import)[ \t]+(\w+)/gm)]);
  const own = new Set([...files].flatMap((file) => file.replace(/^src\//, "").split("/", 1)));
  const names = [...new Set(imported.map((match) => match[1] ?? ""))].filter(
    (name) =>
      !standardModules.has(name) &&
      !own.has(name) &&
      !own.has(`${name}.py`) &&
      !packages.has(name.toLowerCase().replaceAll("_", "-")),
  );
  for (let above = path.posix.dirname(at); ; above = path.posix.dirname(above)) {
    for (const name of names) if (await hasModule(path.join(sourceDir, above), name)) return above;
    if (above === ".") return null;
  }
}

/** A directory counts with a Python file in it or in one of its own directories, as the namespace packages of Python do. */
async function hasModule(directory: string, name: string): Promise<boolean> {
  const isFile = await stat(path.join(directory, `${name}.py`)).then(
    (found) => found.isFile(),
    () => false,
  );
  if (isFile) return true;
  const place = path.join(directory, name);
  const entries = await readdir(place, { withFileTypes: true }).catch(() => []);
  if (entries.some((entry) => entry.isFile() && entry.name.endsWith(".py"))) return true;
  const below = entries.filter((entry) => entry.isDirectory()).slice(0, directoriesMax);
  const listed = await Promise.all(below.map((entry) => readdir(path.join(place, entry.name)).catch(() => [])));
  return listed.some((found) => found.some((file) => file.endsWith(".py")));
}

/** Bounds the work in directories of other kinds, such as those of data. */
const directoriesMax = 50;
