import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { sharedPackages } from "../../compute/process/langgraph/langgraph-js-packages.ts";
import { BuildFailure } from "../failure.ts";
import {
  type AgentServer,
  agentServers,
  apiPackage,
  fittingServers,
  misfitExitCode,
  misfitText,
  postgresServer,
} from "../node/agent-servers.ts";
import { updateLanggraph } from "../node/update-packages.ts";
import { stepContext } from "./step-context.ts";

/**
 * Runs while an image is built, after the project's packages are installed. The base image contains the newest LangGraph.js
 * server; this program replaces it when the project's packages need an older one, and checks that they work together. When no server
 * works with them, it updates the project's packages as far as package.json allows, as a build on the host does.
 *
 *     node fit-server.js <toolchain directory> <project directory> [postgres]
 *
 * With `postgres` the base image contains the server of the engine on PostgreSQL, and no other one is possible.
 */
async function main([toolchainDir = "", projectDir = "", engine]: string[]): Promise<number> {
  const isOnPostgres = engine === "postgres";
  if (!isOnPostgres && hasOwnServer(projectDir)) return 0;
  const servers = isOnPostgres ? [postgresServer] : agentServers;
  const packages = sharedPackages(existing(projectDir), "/");
  if (findServer(toolchainDir, projectDir, servers)) return 0;
  const sourceDir = process.cwd();
  const directory = path.relative(sourceDir, projectDir) || ".";
  const isUpdated = await updateLanggraph(stepContext(sourceDir), directory).catch((error: unknown) => {
    if (!(error instanceof BuildFailure)) throw error;
    console.error(error.message);
    return false;
  });
  if (isUpdated && findServer(toolchainDir, projectDir, servers)) return 0;
  const installed = Object.entries(packages).map(([name, { version }]) => `${name} ${version}`);
  const text = isOnPostgres ? misfitText : "No LangGraph.js server works with";
  console.error(`${text} ${installed.join(", ")}. Update them together.${isOnPostgres ? files : ""}`);
  return isOnPostgres ? misfitExitCode : 1;
}

const files =
  " Files, which begin without the threads of the database, are possible too: pierhead change NAME --engine file";

/** Installs the first server that works with the project's packages into the toolchain directory. @returns false: none works. */
function findServer(toolchainDir: string, projectDir: string, servers: readonly AgentServer[]): boolean {
  const packages = sharedPackages(existing(projectDir), "/");
  for (const { server, because } of fittingServers(packages, servers)) {
    console.log(`Using the LangGraph.js server ${server.version}: ${because}.`);
    if (installedVersion(toolchainDir) !== server.version && !install(toolchainDir, server)) return false;
    if (passesCheck(toolchainDir, existing(projectDir))) return true;
  }
  return false;
}

/** A project may be installed before the directory of its configuration is copied. */
function existing(directory: string): string {
  return existsSync(directory) ? directory : existing(path.dirname(directory));
}

function installedVersion(directory: string): string | null {
  try {
    const { version } = createRequire(path.join(directory, "package.json"))(`${apiPackage}/package.json`);
    return version;
  } catch {
    return null;
  }
}

/** As `langgraph-js-start` finds it: servers before version 1 cannot be started from outside. */
const hasOwnServer = (directory: string) => Number.parseInt(installedVersion(directory) ?? "0", 10) >= 1;

function install(directory: string, { manifest, lock }: AgentServer): boolean {
  for (const name of readdirSync(directory)) rmSync(path.join(directory, name), { recursive: true });
  writeFileSync(path.join(directory, "package.json"), JSON.stringify(manifest));
  writeFileSync(path.join(directory, "package-lock.json"), JSON.stringify(lock));
  return spawnSync("npm", ["install", "--ignore-scripts"], { cwd: directory, stdio: "inherit" }).status === 0;
}

function passesCheck(toolchainDir: string, projectDir: string): boolean {
  const stateDir = mkdtempSync(path.join(tmpdir(), "probe-"));
  mkdirSync(stateDir, { recursive: true });
  const extension = path.extname(fileURLToPath(import.meta.url));
  const probe = new URL(`../../compute/process/langgraph/langgraph-js-probe${extension}`, import.meta.url);
  const argv = [fileURLToPath(probe), toolchainDir, projectDir, "/", stateDir];
  return spawnSync(process.execPath, argv, { cwd: stateDir, stdio: "inherit", timeout: 120_000 }).status === 0;
}

process.exit(await main(process.argv.slice(2)));
