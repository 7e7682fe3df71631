import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
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
  await mkdir(directory, { recursive: true });
  await writeFile(path.join(directory, "package.json"), JSON.stringify({ private: true, type: "module" }));
  for (const file of filesOf()) {
    const [from, to] = [path.join(engineFiles, file), path.join(directory, file.replace(/\.ts$/, ".js"))];
    await mkdir(path.dirname(to), { recursive: true });
    if (isBuilt) await cp(from, to);
    else await writeFile(to, javascriptOf(await readFile(from, "utf8")));
  }
}

function filesOf(): string[] {
  const all = readdirSync(engineFiles, { recursive: true, encoding: "utf8" });
  return all.filter((file) => /\.(js|ts)$/.test(file) && !file.endsWith(".d.ts")).sort();
}

const javascriptOf = (source: string) => stripTypeScriptTypes(source).replaceAll(/( from "\.[^"]*)\.ts"/g, '$1.js"');
