import type { AgentProject } from "../contract/integrations/integration.ts";

/** Files that describe how an agent server is built and started. */
const configNames = { "langgraph.json": "langgraph", "pierhead.json": "pierhead" } as const;

/** Directories of third-party code and build output. */
const foreignDirectories = new Set(["node_modules", "site-packages", "dist-packages", "vendor", ".git"]);

const projectsMax = 200;

/** Returns the config files in a repository's files, nearest to the root first, then by path. */
export function agentProjectsIn(files: readonly string[]): AgentProject[] {
  const found = files.flatMap((config_path) => {
    const parts = config_path.split("/");
    const kind = configNames[parts.pop() as keyof typeof configNames];
    const isOwn = kind !== undefined && !parts.some((part) => foreignDirectories.has(part));
    return isOwn ? [{ config_path, directory: parts.join("/"), kind, depth: parts.length }] : [];
  });
  return found
    .sort((a, b) => a.depth - b.depth || (a.config_path < b.config_path ? -1 : 1))
    .slice(0, projectsMax)
    .map(({ depth: _depth, ...project }) => project);
}
