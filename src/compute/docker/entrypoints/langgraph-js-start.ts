import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { LaunchOptions } from "../../process/langgraph/langgraph-js-shim.ts";

/**
 * First program of an image with a LangGraph.js agent. Becomes the host shim of the LangGraph.js server, with a heap size
 * that fits the container's memory. Without it, V8 would use all memory and be killed instead of collecting garbage.
 *
 *     node langgraph-js-start.js <langgraph.json> <state directory> <toolchain directory> [<directory of the engine>]
 *
 * With the directory of the engine on PostgreSQL, the server of the toolchain runs on the database in `DATABASE_URI`.
 * Without a file it reads the variables that `langgraph build` writes into its Dockerfiles.
 */
const [givenFile = "", stateDir = "", toolchainDir = "", engineDir = null] = process.argv.slice(2);
const projectDir = givenFile === "" ? process.cwd() : path.dirname(givenFile);
if (engineDir !== null && !process.env["DATABASE_URI"]) throw new Error(withoutDatabase());
mkdirSync(stateDir, { recursive: true });
const options: LaunchOptions = {
  toolchainDir: (engineDir === null ? findServer(projectDir) : null) ?? toolchainDir,
  rootDir: "/",
  configFile: givenFile === "" ? writeConfig() : givenFile,
  engineDir,
  engineSchema: schemaOfEngine(),
  stateDir,
  listen: { host: process.env["HOST"] ?? "0.0.0.0", port: Number(process.env["PORT"] ?? 8000) },
  compileCacheDir: null,
  reportFile: null,
  exitCodeFile: null,
  nonce: "",
  drainTimeoutMs: Number(process.env["PIERHEAD_DRAIN_TIMEOUT_MS"] ?? 180_000),
};
const optionsFile = path.join(tmpdir(), "pierhead-launch.json");
writeFileSync(optionsFile, JSON.stringify(options));

const extension = path.extname(fileURLToPath(import.meta.url));
const shim = fileURLToPath(new URL(`../../process/langgraph/langgraph-js-shim${extension}`, import.meta.url));
const program = [process.execPath, ...heapFlags(), shim, optionsFile];
if (process.execve === undefined) throw new Error("this Node cannot replace its process (process.execve): use Node 24");
process.execve(process.execPath, program, process.env);

/** As in the process driver: deployments that name a database themselves may share it. */
function schemaOfEngine(): string {
  const id = process.env["LANGSMITH_HOST_PROJECT_ID"] ?? "";
  return process.env["POSTGRES_URI_CUSTOM"] && id !== "" ? `langgraph_${id.replaceAll("-", "")}` : "langgraph";
}

function withoutDatabase(): string {
  return "The engine postgres needs a PostgreSQL, and this deployment has none. Set POSTGRES_URI_CUSTOM among its variables, or give the server databases for agents and create the deployment again, or choose the engine file.";
}

/** Writes a langgraph.json from `LANGSERVE_GRAPHS` and its companions. Their paths are relative to the working directory. */
function writeConfig(): string {
  const read = (name: string) => JSON.parse(process.env[name] ?? "null") as Record<string, unknown> | null;
  const graphs = read("LANGSERVE_GRAPHS");
  if (graphs === null)
    throw new Error("LANGSERVE_GRAPHS is not set: build the image with `langgraph build` or `deploy`");
  const absolute = (value: unknown) => (typeof value === "string" ? path.resolve(value) : value);
  const [auth, http, ui, store] = ["LANGGRAPH_AUTH", "LANGGRAPH_HTTP", "LANGGRAPH_UI", "LANGGRAPH_STORE"].map(read);
  const withAbsolute = (value: unknown, key: string) =>
    typeof value === "object" && value !== null && key in value
      ? { ...value, [key]: absolute((value as Record<string, unknown>)[key]) }
      : value;
  const each = (values: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(values).map(([id, value]) => [id, withAbsolute(absolute(value), "path")]));
  const config = {
    graphs: each(graphs),
    auth: withAbsolute(auth, "path"),
    http: withAbsolute(http, "app"),
    ui: ui && each(ui),
    store,
  };
  const file = path.join(tmpdir(), "pierhead-langgraph.json");
  writeFileSync(
    file,
    JSON.stringify(config, (_, value) => value ?? undefined),
  );
  return file;
}

/** Prefers the project's own server, so that all packages exist once. Servers before version 1 cannot be started this way. */
function findServer(projectDir: string): string | null {
  try {
    const require = createRequire(path.join(projectDir, "package.json"));
    require.resolve("@langchain/langgraph-api/server");
    const file = require.resolve("@langchain/langgraph-api/package.json");
    const { version } = JSON.parse(readFileSync(file, "utf8")) as { version: string };
    return Number.parseInt(version, 10) >= 1 ? projectDir : null;
  } catch {
    return null;
  }
}

/** Same as in the process driver: three quarters for old objects, and 2 MiB semi-spaces, which save about 100 MiB. */
function heapFlags(): string[] {
  const limit = process.constrainedMemory();
  // Without a limit the number is 0 or larger than the memory of any machine.
  const isLimited = limit > 0 && limit < 2 ** 50;
  const heap = isLimited ? [`--max-old-space-size=${Math.floor((limit / 1024 / 1024) * 0.75)}`] : [];
  return ["--max-semi-space-size=2", ...heap];
}
