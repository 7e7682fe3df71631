import path from "node:path";
import type { LanggraphConfig } from "./langgraph-config.ts";

export interface ServerOptions
  extends Pick<LanggraphConfig, "graphs" | "auth" | "http" | "ui" | "ui_config" | "store"> {
  nWorkers: number;
  cwd: string;
}

/** Parallel runs in one replica (`N_JOBS_PER_WORKER`, contract 7.2). */
const workersDefault = 10;

/**
 * Returns the options for `startServer` of the open LangGraph.js server. The server stores its state in `cwd` and resolves
 * every path against it, so paths of the configuration become relative to the state directory.
 * @param directory real path of the directory of langgraph.json
 * @param stateDir real path, too: `..` behind a symbolic link would lead to another directory
 */
export function serverOptions(
  config: LanggraphConfig,
  { directory, stateDir, workers }: { directory: string; stateDir: string; workers: string | undefined },
): ServerOptions {
  const move = (entry: string) => moveEntry(entry, directory, stateDir);
  const { auth, http, ui, ui_config, store } = config;
  const graphs = Object.entries(config.graphs).map(([id, graph]) => {
    return [id, typeof graph === "string" ? move(graph) : { ...graph, path: move(graph.path) }];
  });
  return {
    nWorkers: workers !== undefined && /^\d{1,3}$/.test(workers) ? Number(workers) : workersDefault,
    cwd: stateDir,
    graphs: Object.fromEntries(graphs),
    ...(auth === undefined ? {} : { auth: { ...auth, ...(auth.path === undefined ? {} : { path: move(auth.path) }) } }),
    ...(http === undefined ? {} : { http: { ...http, ...(http.app === undefined ? {} : { app: move(http.app) }) } }),
    // The shim bundles the components. The empty list makes the server serve them.
    ...(ui === undefined ? {} : { ui: {} }),
    ...(ui_config === undefined ? {} : { ui_config }),
    ...(store === undefined ? {} : { store }),
  };
}

/**
 * Returns the path that answers 200 without credentials: with `auth` the server requires them on `/ok` but not on
 * `/info`; with `disable_meta` it has neither path.
 */
export function openHealthPath({ auth, http }: LanggraphConfig): string | null {
  if (http?.disable_meta === true) return null;
  return auth?.path === undefined ? "/ok" : "/info";
}

/** `./src/agent.ts:graph`: only a colon after the last slash separates the export, which defaults to `default`. */
function moveEntry(entry: string, directory: string, stateDir: string): string {
  const [, file = entry, exported = "default"] = /^(.*):([^:/\\]+)$/.exec(entry) ?? [];
  return `${relative(file, directory, stateDir)}:${exported}`;
}

function relative(file: string, directory: string, stateDir: string): string {
  const moved = path.relative(stateDir, path.resolve(directory, file)).replaceAll("\\", "/");
  return moved.startsWith(".") ? moved : `./${moved}`;
}
