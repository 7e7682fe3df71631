import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { artifactManifestName } from "../cache/artifact.ts";
import { installOnce } from "../cache/install-once.ts";
import { moveWhole } from "../cache/move-atomically.ts";
import type { PythonProject } from "../detect/langgraph-config.ts";
import { BuildFailure } from "../failure.ts";
import { findProgram } from "../worker/environment.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { findPython, type Interpreter } from "./interpreter.ts";
import { keepLocalPackages, replaceInFiles } from "./local-packages.ts";
import { collectRequirements, type Requirements } from "./requirements.ts";
import { pythonServers, pythonServerVersion, serverPackages } from "./server.ts";
import { wantedPython } from "./wanted-version.ts";

/**
 * Returns the virtual environment of a project: the agent server and the project's dependencies, without the project itself.
 * Builds with equal requirements share one environment, so a change of code alone installs nothing.
 * @param artifactKey of this build; it names the environment if installing the requirements runs code of the project.
 * @returns its absolute directory
 * @throws BuildFailure `ToolchainFailed`, `InstallFailed`, `ConfigInvalid`
 */
export async function virtualEnvironment(
  context: BuildContext,
  project: PythonProject,
  artifactKey: string,
): Promise<string> {
  const uv = findUv(context, project);
  const interpreter = await findPython(context, await wantedPython(context, project), uv);
  const requirements = await collectRequirements(context, project);
  const tools = { interpreter, uv, pipConfigFile: project.python.pipConfigFile };
  const root = path.join(context.cacheDir, "python");
  const directory = path.join(root, await nameOf(context, requirements, tools, artifactKey));
  let isNew = false;
  await installOnce(context, directory, async () => {
    await removeUnused(root);
    await create(context, directory, requirements, tools);
    isNew = true;
  });
  if (!isNew) context.log.say("The dependencies are unchanged: reusing the environment of an earlier build.");
  await utimes(directory, new Date(), new Date());
  return directory;
}

interface Tools {
  interpreter: Interpreter;
  /** null: use pip. */
  uv: string | null;
  /** Relative to the root of the source. */
  pipConfigFile: string | null;
}

function findUv({ env }: BuildContext, { configPath, python }: PythonProject): string | null {
  const needs = python.installer === "uv" ? "pip_installer" : python.uvProject === null ? null : "source.kind";
  // Only pip reads pip's configuration file.
  if (needs === null && (python.installer === "pip" || python.pipConfigFile !== null)) return null;
  const uv = findProgram("uv", env["PATH"] ?? "");
  if (uv !== null || needs === null) return uv;
  throw new BuildFailure(
    "ToolchainFailed",
    `${configPath}: ${needs} requires uv, which is not on the PATH of this server. Install uv on the build host.`,
  );
}

async function nameOf(
  context: BuildContext,
  requirements: Requirements,
  tools: Tools,
  artifactKey: string,
): Promise<string> {
  const { interpreter, uv, pipConfigFile } = tools;
  const settings = Object.entries(context.env).filter(([name]) => /^(PIP|UV)_.*(INDEX|FIND_LINKS|CONFIG)/.test(name));
  const pipConfig =
    pipConfigFile === null ? null : await readFile(path.join(context.sourceDir, pipConfigFile), "utf8").catch(() => "");
  const what = [
    pythonServerVersion,
    interpreter,
    uv !== null,
    process.platform,
    process.arch,
    settings,
    pipConfig,
    requirements.cwd,
    requirements.identity,
    requirements.isShareable ? null : artifactKey,
  ];
  return createHash("sha256").update(JSON.stringify(what)).digest("hex").slice(0, 32);
}

/** Creates the environment in the work directory, where its size is limited and a killed build leaves nothing behind. */
async function create(
  context: BuildContext,
  directory: string,
  requirements: Requirements,
  tools: Tools,
): Promise<void> {
  const { interpreter, uv } = tools;
  const workDir = path.dirname(context.sourceDir);
  const draft = path.join(workDir, "environment");
  context.log.say(`Creating an environment with Python ${interpreter.version} and ${uv === null ? "pip" : "uv"}.`);
  await rm(draft, { recursive: true, force: true });
  const made =
    uv === null
      ? [interpreter.python, "-m", "venv", draft]
      : [uv, "venv", "--quiet", "--python", interpreter.python, draft];
  const shown = uv === null ? ["python", "-m", "venv"] : ["uv", "venv"];
  await runCommand(context, { argv: made, shown, cwd: ".", env: {} }, "ToolchainFailed");
  await install(context, draft, requirements, tools);
  await keepLocalPackages(draft, context.sourceDir);
  await replaceInFiles(path.join(draft, "bin"), draft, directory);
  await moveTo(context, draft, directory);
}

/** Installs the project's dependencies with the newest agent server that works with them (install.py). */
async function install(context: BuildContext, draft: string, requirements: Requirements, tools: Tools): Promise<void> {
  const workDir = path.dirname(context.sourceDir);
  const python = path.join(draft, "bin", "python");
  const servers = path.join(workDir, "agent-servers.json");
  await writeFile(servers, JSON.stringify(pythonServers));
  const options = {
    servers,
    serverPackages,
    installer:
      tools.uv === null
        ? [python, "-m", "pip", "install", "--use-pep517"]
        : [tools.uv, "pip", "install", "--python", python, "--compile-bytecode"],
    lock: requirements.lock === null ? null : path.join(context.sourceDir, requirements.lock),
    check: [python, "-P", ownFile(probeProgram), ownFile(shimProgram)],
    checkedDir: path.join(context.cacheDir, "toolchains", "checked"),
  };
  const argv = [python, "-P", ownFile("./install.py"), JSON.stringify(options), "--", ...requirements.argv];
  const shown = [...(tools.uv === null ? [] : ["uv"]), "pip", "install", ...serverPackages, ...requirements.argv];
  const env =
    tools.pipConfigFile === null ? {} : { PIP_CONFIG_FILE: path.join(context.sourceDir, tools.pipConfigFile) };
  await runCommand(context, { argv, shown, cwd: requirements.cwd, env }, "InstallFailed");
}

const shimProgram = "../../compute/process/langgraph/langgraph-python-shim.py";
const probeProgram = "../../compute/process/langgraph/langgraph-python-probe.py";

const ownFile = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));

async function moveTo(context: BuildContext, draft: string, directory: string): Promise<void> {
  await mkdir(path.dirname(directory), { recursive: true, mode: 0o700 });
  try {
    await moveWhole(draft, directory, context);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EXDEV") throw error;
    const near = `${directory}.unfinished`;
    await rm(near, { recursive: true, force: true });
    await promisify(execFile)("cp", ["-RP", "--", draft, near], { env: context.env, signal: context.signal });
    await moveWhole(near, directory, context);
  }
}

/** Directory in an environment with one file per artifact that uses it. Each file contains the path of the artifact. */
const usersName = "pierhead-users";

/** Records that an artifact uses an environment, which is then kept as long as the artifact exists. */
export async function noteUser(environmentDir: string, artifactDir: string): Promise<void> {
  const users = path.join(environmentDir, usersName);
  await mkdir(users, { recursive: true, mode: 0o700 });
  await writeFile(path.join(users, createHash("sha256").update(artifactDir).digest("hex")), artifactDir);
}

/** Time to keep an environment that no artifact uses, because a running build or the next change of code may need it. */
const unusedKeptMs = 24 * 3_600_000;

async function removeUnused(root: string): Promise<void> {
  for (const name of await readdir(root).catch(() => [])) {
    const directory = path.join(root, name);
    const found = await stat(directory).catch(() => null);
    if (found === null || !found.isDirectory() || Date.now() - found.mtimeMs < unusedKeptMs) continue;
    if (!(await isUsed(directory))) await rm(directory, { recursive: true, force: true });
  }
}

async function isUsed(directory: string): Promise<boolean> {
  const users = path.join(directory, usersName);
  for (const name of await readdir(users).catch(() => [])) {
    const artifactDir = await readFile(path.join(users, name), "utf8");
    if ((await stat(path.join(artifactDir, artifactManifestName)).catch(() => null)) !== null) return true;
  }
  return false;
}
