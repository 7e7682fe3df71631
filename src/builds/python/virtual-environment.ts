import { execFile } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rm, stat, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
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
import { pythonServerVersion, serverPackages, serverPins } from "./server.ts";

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
  const interpreter = await findPython(context, project.python.version, uv);
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

/** Which tested versions are pinned, from all to none. The project's own pins take precedence, and the log reports this. */
const strictness = [
  { pinned: Object.keys(serverPins), because: "" },
  {
    pinned: serverPackages,
    because:
      "The project pins other versions than those the agent server is tested with: using the project's versions.",
  },
  { pinned: [], because: "The project pins another version of the agent server: using that version." },
];

async function install(context: BuildContext, draft: string, requirements: Requirements, tools: Tools): Promise<void> {
  const constraints = path.join(path.dirname(context.sourceDir), "constraints.txt");
  const python = path.join(draft, "bin", "python");
  const installer =
    tools.uv === null
      ? [python, "-m", "pip", "install", "--use-pep517"]
      : [tools.uv, "pip", "install", "--python", python, "--compile-bytecode"];
  const wanted = [...serverPackages, ...requirements.argv];
  const argv = [...installer, "--constraint", constraints, ...wanted];
  const shown = [...(tools.uv === null ? [] : ["uv"]), "pip", "install", ...wanted];
  const env =
    tools.pipConfigFile === null ? {} : { PIP_CONFIG_FILE: path.join(context.sourceDir, tools.pipConfigFile) };
  const namesServer = /langgraph[-_](api|cli|runtime)/i.test(
    JSON.stringify([requirements.argv, requirements.identity]),
  );
  const levels = strictness.filter(({ pinned }) => pinned.length > 0 || namesServer);
  for (const [at, { pinned, because }] of levels.entries()) {
    if (because !== "") context.log.say(because);
    await writeFile(constraints, pinned.map((name) => `${name}==${serverPins[name]}\n`).join(""));
    try {
      return await runCommand(context, { argv, shown, cwd: requirements.cwd, env }, "InstallFailed");
    } catch (error) {
      const isConflict = context.log.lastLines(30).some((line) => /ResolutionImpossible|No solution found/.test(line));
      if (at === levels.length - 1 || !isConflict) throw error;
    }
  }
}

async function moveTo(context: BuildContext, draft: string, directory: string): Promise<void> {
  await mkdir(path.dirname(directory), { recursive: true });
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
  await mkdir(users, { recursive: true });
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
