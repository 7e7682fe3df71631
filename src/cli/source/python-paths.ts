import { readFile, stat } from "node:fs/promises";
import path from "node:path";

/** Packages in a row of which each depends on a directory of the next. */
const depthMax = 4;

/**
 * Returns the directories that a Python project installs from outside its own: `path` in the sources of uv and in the
 * dependencies of Poetry, and directories in a requirements.txt. Those that do not exist are left out, and the installation
 * fails with their name.
 */
export async function pythonPaths(directory: string): Promise<string[]> {
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
  const [pyproject, requirements] = await Promise.all([read("pyproject.toml"), read("requirements.txt")]);
  const sections = pyproject
    .replaceAll(/(?:^|[ \t])#.*$/gm, "")
    .split(/^(?=[ \t]*\[)/m)
    .filter((one) => /^[ \t]*\[tool\.(?:uv\.sources|poetry\.)/.test(one));
  const named = [
    ...sections.flatMap((one) => [...one.matchAll(/\bpath[ \t]*=[ \t]*["']([^"'\n]+)["']/g)]),
    ...requirements.matchAll(/^[ \t]*(?:-e[ \t]+|--editable[ \t=]+)?(\.\.?\/[^\s;#[]*)/gm),
  ].map((match) => path.resolve(directory, match[1] ?? "."));
  const exists = await Promise.all(named.map(isDirectory));
  return named.filter((_, at) => exists[at]);
}

const isDirectory = (file: string) =>
  stat(file).then(
    (found) => found.isDirectory(),
    () => false,
  );
