import { pathToFileURL } from "node:url";

interface Graph {
  withConfig(config: object): unknown;
}

type Factory = (...input: unknown[]) => unknown;

/**
 * Gives each request a copy of its graph. The server sets checkpointer and store on the compiled graph itself, which all
 * requests share: a run without a thread takes the checkpointer away from runs that begin at the same time, and their state is
 * lost. A server with an unknown implementation stays unchanged.
 * @param serverModule file that `@langchain/langgraph-api/server` resolves to; call this before it registers graphs
 */
export async function copyGraphs(serverModule: string, graphIds: readonly string[]): Promise<void> {
  const file = new URL("./graph/load.mjs", pathToFileURL(serverModule));
  const found: unknown = await import(file.href).catch(() => undefined);
  const graphs = (found as { GRAPHS?: Record<string, unknown> } | undefined)?.GRAPHS;
  if (typeof graphs !== "object" || graphs === null) {
    console.warn("warning: pierhead: unknown version of load.mjs: runs without a thread can disturb runs on threads");
    return;
  }
  for (const id of graphIds) {
    let graph: unknown;
    const set = (loaded: unknown) => {
      graph = copying(loaded);
    };
    Object.defineProperty(graphs, id, { get: () => graph, set, enumerable: true, configurable: true });
  }
}

/** Returns a factory of copies. The server calls functions for each request, as projects may export one. */
function copying(loaded: unknown): unknown {
  if (typeof loaded === "function") return async (...input: unknown[]) => copyOf(await (loaded as Factory)(...input));
  return isGraph(loaded) ? () => copyOf(loaded) : loaded;
}

/**
 * Copies a graph with what the project has set on it, such as a traced method. Returns the graph itself if it answers with a
 * wrapper, on which checkpointer and store would have no effect.
 */
function copyOf(made: unknown): unknown {
  if (!isGraph(made)) return made;
  const copy = made.withConfig({});
  if (Object.getPrototypeOf(copy) !== Object.getPrototypeOf(made)) return made;
  const own = Object.entries(made).filter(([name]) => !Object.hasOwn(copy as object, name));
  return Object.assign(copy as object, Object.fromEntries(own));
}

const isGraph = (value: unknown): value is Graph =>
  typeof value === "object" && value !== null && typeof (value as Partial<Graph>).withConfig === "function";
