import { readFileSync, realpathSync } from "node:fs";
import { createRequire, registerHooks } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

/** A package that the project has installed. */
export interface InstalledPackage {
  version: string;
  /** Real path of its package.json. */
  manifest: string;
}

/** Packages that the server and the graphs must share: objects of one copy are strangers to another. */
const sharedNames = ["@langchain/langgraph", "@langchain/langgraph-checkpoint", "@langchain/core"] as const;
export type SharedName = (typeof sharedNames)[number];

/**
 * Returns the project's copies of the packages that the server shares with the graphs. The project depends on LangGraph
 * itself or through `langchain`. LangGraph's own dependencies are found from LangGraph, because a package manager may place
 * several versions of them.
 * @param rootDir packages outside of it do not belong to the project
 */
export function sharedPackages(projectDir: string, rootDir: string): Partial<Record<SharedName, InstalledPackage>> {
  const root = realpathSync(rootDir);
  const manifest = path.join(realpathSync(projectDir), "package.json");
  const find = (name: string, from: string) => findPackage(name, from, root);
  const langchain = find("langchain", manifest);
  const langgraph =
    find("@langchain/langgraph", manifest) ??
    (langchain === null ? null : find("@langchain/langgraph", langchain.manifest));
  const from = langgraph?.manifest ?? manifest;
  const found = {
    "@langchain/langgraph": langgraph,
    "@langchain/langgraph-checkpoint": find("@langchain/langgraph-checkpoint", from),
    "@langchain/core": find("@langchain/core", from),
  };
  return Object.fromEntries(Object.entries(found).filter(([, one]) => one !== null));
}

/** Looks in the node_modules of each directory upwards, because the exports of a package may hide its package.json. */
function findPackage(name: string, from: string, root: string): InstalledPackage | null {
  for (const directory of createRequire(from).resolve.paths(name) ?? []) {
    if (path.relative(root, directory).startsWith("..")) continue;
    try {
      const manifest = realpathSync(path.join(directory, name, "package.json"));
      const { version } = JSON.parse(readFileSync(manifest, "utf8")) as { version?: unknown };
      if (typeof version === "string") return { version, manifest };
    } catch {
      // not in this directory
    }
  }
  return null;
}

/**
 * Makes the server import the project's copies of the shared packages instead of its own. With two copies, a server restores
 * checkpoints in the format of its own LangGraph, which the project's LangGraph may not know.
 * @param from URL prefixes of the modules whose imports are changed: the server's
 */
export function sharePackages(packages: Partial<Record<SharedName, InstalledPackage>>, from: string[]): void {
  registerHooks({
    resolve(specifier, context, nextResolve) {
      const { parentURL } = context;
      const name = sharedNames.find((one) => specifier === one || specifier.startsWith(`${one}/`));
      const shared = name === undefined ? undefined : packages[name];
      if (shared === undefined || !from.some((prefix) => parentURL?.startsWith(prefix))) {
        return nextResolve(specifier, context);
      }
      // A package may refer to itself by its name, and its exports apply to that, too.
      return nextResolve(specifier, { ...context, parentURL: pathToFileURL(shared.manifest).href });
    },
  });
}
