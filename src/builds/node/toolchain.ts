import { createHash } from "node:crypto";
import { mkdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";
import {
  type InstalledPackage,
  type SharedName,
  sharedPackages,
} from "../../compute/process/langgraph/langgraph-js-packages.ts";
import { installOnce } from "../cache/install-once.ts";
import { moveWhole } from "../cache/move-atomically.ts";
import { BuildFailure } from "../failure.ts";
import { programOutput } from "../worker/program-output.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { type AgentServer, agentServers, apiPackage, fittingServers, postgresServer } from "./agent-servers.ts";
import { copyEngine, engineDigest } from "./postgres-engine.ts";
import { updateLanggraph } from "./update-packages.ts";

/** Names all servers that a project may get, so that artifacts are built again when one changes. */
export const toolchainVersion = `${agentServers[0]?.version}-${createHash("sha256")
  .update([...[...agentServers, postgresServer].map(({ id }) => id), engineDigest].join())
  .digest("hex")
  .slice(0, 12)}`;

type Packages = Partial<Record<SharedName, InstalledPackage>>;

/**
 * Returns the directory whose node_modules contains the LangGraph.js server for a project. If the project depends on the
 * server itself, that is the project, so that all packages exist once. Otherwise it is a directory shared by all builds,
 * with the newest server that works with what the project has installed.
 * @param graphDir directory of the first graph; its packages are found from there upwards, within the source
 * @throws BuildFailure `ToolchainFailed` when no server works with the project's packages
 */
export async function langgraphToolchain(
  context: BuildContext,
  { projectDir, graphDir, engine }: { projectDir: string; graphDir: string; engine: "file" | "postgres" },
): Promise<string> {
  // The engine needs packages beside the server, so it brings one of its own.
  const own = engine === "file" ? await ownServerVersion(projectDir) : null;
  const servers = engine === "file" ? agentServers : [postgresServer];
  if (own !== null) {
    context.log.say(`The project includes ${apiPackage} ${own}.`);
    return projectDir;
  }
  const found = await findServer(context, graphDir, servers);
  if ("directory" in found) return found.directory;
  const { packages, problem } = found;
  const isUpdated = await updateLanggraph(context, path.relative(context.sourceDir, projectDir) || ".");
  const again = isUpdated ? await findServer(context, graphDir, servers) : found;
  if ("directory" in again) return again.directory;
  throw misfit(packages, problem, servers);
}

/** Returns the directory of the server on PostgreSQL; null when it does not work with the project's packages. */
export async function findPostgresToolchain(context: BuildContext, graphDir: string): Promise<string | null> {
  const found = await findServer(context, graphDir, [postgresServer]);
  return "directory" in found ? found.directory : null;
}

/** Tries the servers that fit the project's packages, the best first. */
async function findServer(
  context: BuildContext,
  graphDir: string,
  servers: readonly AgentServer[],
): Promise<{ directory: string } | { packages: Packages; problem: string }> {
  const packages = sharedPackages(graphDir, context.sourceDir);
  const problems: string[] = [];
  for (const { server, because } of fittingServers(packages, servers)) {
    context.log.say(`Using the LangGraph.js server ${server.version}: ${because}.`);
    const directory = await installServer(context, server);
    const problem = await check(context, { server, directory, packages, graphDir });
    if (problem === null) return { directory };
    context.log.say(`The LangGraph.js server ${server.version} does not work with the project: ${problem}`);
    problems.push(problem);
  }
  return { packages, problem: problems[0] ?? "" };
}

function misfit(packages: Packages, problem: string, servers: readonly AgentServer[]): BuildFailure {
  const installed = Object.entries(packages).map(([name, { version }]) => `${name} ${version}`);
  const [newest, oldest] = [servers[0], servers.at(-1)].map((server) => server?.peers["@langchain/langgraph"]);
  const ranges = servers.length === 1 ? `${oldest} on PostgreSQL` : `${oldest} and ${newest}`;
  return new BuildFailure(
    "ToolchainFailed",
    `No LangGraph.js server works with ${installed.join(", ")}: ${problem}. Update them together, for example with \`npm install @langchain/langgraph@latest @langchain/core@latest\`, and deploy again. Servers exist for @langchain/langgraph ${ranges}.${servers.length === 1 ? " Files, which begin without the threads of the database, are possible too: pierhead change NAME --engine file" : ""}`,
  );
}

async function installServer(context: BuildContext, server: AgentServer): Promise<string> {
  const name = server === postgresServer ? `postgres-${server.id}-${engineDigest}` : server.id;
  const directory = path.join(context.cacheDir, "toolchains", `langgraph-js-${name}`);
  await installOnce(context, directory, () => install(context, directory, server));
  return directory;
}

/** `npm ci` rejects a lock file in which npm on another platform omitted optional packages; `npm install` adds them. */
const installArgv = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"];

async function install(context: BuildContext, directory: string, server: AgentServer): Promise<void> {
  context.log.say(`Installing ${apiPackage} ${server.version}, once for all agents of this server.`);
  const unfinished = `${directory}.unfinished`;
  await rm(unfinished, { recursive: true, force: true });
  await mkdir(unfinished, { recursive: true });
  await writeFile(path.join(unfinished, "package.json"), JSON.stringify(server.manifest, null, 2));
  await writeFile(path.join(unfinished, "package-lock.json"), JSON.stringify(server.lock, null, 2));
  await runCommand({ ...context, sourceDir: unfinished }, { argv: installArgv, cwd: ".", env: {} }, "ToolchainFailed");
  if (server === postgresServer) await copyEngine(engineDirOf(unfinished));
  await moveWhole(unfinished, directory, context).catch(async (error: unknown) => {
    if ((await stat(directory).catch(() => null)) === null) throw error;
  });
}

/** Directory of the engine on PostgreSQL in its toolchain. */
export const engineDirOf = (toolchainDir: string) => path.join(toolchainDir, "engine");

/** Longer than the slowest start of a server on a loaded machine. */
const checkTimeoutMs = 120_000;

/**
 * Runs a graph of our own in the server with the project's packages, before any traffic: two runs on one thread. Equal
 * versions are checked once per cache directory.
 * @returns why they do not work together; null when they do.
 */
async function check(
  context: BuildContext,
  pair: { server: AgentServer; directory: string; packages: Packages; graphDir: string },
): Promise<string | null> {
  const { server, directory, packages, graphDir } = pair;
  const { cacheDir, sourceDir, env, log, signal } = context;
  const versions = Object.entries(packages).map(([name, { version }]) => `${name}@${version}`);
  const what = [server.id, process.version, ...versions.sort()];
  const name = createHash("sha256").update(JSON.stringify(what)).digest("hex").slice(0, 32);
  const passed = path.join(cacheDir, "toolchains", "checked", name);
  if ((await stat(passed).catch(() => null)) !== null) {
    await utimes(passed, new Date(), new Date());
    return null;
  }
  log.say("Checking that the server works with the project's packages: two runs on one thread.");
  const stateDir = path.join(path.dirname(sourceDir), "probe");
  await rm(stateDir, { recursive: true, force: true });
  await mkdir(stateDir);
  const extension = path.extname(fileURLToPath(import.meta.url));
  const probe = `../../compute/process/langgraph/langgraph-js-probe${extension}`;
  const { hasFailed, stdout, stderr } = await programOutput(
    process.execPath,
    [fileURLToPath(new URL(probe, import.meta.url)), directory, graphDir, sourceDir, stateDir],
    { cwd: stateDir, env, timeoutMs: checkTimeoutMs, signal },
  );
  const last = stdout.trim().split("\n").at(-1) ?? "";
  if (hasFailed) return last || stderr.trim().split("\n").at(-1) || "it ended without a reason";
  await mkdir(path.dirname(passed), { recursive: true });
  await writeFile(passed, `${what.join("\n")}\n`);
  return null;
}

/** Returns the version of the project's own server. @returns null when it has none, or one too old to start from outside. */
async function ownServerVersion(projectDir: string): Promise<string | null> {
  try {
    const require = createRequire(path.join(projectDir, "package.json"));
    require.resolve(`${apiPackage}/server`);
    const found: unknown = JSON.parse(await readFile(require.resolve(`${apiPackage}/package.json`), "utf8"));
    const { version } = found as { version: string };
    return Number.parseInt(version, 10) >= 1 ? version : null;
  } catch {
    return null;
  }
}
