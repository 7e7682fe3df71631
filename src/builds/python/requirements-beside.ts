import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { normalizedName, requirementNames, tomlList, tomlSection } from "../../domain/detection/toml-text.ts";
import { isFileInside } from "../sources/inside.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { findCondaEnvironment, indexOptions, pipArguments, sayCondaPackages } from "./conda.ts";
import { findLock } from "./locked-versions.ts";

/**
 * Writes the lines of a requirements.txt or an environment.yml whose packages neither a pyproject.toml nor its lock file names into a
 * file, and those of its tables of pixi: one of the two is often not kept up to date. A setup.cfg or setup.py declares packages as well,
 * and a uv.lock decides alone.
 * @returns null: there are none.
 */
export async function alsoListed({ sourceDir, log }: BuildContext, directory: string, pyproject: string) {
  // The build of such a project reads a file, most often a requirements.txt.
  const isDynamic = tomlList(tomlSection(pyproject, "project"), "dynamic").includes("dependencies");
  const read = async (file: string) =>
    (await isFileInside(sourceDir, file)) ? await readFile(path.join(sourceDir, file), "utf8") : "";
  const beside = await read(path.posix.join(directory, "requirements.txt"));
  const all = isDynamic ? [] : beside.split("\n");
  const lockFile = await findLock(sourceDir, directory);
  if (lockFile?.endsWith("uv.lock") === true) return null;
  const others = ["setup.cfg", "setup.py"].map((name) => path.posix.join(directory, name));
  const declared = await Promise.all([...others, ...(lockFile === null ? [] : [lockFile])].map(read));
  const texts = [withoutPixi(pyproject), ...declared, ...(isDynamic ? [beside] : [])];
  const named = new Set(texts.flatMap((text) => text.match(/[\w.-]+/g) ?? []).map(normalizedName));
  const isNew = (line: string) => requirementNames([line]).some((name) => !named.has(normalizedName(name)));
  const plain = all.filter((line) => !line.trimEnd().endsWith("\\"));
  const ofFile = plain.filter(isNew);
  for (const name of requirementNames(ofFile)) named.add(normalizedName(name));
  const conda = await findCondaEnvironment(sourceDir, directory);
  const ofConda = conda === null ? [] : pipArguments(conda).lines.filter(isNew);
  const lines = [...ofFile, ...ofConda];
  if (lines.length === 0) return null;
  if (conda !== null && ofConda.length > 0) sayCondaPackages(log, conda);
  const names = requirementNames(lines);
  const sources = [
    ...(ofFile.length > 0 ? ["requirements.txt"] : []),
    ...(ofConda.length > 0 ? [conda?.file ?? ""] : []),
  ];
  lines.unshift(...indexOptions([...plain, ...(ofConda.length > 0 ? (conda?.pip ?? []) : [])]));
  const file = path.join(path.dirname(sourceDir), "also-requirements.txt");
  await writeFile(file, lines.map((line) => `${line}\n`).join(""));
  return { file, lines, names, from: sources.join(" and ") };
}

/** Packages that pyproject.toml lists for pixi alone are not declared for pip. */
const withoutPixi = (pyproject: string) =>
  pyproject
    .split(/^(?=[ \t]*\[)/m)
    .filter((table) => !/^[ \t]*\[tool\.pixi\b/.test(table))
    .join("");

/** Returns the requirements.txt of a package that declares no dependencies itself; null: there is none, or setuptools reads it. */
export async function requirementsBeside({ sourceDir }: BuildContext, directory: string, project: string) {
  const has = (name: string) => isFileInside(sourceDir, path.posix.join(directory, name));
  if (tomlList(project, "dynamic").includes("dependencies")) return null;
  if ((await has("setup.py")) || (await has("setup.cfg")) || !(await has("requirements.txt"))) return null;
  return readFile(path.join(sourceDir, directory, "requirements.txt"), "utf8");
}
