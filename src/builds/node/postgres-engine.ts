import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { stripTypeScriptTypes } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** Files of `engines/langgraph-js-postgres`: sources in a clone, compiled files beside the program in the package. */
const isBuilt = path.extname(fileURLToPath(import.meta.url)) === ".js";
const engineFiles = fileURLToPath(
  new URL(
    isBuilt ? "../../engines/langgraph-js-postgres" : "../../../engines/langgraph-js-postgres/src",
    import.meta.url,
  ),
);

/** 12 hex digits of all files of the engine. A changed engine is installed again, and agents are built again for it. */
export const engineDigest = digestOf(filesOf());

function digestOf(files: string[]): string {
  const hash = createHash("sha256");
  for (const file of files) hash.update(`${file}\n`).update(readFileSync(path.join(engineFiles, file)));
  return hash.digest("hex").slice(0, 12);
}

/** Copies the engine as JavaScript: below `node_modules`, where caches may be, Node runs no TypeScript. */
export async function copyEngine(directory: string): Promise<void> {
  for (const [file, text] of Object.entries(await readEngine())) {
    const to = path.join(directory, file);
    await mkdir(path.dirname(to), { recursive: true });
    await writeFile(to, text);
  }
}

/** Returns the files of the engine as JavaScript, by their paths in its directory. */
export async function readEngine(): Promise<Record<string, string>> {
  const files = filesOf().map(async (file) => {
    const text = await readFile(path.join(engineFiles, file), "utf8");
    return [file.replace(/\.ts$/, ".js"), isBuilt ? text : javascriptOf(text)] as const;
  });
  const manifest = JSON.stringify({ private: true, type: "module" });
  return { "package.json": manifest, ...Object.fromEntries(await Promise.all(files)) };
}

function filesOf(): string[] {
  const all = readdirSync(engineFiles, { recursive: true, encoding: "utf8" });
  return all.filter((file) => /\.(js|ts)$/.test(file) && !file.endsWith(".d.ts")).sort();
}

const javascriptOf = (source: string) => stripTypeScriptTypes(source).replaceAll(/( from "\.[^"]*)\.ts"/g, '$1.js"');
