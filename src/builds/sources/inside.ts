import { lstat, readFile, realpath, stat } from "node:fs/promises";
import path from "node:path";

/** Returns whether the file exists and its real path is inside the source. A repository may contain links to any path. */
export async function isFileInside(sourceDir: string, file: string): Promise<boolean> {
  return (await kindInside(sourceDir, file)) === "file";
}

/** Returns the text of a file; null: there is none, or its name is a link out of the source, which would tell a file of this server. */
export async function readInside(sourceDir: string, file: string): Promise<string | null> {
  return (await isFileInside(sourceDir, file)) ? readFile(path.join(sourceDir, file), "utf8") : null;
}

export async function isDirectoryInside(sourceDir: string, directory: string): Promise<boolean> {
  return (await kindInside(sourceDir, directory)) === "directory";
}

/** Returns whether the path leads to a target outside the source. A broken link does not. */
export async function isOutside(sourceDir: string, file: string): Promise<boolean> {
  try {
    const [root, real] = await Promise.all([realpath(sourceDir), realpath(path.join(sourceDir, file))]);
    return real !== root && !real.startsWith(root + path.sep);
  } catch {
    return false;
  }
}

/** Returns whether a directory can be made without leaving the source: its nearest ancestor that exists is inside. */
export async function canMakeDirectory(sourceDir: string, directory: string): Promise<boolean> {
  for (let at = path.posix.normalize(directory); ; at = path.posix.dirname(at)) {
    const exists = await lstat(path.join(sourceDir, at)).then(
      () => true,
      () => false,
    );
    if (exists || at === ".") return isDirectoryInside(sourceDir, at);
  }
}

async function kindInside(sourceDir: string, name: string): Promise<"file" | "directory" | null> {
  try {
    const [root, real] = await Promise.all([realpath(sourceDir), realpath(path.join(sourceDir, name))]);
    if (real !== root && !real.startsWith(root + path.sep)) return null;
    const found = await stat(real);
    return found.isFile() ? "file" : found.isDirectory() ? "directory" : null;
  } catch {
    return null;
  }
}
