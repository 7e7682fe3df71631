import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { isFileInside } from "../sources/inside.ts";

/** Files in which projects list the variables that they need. */
const exampleNames = [".env.example", ".env.sample", ".env.template", ".env.dist", "env.example", "example.env"];

const bytesMax = 64 * 1024;
const variablesMax = 50;

/**
 * Returns the names of the variables that a project wants to have set, from its example file beside the configuration or at
 * the root of the source.
 */
export async function expectedVariables(
  sourceDir: string,
  directory: string,
): Promise<{ file: string; names: string[] } | null> {
  for (const place of new Set([directory, "."])) {
    for (const name of exampleNames) {
      const file = path.posix.join(place, name);
      if (!(await isFileInside(sourceDir, file))) continue;
      const full = path.join(sourceDir, file);
      if ((await stat(full)).size > bytesMax) continue;
      const text = await readFile(full, "utf8");
      const names = [...text.matchAll(/^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=/gm)].map(
        (match) => match[1] ?? "",
      );
      return { file, names: [...new Set(names)].slice(0, variablesMax) };
    }
  }
  return null;
}
