import path from "node:path";
import { pathToFileURL } from "node:url";
import type { LanggraphConfig } from "./langgraph-config.ts";

/**
 * Names the graph that made a start fail, because the server's own error does not. Modules are cached with their errors, so
 * importing one again costs nothing and gives the same error.
 * @returns the error that was given when no graph caused it
 */
export async function nameFailedGraph(error: unknown, config: LanggraphConfig, directory: string): Promise<unknown> {
  for (const [name, graph] of Object.entries(config.graphs)) {
    const [file = "", exported = "default"] = (typeof graph === "string" ? graph : graph.path).split(":", 2);
    const imported = await import(pathToFileURL(path.resolve(directory, file)).href).then(
      (module: Record<string, unknown>) => ({ isMissing: module[exported] == null, isCause: false }),
      (cause: unknown) => ({ isMissing: false, isCause: cause === error }),
    );
    if (imported.isCause) return failure(name, file, error);
    if (imported.isMissing)
      return failure(name, file, new Error(`The file exports nothing with the name ${exported}.`));
  }
  return error;
}

/** The stack stays that of the cause. */
function failure(name: string, file: string, cause: unknown): Error {
  const because = cause instanceof Error ? cause.message : String(cause);
  const named = new Error(`Failed to load graph '${name}' from ${file}: ${because}`, { cause });
  if (cause instanceof Error && cause.stack !== undefined) named.stack = `${named.message}\n${cause.stack}`;
  return named;
}
