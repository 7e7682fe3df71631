import { copyFile, lstat, readdir, rename } from "node:fs/promises";
import path from "node:path";
import { sitePackages } from "./local-packages.ts";

/** Code, which no package checks. It is the larger part of an environment. */
const codeForm = /\.(?:py|pyc|pyi|dylib|so(?:\.\d+)*)$/;

/**
 * Gives an environment with NLTK data files of its own. uv links all files to its cache, and NLTK refuses to read data from a file
 * with several links, also data that other packages bring.
 * @param environmentDir an environment that nothing uses yet.
 */
export async function ownDataFiles(environmentDir: string): Promise<void> {
  const packagesDir = await sitePackages(environmentDir);
  const names: string[] = await readdir(packagesDir).catch(() => []);
  if (!names.includes("nltk")) return;
  for (const entry of await readdir(packagesDir, { recursive: true, withFileTypes: true })) {
    if (!entry.isFile() || codeForm.test(entry.name)) continue;
    const file = path.join(entry.parentPath, entry.name);
    if ((await lstat(file)).nlink === 1) continue;
    const copy = `${file}.pierhead-copy`;
    await copyFile(file, copy);
    await rename(copy, file);
  }
}
