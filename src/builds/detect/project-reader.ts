import { readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import type { ProjectReader } from "../../domain/detection/project-sources.ts";
import { isFileInside } from "../sources/inside.ts";

/** Limits of the search: enough for the sources of a server, and fast in any tree. */
const filesMax = 5_000;
const depthMax = 6;
const bytesMax = 256 * 1024;

/** Directories with packages and output of tools. */
const foreign = new Set(["node_modules", "__pycache__", "venv", "site-packages", "dist", "build", "target"]);

/**
 * Gives detection access to the files of one directory of the source.
 * @param directory relative to the root of the source.
 */
export function projectReader(sourceDir: string, directory: string): ProjectReader {
  return {
    list: () => listFiles(path.join(sourceDir, directory)),
    async read(file) {
      const inSource = path.posix.join(directory, file);
      if (!(await isFileInside(sourceDir, inSource))) return null;
      const full = path.join(sourceDir, inSource);
      if ((await stat(full)).size > bytesMax) return null;
      const text = await readFile(full, "utf8");
      return text.includes("\0") ? null : text;
    },
  };
}

/** Lists files breadth first, so that a limit omits the deepest ones. */
async function listFiles(root: string): Promise<string[]> {
  const found: string[] = [];
  let level = [""];
  for (let depth = 0; depth < depthMax && level.length > 0 && found.length < filesMax; depth++) {
    const next: string[] = [];
    for (const directory of level) {
      for (const entry of await readdir(path.join(root, directory), { withFileTypes: true })) {
        const name = path.posix.join(directory, entry.name);
        if (!entry.isDirectory()) found.push(name);
        else if (!entry.name.startsWith(".") && !foreign.has(entry.name)) next.push(name);
      }
    }
    level = next;
  }
  return found.slice(0, filesMax);
}
