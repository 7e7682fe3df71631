import { cp, mkdir, readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";

/** Directory in an environment with the files that make the project's own packages importable. Paths are placeholders. */
const keptName = "pierhead-packages";

/** Directory in an artifact with the same files and the artifact's own paths. Python reads it like site-packages. */
export const packagesDirName = ".pierhead-python";

const placeholder = "@PIERHEAD-SOURCE@";

/** Limit in bytes. Larger files are data, and no installer has written a path into them. */
const textBytesMax = 1024 * 1024;

/**
 * Moves the project's own packages, which were installed as editable, out of a new environment, so that every build with
 * the same dependencies can use the environment.
 */
export async function keepLocalPackages(environmentDir: string, sourceDir: string): Promise<void> {
  const kept = path.join(environmentDir, keptName);
  await mkdir(kept, { recursive: true });
  const packagesDir = await sitePackages(environmentDir);
  const sources = [...new Set([sourceDir, await realpath(sourceDir)])];
  for (const name of await readdir(packagesDir)) {
    if (!name.endsWith(".dist-info") || !(await isInPlace(path.join(packagesDir, name)))) continue;
    for (const file of await recordedFiles(path.join(packagesDir, name))) {
      const from = path.join(packagesDir, file);
      const isOwn = !path.relative(packagesDir, from).startsWith("..");
      if (!isOwn)
        await rm(from, { force: true }); // a command of the package, which would look for the package here
      else await moveWithPaths(from, path.join(kept, file), sources);
    }
    await rm(path.join(packagesDir, name), { recursive: true, force: true });
  }
}

/** Restores the source's own packages, with paths below the directory where the artifact will be. */
export async function layOutLocalPackages(environmentDir: string, sourceDir: string, target: string): Promise<void> {
  const directory = path.join(sourceDir, packagesDirName);
  await rm(directory, { recursive: true, force: true });
  await cp(path.join(environmentDir, keptName), directory, { recursive: true });
  await replaceInFiles(directory, placeholder, target);
}

/** Replaces text in all small files of a directory. */
export async function replaceInFiles(directory: string, from: string, to: string): Promise<void> {
  for (const entry of await readdir(directory, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile()) continue;
    const file = path.join(entry.parentPath, entry.name);
    const text = await readText(file);
    if (text?.includes(from)) await writeFile(file, text.replaceAll(from, to));
  }
}

/** `lib/python3.12/site-packages` */
export async function sitePackages(environmentDir: string): Promise<string> {
  const lib = path.join(environmentDir, "lib");
  const python = (await readdir(lib)).find((name) => name.startsWith("python")) ?? "python3";
  return path.join(lib, python, "site-packages");
}

/** Returns whether a package is editable. PEP 610: the installer records where a package came from. */
async function isInPlace(distInfo: string): Promise<boolean> {
  const text = await readFile(path.join(distInfo, "direct_url.json"), "utf8").catch(() => "{}");
  const { dir_info: found } = JSON.parse(text) as { dir_info?: { editable?: boolean } };
  return found?.editable === true;
}

/** Returns the first column of RECORD. A path that contains a comma is quoted. */
async function recordedFiles(distInfo: string): Promise<string[]> {
  const lines = (await readFile(path.join(distInfo, "RECORD"), "utf8")).split(/\r?\n/).filter((line) => line !== "");
  return lines.map(
    (line) =>
      /^"([^"]+)"|^([^,]+)/
        .exec(line)
        ?.slice(1)
        .find((part) => part !== undefined) ?? line,
  );
}

async function moveWithPaths(from: string, to: string, sources: string[]): Promise<void> {
  if ((await stat(from).catch(() => null)) === null) return; // RECORD lists compiled files that may not exist
  await mkdir(path.dirname(to), { recursive: true });
  let text = await readText(from);
  if (text === undefined || to.includes("__pycache__")) return void (await rename(from, to));
  for (const source of sources) text = text.replaceAll(source, placeholder);
  // The package's description in prose belongs to this source only.
  if (path.basename(to) === "METADATA") text = text.split("\n\n", 1)[0] ?? "";
  await writeFile(to, text);
  await rm(from);
}

/** @returns undefined for a file that is not text. */
async function readText(file: string): Promise<string | undefined> {
  const found = await stat(file);
  if (!found.isFile() || found.size > textBytesMax) return undefined;
  const bytes = await readFile(file);
  return bytes.includes(0) ? undefined : bytes.toString("utf8");
}
