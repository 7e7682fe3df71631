import { readdir } from "node:fs/promises";
import path from "node:path";
import { dockerfileName, projectFileNames } from "../../domain/config-path.ts";

/** Limits of the search: deep enough for a monorepo, and fast in any tree. */
const depthMax = 3;
const directoriesMax = 500;
const foundMax = 5;

const configs: readonly string[] = ["langgraph.json", "pierhead.json"];
const names: readonly string[] = [...configs, ...projectFileNames, dockerfileName];
const skipped = new Set(["node_modules", "__pycache__", "venv", "dist", "build", "target"]);

/** Lists directories below one that has no project, which look like projects: those with a config first. Relative to `from`, with `/`. */
export async function projectsBelow(directory: string, from: string): Promise<string[]> {
  const search: Search = { root: directory, found: [], read: 0 };
  await visit(search, "", depthMax);
  return search.found
    .sort((a, b) => Number(b.hasConfig) - Number(a.hasConfig))
    .slice(0, foundMax)
    .map((one) => path.relative(from, path.join(directory, one.directory)).split(path.sep).join("/"));
}

interface Search {
  root: string;
  found: { directory: string; hasConfig: boolean }[];
  /** Number of directories that were read. */
  read: number;
}

async function visit(search: Search, at: string, depth: number): Promise<void> {
  if (++search.read > directoriesMax) return;
  const entries = await readdir(path.join(search.root, at), { withFileTypes: true }).catch(() => []);
  const name = names.find((one) => entries.some((entry) => entry.isFile() && entry.name === one));
  const hasConfig = name !== undefined && configs.includes(name);
  if (at !== "" && name !== undefined) search.found.push({ directory: at, hasConfig });
  // Members of a project are not shown beside it.
  if (depth === 0 || (at !== "" && hasConfig)) return;
  for (const entry of entries) {
    if (entry.isDirectory() && !entry.name.startsWith(".") && !skipped.has(entry.name))
      await visit(search, path.posix.join(at, entry.name), depth - 1);
  }
}
