import { subscribe } from "node:diagnostics_channel";
import { existsSync, mkdirSync, readFileSync, realpathSync, renameSync, writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { createRequire, enableCompileCache } from "node:module";
import path from "node:path";
import { loadEnvFile } from "node:process";
import { setTimeout as sleep } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import type { ShimOptions, ShimReport } from "../replicas/replica-files.ts";
import { environmentOf, type LanggraphConfig } from "./langgraph-config.ts";
import { nameFailedGraph } from "./langgraph-js-failure.ts";
import { copyGraphs } from "./langgraph-js-graphs.ts";
import { openHealthPath, serverOptions } from "./langgraph-js-options.ts";
import { sharedPackages, sharePackages } from "./langgraph-js-packages.ts";
import { hardenPersistence } from "./langgraph-js-persistence.ts";
import { startOnPostgres } from "./langgraph-js-postgres.ts";
import { checkUnused, lockState, repairState } from "./langgraph-js-state.ts";

/** Options in the file that the first argument names. Contains no secrets. */
export interface LaunchOptions extends ShimOptions {
  /** Directory with `@langchain/langgraph-api` in its node_modules. */
  toolchainDir: string;
  /** Directory with all files of the project. Packages outside of it do not belong to the project. */
  rootDir: string;
  configFile: string;
  /** Directory of the engine on PostgreSQL, in the toolchain; null: the state is in files. */
  engineDir: string | null;
  /** Schema of the engine's tables. */
  engineSchema: string;
  /** null: compiled code is not cached. */
  compileCacheDir: string | null;
}

interface LanggraphServer {
  /** For example `127.0.0.1:34567`. */
  host: string;
  /** Gives runs to other replicas. Absent: there are none. */
  handOver?(): Promise<void>;
  /** Writes the state and closes the port. */
  cleanup(): Promise<void>;
}

/**
 * Host shim of the open LangGraph.js server: the main program of one replica. It adds what that server lacks: it repairs
 * the state before the start, locks the state directory, exits with a clear last line when it cannot start, and reports
 * its port with a nonce, so that no other server can be mistaken for it. On SIGTERM it lets runs finish and clients read
 * their answers before it writes its state and exits. On a second one it does not wait for runs any longer.
 */
async function main(optionsFile: string): Promise<void> {
  const options = JSON.parse(readFileSync(optionsFile, "utf8")) as LaunchOptions;
  let isListening = false;
  process.on("exit", (code) => {
    if (!isListening && code === 0) reportNeverListened();
    if (options.exitCodeFile !== null) writeFileSync(options.exitCodeFile, String(process.exitCode ?? code));
  });
  if (options.engineDir === null) {
    const lock = await lockState(options.stateDir);
    process.on("exit", () => lock.release());
    for (const done of repairState(options.stateDir)) console.warn(`warning: pierhead: ${done}`);
  } else checkUnused(options.stateDir);

  const config = JSON.parse(readFileSync(options.configFile, "utf8")) as LanggraphConfig;
  const directory = realpathSync(path.dirname(options.configFile));
  applyEnvironment(config, directory);
  const inFlight = countInFlightRequests();
  const server = await startServer(options, config, directory);
  const { port } = new URL(`http://${server.host}`);
  isListening = true;
  process.env["PORT"] = port;

  // From here on the server survives uncaught errors, as it does when its own CLI starts it.
  process.removeListener("uncaughtException", fail);
  process.on("uncaughtException", (error) => console.error(`error: uncaught: ${describe(error)}`));
  const hurry = new AbortController();
  let isDraining = false;
  const handleSignal = () => {
    if (isDraining) hurry.abort();
    else void drain(server, { port, config, inFlight, drainTimeoutMs: options.drainTimeoutMs, hurry: hurry.signal });
    isDraining = true;
  };
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.on(signal, handleSignal);
  report(options, {
    pid: process.pid,
    port: Number(port),
    nonce: options.nonce,
    serverVersion: serverVersion(options.toolchainDir),
    healthPath: openHealthPath(config),
  });
}

const apiPackage = "@langchain/langgraph-api";

async function startServer(
  options: LaunchOptions,
  config: LanggraphConfig,
  directory: string,
): Promise<LanggraphServer> {
  if (options.compileCacheDir !== null) {
    mkdirSync(options.compileCacheDir, { recursive: true, mode: 0o700 });
    enableCompileCache(options.compileCacheDir); // saves a quarter of the start time after the first replica
  }
  const api = createRequire(path.join(options.toolchainDir, "package.json")).resolve(`${apiPackage}/server`);
  // The loader of TypeScript graphs is a dependency of the server, not of this program.
  const loader = (await import(pathToFileURL(createRequire(api).resolve("tsx/esm/api")).href)) as { register(): void };
  loader.register();
  useProjectPackages(options, config, directory);
  if (options.engineDir === null) {
    await hardenPersistence(api);
    await copyGraphs(api, Object.keys(config.graphs));
  }
  const { startServer: start } = (await import(pathToFileURL(api).href)) as {
    startServer(options: object): Promise<LanggraphServer>;
  };
  await registerUi(api, config, directory);
  const stateDir = realpathSync(options.stateDir);
  const workers = process.env["N_JOBS_PER_WORKER"];
  const server = { ...serverOptions(config, { directory, stateDir, workers }), ...options.listen };
  const rename = async (error: unknown) => Promise.reject(await nameFailedGraph(error, config, directory));
  if (options.engineDir === null) return start(server).catch(rename);
  const connectionString = process.env["DATABASE_URI"] ?? "";
  const { engineSchema: schema, drainTimeoutMs } = options;
  const retries = process.env["BG_JOB_MAX_RETRIES"];
  const given = { server, connectionString, schema, stateDir, drainTimeoutMs, retries };
  return startOnPostgres(options.engineDir, api, given).catch(rename);
}

/** A server inside the project uses the project's packages anyway. */
function useProjectPackages(
  { toolchainDir, rootDir }: LaunchOptions,
  config: LanggraphConfig,
  directory: string,
): void {
  const toolchain = realpathSync(toolchainDir);
  if (!path.relative(toolchain, directory).startsWith("..")) return;
  const [graph] = Object.values(config.graphs).map((one) => (typeof one === "string" ? one : one.path));
  const graphDir = path.dirname(path.resolve(directory, graph ?? ""));
  sharePackages(sharedPackages(existsSync(graphDir) ? graphDir : directory, rootDir), [
    pathToFileURL(`${toolchain}/`).href,
  ]);
}

/**
 * Bundles the components of `ui`. The server would resolve their paths against the state directory, and its bundler rejects
 * files outside of that directory.
 */
async function registerUi(serverModule: string, { ui, ui_config: config }: LanggraphConfig, directory: string) {
  if (ui === undefined) return;
  const file = new URL("./ui/load.mjs", pathToFileURL(serverModule));
  const { registerGraphUi } = (await import(file.href)) as {
    registerGraphUi(components: Record<string, string>, options: { cwd: string; config: unknown }): Promise<void>;
  };
  await registerGraphUi(ui, { cwd: directory, config });
}

function applyEnvironment(config: LanggraphConfig, directory: string): void {
  const found = environmentOf(config);
  if ("file" in found) {
    const file = path.join(directory, found.file);
    if (existsSync(file)) loadEnvFile(file); // sets only variables that are not set yet
  } else {
    for (const [name, value] of found.variables) process.env[name] ??= value;
  }
  process.env["NODE_ENV"] ??= "production";
}

function serverVersion(toolchainDir: string): string | null {
  try {
    const require = createRequire(path.join(toolchainDir, "package.json"));
    return (require(`${apiPackage}/package.json`) as { version: string }).version;
  } catch {
    return null;
  }
}

function report({ reportFile }: LaunchOptions, content: ShimReport): void {
  if (reportFile === null) return;
  writeFileSync(`${reportFile}.draft`, JSON.stringify(content), { mode: 0o600 });
  renameSync(`${reportFile}.draft`, reportFile);
}

/** Requests that were received and not fully answered yet. */
interface InFlightRequests {
  count: number;
}

function countInFlightRequests(): InFlightRequests {
  const inFlight = { count: 0 };
  subscribe("http.server.request.start", (message) => {
    inFlight.count += 1;
    (message as { response: ServerResponse }).response.once("close", () => {
      inFlight.count -= 1;
    });
  });
  return inFlight;
}

/**
 * The server polls every 500 ms whether the run behind a stream or a `wait` has ended. A shorter grace period cut streams
 * of finished runs; 600 ms cut none.
 */
const answerGraceMs = 600;

/** Time for writing the state before the driver kills this process: the files of a busy agent have tens of megabytes. */
const flushReserveMs = 2_000;

interface WorkInProgress {
  port: string;
  config: LanggraphConfig;
  inFlight: InFlightRequests;
  /** Aborted when the driver wants the server to stop without waiting for runs. */
  hurry: AbortSignal;
}

async function drain(
  server: LanggraphServer,
  { drainTimeoutMs, ...work }: WorkInProgress & { drainTimeoutMs: number },
): Promise<never> {
  const { inFlight, hurry } = work;
  const end = performance.now() + Math.max(drainTimeoutMs / 2, drainTimeoutMs - flushReserveMs - answerGraceMs);
  try {
    // Answers of runs that other replicas continue still come from here.
    await server.handOver?.();
    const isOnFiles = server.handOver === undefined;
    const hasWork = async () => (isOnFiles ? isBusy(work) : inFlight.count > 0);
    while (performance.now() < end && !hurry.aborted && (await hasWork())) await sleep(100);
    const answerGraceEnd = performance.now() + answerGraceMs;
    while (performance.now() < answerGraceEnd && !hurry.aborted && inFlight.count > 0) await sleep(20);
    await server.cleanup();
  } catch (error) {
    console.error(`error: pierhead: the state may not have been written: ${describe(error)}`);
    process.exit(1);
  }
  process.exit(0);
}

/** Returns whether a run is in progress. If the server does not let us ask, an unfinished answer counts instead. */
async function isBusy({ port, config, inFlight, hurry }: WorkInProgress): Promise<boolean> {
  // Agents with their own auth accept this scheme unless they have switched it off.
  const headers = { "content-type": "application/json", ...(config.auth ? { "x-auth-scheme": "langsmith" } : {}) };
  const answer = await fetch(`http://127.0.0.1:${port}/threads/search`, {
    method: "POST",
    headers,
    body: JSON.stringify({ status: "busy", limit: 1 }),
    signal: AbortSignal.any([AbortSignal.timeout(2_000), hurry]),
  }).catch(() => undefined);
  if (answer === undefined) return true; // too busy to answer
  const found: unknown = answer.ok ? await answer.json().catch(() => null) : null;
  return Array.isArray(found) ? found.length > 0 : inFlight.count > 0;
}

/** Reports that Node is about to exit with code 0, which it does when nothing is pending, whatever a graph still awaits. */
function reportNeverListened(): void {
  console.error(
    "error: pierhead: the agent server ended before it listened: a graph exits the process, or awaits something that never happens",
  );
  process.exitCode = 1;
}

const describe = (error: unknown) => (error instanceof Error ? (error.stack ?? error.message) : String(error));

/** Prints the whole error, and its first line again, which must be among the last lines. */
function fail(error: unknown): never {
  console.error(describe(error));
  const [first = ""] = (error instanceof Error ? `${error.name}: ${error.message}` : String(error)).split("\n");
  console.error(`error: pierhead: the agent server could not start: ${first}`);
  process.exit(1);
}

process.on("uncaughtException", fail);
main(process.argv[2] ?? "").catch(fail);
