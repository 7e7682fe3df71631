import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { exampleNames } from "../../domain/dotenv.ts";
import { isFileInside } from "../sources/inside.ts";

/** Variables that every server gets. */
const given = new Set(["PORT", "HOST", "PUBLIC_URL", "HOME", "PATH"]);

const bytesMax = 64 * 1024;
const variablesMax = 50;

/**
 * Returns the names of the variables that a project wants to have set, from its example file beside the configuration or at
 * the root of the source.
 */
export async function expectedVariables(
  sourceDir: string,
  directory: string,
): Promise<{ file: string; names: string[]; examples: Record<string, string> } | null> {
  for (const place of new Set([directory, "."])) {
    for (const name of exampleNames) {
      const file = path.posix.join(place, name);
      if (!(await isFileInside(sourceDir, file))) continue;
      const full = path.join(sourceDir, file);
      if ((await stat(full)).size > bytesMax) continue;
      const text = await readFile(full, "utf8");
      const lines = [...text.matchAll(/^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=[ \t]*(.*)$/gm)];
      const named = lines.map((match) => match[1] ?? "").filter((one) => !given.has(one));
      const names = [...new Set(named)].slice(0, variablesMax);
      const examples = lines.map((match) => [match[1] ?? "", exampleIn(match[2] ?? "")] as const);
      return {
        file,
        names,
        examples: Object.fromEntries(examples.filter(([name]) => names.includes(name)).toReversed()),
      };
    }
  }
  return null;
}

const exampleCharactersMax = 200;

/** Returns the value of a line without its quotes and its comment; "" when it is too long to be an example. */
function exampleIn(text: string): string {
  const [, quoted] = /^(["'])(.*?)\1/.exec(text)?.slice(1) ?? [];
  const value = quoted ?? text.replace(/(^|\s)#.*$/, "").trim();
  return value.length > exampleCharactersMax ? "" : value;
}
