import { existsSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import path from "node:path";
import { parseEnv } from "node:util";
import type { StartPlan } from "../../../contract/listeners/assignment.ts";
import { environmentOf, type LanggraphConfig } from "./langgraph-config.ts";

type PythonStart = Extract<StartPlan, { runner: "langgraph-python" }>;

/** Options of langgraph-python-shim.py, beside those of `ShimOptions`. Contains no secrets. All paths are absolute. */
export interface PythonLaunch {
  artifactDir: string;
  /** Path segments of the directory of langgraph.json in the artifact. */
  directory: string[];
  packagesDir: string;
  /** Where Python finds the graphs' own modules, in addition to their installed packages. */
  importDirs: string[];
  /** Settings of the server. Variables of the agent with the same names must not change them. */
  serverEnvironment: Record<string, string>;
  /** Path that answers 200 without credentials; null: there is none. */
  healthPath: string | null;
  /** Schema of the tables of the engine `aegra`. Absent: the state is in memory. */
  engineSchema?: string;
  /** With `engineSchema`: what the names of keys and channels in Redis begin with. */
  redisPrefix?: string;
}

/**
 * Returns how a built Python agent is started.
 * @throws Error when its langgraph.json cannot be read
 */
export function pythonLaunch(
  artifactDir: string,
  start: PythonStart,
): { options: PythonLaunch; env: Record<string, string> } {
  const configFile = path.join(artifactDir, start.config_path);
  const directory = path.dirname(configFile);
  const config = JSON.parse(readFileSync(configFile, "utf8")) as LanggraphConfig;
  const options = {
    artifactDir,
    directory: path.posix
      .normalize(path.posix.dirname(start.config_path))
      .split("/")
      .filter((part) => part !== "."),
    packagesDir: path.join(artifactDir, start.packages_dir),
    importDirs: importDirs(config, directory, { artifactDir, environmentDir: start.environment_dir }),
    serverEnvironment: serverEnvironment(config, directory),
    healthPath: config.http?.disable_meta === true ? null : "/ok",
  };
  return {
    options,
    env: { ...ownEnvironment(config, directory, artifactDir), ...processEnvironment(start.environment_dir) },
  };
}

/**
 * Returns the directory of langgraph.json and each local dependency. A package without a project file adds its parent, unless
 * a package beside it has the name of an installed one: Python prefers a package with an `__init__.py` to a namespace package, such as
 * `langgraph`, wherever the two are on its path.
 */
function importDirs(
  { dependencies = [] }: LanggraphConfig,
  directory: string,
  { artifactDir, environmentDir }: { artifactDir: string; environmentDir: string },
): string[] {
  const locals = dependencies.filter((one) => one.startsWith(".")).map((one) => path.join(directory, one));
  const parents = locals
    .filter((one) => one !== artifactDir && existsSync(path.join(one, "__init__.py")))
    .map(path.dirname)
    .filter((parent) => !hidesInstalled(parent, environmentDir));
  return [...new Set([directory, ...locals, ...parents])];
}

function hidesInstalled(parent: string, environmentDir: string): boolean {
  const lib = path.join(environmentDir, "lib");
  if (!existsSync(lib)) return false;
  const installed = readdirSync(lib).map((python) => path.join(lib, python, "site-packages"));
  return readdirSync(parent).some(
    (name) =>
      existsSync(path.join(parent, name, "__init__.py")) &&
      installed.some((packagesDir) => existsSync(path.join(packagesDir, name))),
  );
}

/**
 * Returns the settings of the in-memory server, which reads all of them from variables. `LANGSMITH_LANGGRAPH_API_VARIANT`
 * stays unset, so that it runs as in production: with `local_dev` any caller could bypass the agent's own auth.
 */
function serverEnvironment(config: LanggraphConfig, directory: string): Record<string, string> {
  const move = (entry: string) => moveEntry(entry, directory);
  const withPath = <T extends { path?: string }>(value: T | undefined): T | undefined =>
    value?.path === undefined ? value : { ...value, path: move(value.path) };
  const graphs = Object.entries(config.graphs).map(([id, graph]) => {
    return [id, typeof graph === "string" ? move(graph) : { ...graph, path: move(graph.path) }];
  });
  const { http, ui, ui_config, store, webhooks } = config;
  const settings: Record<string, unknown> = {
    LANGSERVE_GRAPHS: Object.fromEntries(graphs),
    LANGGRAPH_AUTH: withPath(config.auth),
    LANGGRAPH_ENCRYPTION: withPath(config.encryption),
    LANGGRAPH_CHECKPOINTER: withPath(config.checkpointer),
    LANGGRAPH_PRIORITY: withPath(config.priority),
    LANGGRAPH_HTTP: http?.app === undefined ? http : { ...http, app: move(http.app) },
    LANGGRAPH_STORE: store,
    LANGGRAPH_WEBHOOKS: webhooks,
    LANGGRAPH_UI: ui,
    LANGGRAPH_UI_CONFIG: ui_config,
  };
  const given = Object.entries(settings).filter(([, value]) => value !== undefined && value !== null);
  return {
    ...Object.fromEntries(given.map(([name, value]) => [name, JSON.stringify(value)])),
    LANGGRAPH_RUNTIME_EDITION: "inmem",
    DATABASE_URI: ":memory:",
    REDIS_URI: "fake",
    MIGRATIONS_PATH: "__inmem",
  };
}

/** The server takes an entry without a slash for a module, so the name of an existing file becomes a path. */
function moveEntry(entry: string, directory: string): string {
  const [, file = entry, exported = ""] = /^(.*?)(:[^:/\\]+)?$/.exec(entry) ?? [];
  const isFile = file.includes("/") || existsSync(path.join(directory, file));
  return isFile ? path.join(directory, file) + exported : entry;
}

/** Returns the variables of langgraph.json, which apply when nothing else sets them. Its env file is often not in the source. */
function ownEnvironment(config: LanggraphConfig, directory: string, artifactDir: string): Record<string, string> {
  const found = environmentOf(config);
  if ("variables" in found) return Object.fromEntries(found.variables);
  const read = parseEnv(readInside(path.join(directory, found.file), artifactDir));
  return Object.fromEntries(Object.entries(read).filter((entry): entry is [string, string] => entry[1] !== undefined));
}

/**
 * Reads a file of the artifact. A repository may contain links to any path, and this process may read more than the author
 * of the repository may, for example the environment of this server.
 * @returns "" for a file that does not exist or is not in the artifact
 */
function readInside(file: string, artifactDir: string): string {
  if (!existsSync(file)) return "";
  const real = realpathSync(file);
  return real.startsWith(realpathSync(artifactDir) + path.sep) ? readFileSync(real, "utf8") : "";
}

/** Parallel runs as in other agent servers (contract 7.2). Blocking calls are allowed: they are the agent's own business. */
function processEnvironment(environmentDir: string): Record<string, string> {
  return {
    N_JOBS_PER_WORKER: "10",
    LANGGRAPH_ALLOW_BLOCKING: "true",
    VIRTUAL_ENV: environmentDir,
    PYTHONUNBUFFERED: "1",
    // Artifact and environment are shared and must stay unmodified.
    PYTHONDONTWRITEBYTECODE: "1",
  };
}
