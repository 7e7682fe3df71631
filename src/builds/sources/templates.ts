import { createHash } from "node:crypto";
import { readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

/** A starter project delivered with Pierhead: `templates/<id>/` with a `template.json`. */
export interface Template {
  id: string;
  name: string;
  description: string;
  /** Relative to the directory. */
  configPath: string;
  /** Absolute. */
  directory: string;
  /** sha256 over all paths and contents: equal digests build to equal artifacts. */
  digest: string;
}

/** The template directory of this package: beside `src` in a clone, beside `dist` when installed. */
export const templatesDirectory = fileURLToPath(new URL("../../../templates/", import.meta.url));

/** Files that are not part of a template, although running it locally leaves them in its directory. */
export const templateIgnored: ReadonlySet<string> = new Set([
  "node_modules",
  ".venv",
  "__pycache__",
  ".langgraph_api",
  ".env",
  ".DS_Store",
]);

/**
 * Returns all templates, sorted by id. Directories without a template.json are skipped.
 * @throws Error when there is no such directory, or a template.json is broken.
 */
export async function listTemplates(templatesDir: string = templatesDirectory): Promise<Template[]> {
  const entries = await readdir(templatesDir, { withFileTypes: true });
  const ids = entries.filter((entry) => entry.isDirectory() && idPattern.test(entry.name)).map((entry) => entry.name);
  const found = await Promise.all(ids.toSorted().map((id) => findTemplate(templatesDir, id)));
  return found.filter((template) => template !== undefined);
}

/** Returns the template with this id. @returns undefined when there is no such template. */
export async function findTemplate(templatesDir: string, id: string): Promise<Template | undefined> {
  if (!idPattern.test(id)) return undefined;
  try {
    return await readTemplate(templatesDir, id);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Also prevents an id from being a path. */
const idPattern = /^[a-z0-9][a-z0-9-]{0,63}$/;

async function readTemplate(templatesDir: string, id: string): Promise<Template> {
  const directory = path.join(templatesDir, id);
  const manifest: unknown = JSON.parse(await readFile(path.join(directory, "template.json"), "utf8"));
  const { id: named, name, description, config_path: configPath } = manifest as Record<string, unknown>;
  if (named !== id || ![name, description, configPath].every((value) => typeof value === "string")) {
    throw new Error(`${directory}/template.json must have id '${id}', name, description and config_path`);
  }
  const texts = { name, description, configPath } as { name: string; description: string; configPath: string };
  return { id, ...texts, directory, digest: await digestOf(directory) };
}

async function digestOf(directory: string): Promise<string> {
  const hash = createHash("sha256");
  for (const file of await listFiles(directory, "")) {
    const content = await readFile(path.join(directory, file));
    hash.update(`${file}\0${content.length}\0`).update(content);
  }
  return `sha256:${hash.digest("hex")}`;
}

async function listFiles(root: string, below: string): Promise<string[]> {
  const entries = await readdir(path.join(root, below), { withFileTypes: true });
  const files = await Promise.all(
    entries.map(async (entry) => {
      const name = path.posix.join(below, entry.name);
      if (templateIgnored.has(entry.name)) return [];
      // A link counts as its target.
      const found = entry.isSymbolicLink() ? await stat(path.join(root, name)) : entry;
      return found.isDirectory() ? listFiles(root, name) : [name];
    }),
  );
  return files.flat().toSorted();
}
