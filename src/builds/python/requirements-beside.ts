import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { normalizedName, requirementNames, tomlList, tomlSection } from "../../domain/detection/toml-text.ts";
import { isFileInside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { findLock } from "./locked-versions.ts";

/**
 * Writes the lines of a requirements.txt whose packages neither a pyproject.toml nor its lock file names into a file: one of the two
 * is often not kept up to date. A setup.cfg or setup.py declares packages as well, and a uv.lock decides alone.
 * @returns null: there are none.
 */
export async function alsoListed({ sourceDir }: BuildContext, directory: string, pyproject: string) {
  // The build of such a project reads a file, most often this one.
  if (tomlList(tomlSection(pyproject, "project"), "dynamic").includes("dependencies")) return null;
  if (!(await isFileInside(sourceDir, path.posix.join(directory, "requirements.txt")))) return null;
  const all = (await readFile(path.join(sourceDir, directory, "requirements.txt"), "utf8")).split("\n");
  const lockFile = await findLock(sourceDir, directory);
  if (lockFile?.endsWith("uv.lock") === true) return null;
  const read = async (file: string) =>
    (await isFileInside(sourceDir, file)) ? await readFile(path.join(sourceDir, file), "utf8") : "";
  const others = ["setup.cfg", "setup.py"].map((name) => path.posix.join(directory, name));
  const declared = await Promise.all([...others, ...(lockFile === null ? [] : [lockFile])].map(read));
  const named = new Set([pyproject, ...declared].flatMap((text) => text.match(/[\w.-]+/g) ?? []).map(normalizedName));
  const plain = all.filter((line) => !line.trimEnd().endsWith("\\"));
  const lines = plain.filter((line) => requirementNames([line]).some((name) => !named.has(normalizedName(name))));
  if (lines.length === 0) return null;
  const names = requirementNames(lines);
  // Without them, a package of a private index would be looked for among those that anyone can publish.
  lines.unshift(...plain.filter((line) => indexOption.test(line)));
  const file = path.join(path.dirname(sourceDir), "also-requirements.txt");
  await writeFile(file, lines.map((line) => `${line}\n`).join(""));
  return { file, lines, names };
}

/** Options that decide where packages come from. */
const indexOption = /^\s*(?:-i|-f|--index-url|--extra-index-url|--find-links|--no-index)(?=[\s=]|$)/;

/** Returns the requirements.txt of a package that declares no dependencies itself; null: there is none, or setuptools reads it. */
export async function requirementsBeside({ sourceDir }: BuildContext, directory: string, project: string) {
  const has = (name: string) => isFileInside(sourceDir, path.posix.join(directory, name));
  if (tomlList(project, "dynamic").includes("dependencies")) return null;
  if ((await has("setup.py")) || (await has("setup.cfg")) || !(await has("requirements.txt"))) return null;
  return readFile(path.join(sourceDir, directory, "requirements.txt"), "utf8");
}
