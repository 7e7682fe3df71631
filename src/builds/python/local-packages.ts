import { cp, mkdir, readdir, readFile, realpath, rename, rm, stat, writeFile } from "node:fs/promises";
import path from "node:path";

/** Inside an environment: what makes the project's own packages importable, with a placeholder for where they lie. */
const keptName = "pierhead-packages";

/** Inside an artifact: the same with the artifact's own paths. A directory that Python reads as it does site-packages. */
export const packagesDirName = ".pierhead-python";

const placeholder = "@PIERHEAD-SOURCE@";

/** Larger files are data, not something an installer wrote a path into. */
const textBytesMax = 1024 * 1024;

/**
 * Takes the project's own packages, which were installed in place, out of a new environment, so that it serves every
 * build with the same dependencies.
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
        await rm(from, { force: true }); // a command of the package: it would look for it here
      else await moveWithPaths(from, path.join(kept, file), sources);
    }
    await rm(path.join(packagesDir, name), { recursive: true, force: true });
  }
}

/** Gives a source its own packages back, with paths below the place where it will be. */
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
async function sitePackages(environmentDir: string): Promise<string> {
  const lib = path.join(environmentDir, "lib");
  const python = (await readdir(lib)).find((name) => name.startsWith("python")) ?? "python3";
  return path.join(lib, python, "site-packages");
}

/** PEP 610: the installer says where a package came from. */
async function isInPlace(distInfo: string): Promise<boolean> {
  const text = await readFile(path.join(distInfo, "direct_url.json"), "utf8").catch(() => "{}");
  const { dir_info: found } = JSON.parse(text) as { dir_info?: { editable?: boolean } };
  return found?.editable === true;
}

/** First column of RECORD; a path with a comma is quoted. */
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
  if ((await stat(from).catch(() => null)) === null) return; // compiled files are recorded and not always there
  await mkdir(path.dirname(to), { recursive: true });
  let text = await readText(from);
  if (text === undefined || to.includes("__pycache__")) return void (await rename(from, to));
  for (const source of sources) text = text.replaceAll(source, placeholder);
  // What the package says about itself in prose is of this source only.
  if (path.basename(to) === "METADATA") text = text.split("\n\n", 1)[0] ?? "";
  await writeFile(to, text);
  await rm(from);
}

/** @returns undefined for what is no text. */
async function readText(file: string): Promise<string | undefined> {
  const found = await stat(file);
  if (!found.isFile() || found.size > textBytesMax) return undefined;
  const bytes = await readFile(file);
  return bytes.includes(0) ? undefined : bytes.toString("utf8");
}
