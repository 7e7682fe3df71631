import { readFile } from "node:fs/promises";
import path from "node:path";
import { linkedDirectories } from "./linked-directories.ts";

/**
 * Returns the directories that a Python project installs from outside its own: `path` in the sources of uv and in the
 * dependencies of Poetry, and directories in a requirements.txt. Those that do not exist are left out, and the installation
 * fails with their name.
 */
export const pythonPaths = (directory: string): Promise<string[]> => linkedDirectories(directory, pathsOf);

/** A directory in a requirements.txt: `../shared`, `-e file:../shared`, `shared @ file:../shared`, `shared @ file://../shared`. */
const localRequirement =
  /^[ \t]*(?:-e[ \t]+|--editable[ \t=]+)?(?:[\w.-]+(?:\[[^\]\n]*\])?[ \t]*@[ \t]*)?(?:file:(?:\/\/)?)?(\.\.?\/[^\s;#[]*)/gm;

/**
 * The directory of another requirements file. One above the project is left out: everything in it would be sent, other projects
 * too.
 */
const requirementsBeside =
  /^[ \t]*(?:-[rc][ \t]*|--(?:requirement|constraint)[ \t=]+)((?:\.\.\/)+(?!\.\.\/)[^\s;#]*\/)[^\s;#/]+/gm;

async function pathsOf(directory: string): Promise<string[]> {
  const read = (name: string) => readFile(path.join(directory, name), "utf8").catch(() => "");
  const [pyproject, requirements] = await Promise.all([read("pyproject.toml"), read("requirements.txt")]);
  const sections = pyproject
    .replaceAll(/(?:^|[ \t])#.*$/gm, "")
    .split(/^(?=[ \t]*\[)/m)
    .filter((one) => /^[ \t]*\[tool\.(?:uv\.sources|poetry\.)/.test(one));
  return [
    ...sections.flatMap((one) => [...one.matchAll(/\bpath[ \t]*=[ \t]*["']([^"'\n]+)["']/g)]),
    ...requirements.matchAll(localRequirement),
    ...requirements.matchAll(requirementsBeside),
  ].map((match) => path.resolve(directory, match[1] ?? "."));
}
