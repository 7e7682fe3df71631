import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import type { PythonProject } from "../detect/langgraph-config.ts";
import { BuildFailure, ProgramFailure } from "../failure.ts";
import { type BuildContext, runCommand } from "../worker/run-command.ts";
import { type EnginePackages, packagesOf } from "./engine-packages.ts";
import { gitVersionVariables } from "./git-version.ts";
import { withFittingPython } from "./interpreter.ts";
import { collectRequirements, type Requirements } from "./requirements.ts";
import { choicesName, type EnvironmentTools, makeEmptyEnvironment, sharedEnvironment } from "./shared-environment.ts";
import { findOrInstallUv, type Uv, uvRequirement, uvSettingsOf } from "./uv.ts";
import { wantedPython } from "./wanted-version.ts";

/**
 * Returns the virtual environment of a project: the agent server and the project's dependencies, without the project itself.
 * Builds with equal requirements share one environment, so a change of code alone installs nothing.
 * @param artifactKey of this build; it names the environment if installing the requirements runs code of the project.
 * @returns its absolute directory
 * @throws BuildFailure `ToolchainFailed`, `InstallFailed`, `ConfigInvalid`
 */
export async function virtualEnvironment(
  given: BuildContext,
  project: PythonProject,
  artifactKey: string,
): Promise<string> {
  const { uv, context } = await findUv(given, project);
  const server = packagesOf(project.engine);
  const wanted = server.fitPython(await wantedPython(context, project), project);
  const requirements = await collectRequirements(context, project, uv);
  const { pipConfigFile } = project.python;
  const { cwd, identity, isShareable } = requirements;
  const settings = uv === null ? null : await uvSettingsOf(context, cwd);
  const what = [
    server.version,
    await pipConfigOf(context, pipConfigFile),
    cwd,
    identity,
    isShareable ? null : artifactKey,
    ...(settings === null ? [] : [settings]),
  ];
  return withFittingPython(context, { wanted, uv }, (interpreter) => {
    const tools = {
      interpreter,
      uv,
      pipConfigFile,
      packageDirs: [project.directory, ...project.python.localDirs],
      server,
    };
    return sharedEnvironment(context, tools, what, async (draft) => {
      await makeEmptyEnvironment(context, tools, draft);
      await install(context, draft, requirements, tools);
    });
  });
}

interface Tools extends EnvironmentTools {
  /** Relative to the root of the source. */
  pipConfigFile: string | null;
  /** Directories of the project's own packages, relative to the root of the source. */
  packageDirs: readonly string[];
  server: Pick<EnginePackages, "servers" | "packages" | "check">;
}

async function findUv(given: BuildContext, { configPath, python }: PythonProject): Promise<Uv> {
  const needs = python.installer === "uv" ? "pip_installer" : python.uvProject === null ? null : "source.kind";
  // Only pip reads pip's configuration file.
  if (needs === null && (python.installer === "pip" || python.pipConfigFile !== null))
    return { uv: null, context: given };
  const found = await findOrInstallUv(given);
  if (found.uv !== null || needs === null) return found;
  throw new BuildFailure(
    "ToolchainFailed",
    `${configPath}: ${needs} requires uv, which is neither on the PATH of this server nor in its package index. Install uv on the build host.`,
  );
}

/** Returns what pip's configuration file of the project says: where packages come from is a part of what they are. */
async function pipConfigOf({ sourceDir }: BuildContext, pipConfigFile: string | null): Promise<string | null> {
  return pipConfigFile === null ? null : readFile(path.join(sourceDir, pipConfigFile), "utf8").catch(() => "");
}

/** Installs the project's dependencies with the newest agent server that works with them (install.py). */
async function install(context: BuildContext, draft: string, requirements: Requirements, tools: Tools): Promise<void> {
  const workDir = path.dirname(context.sourceDir);
  const python = path.join(draft, "bin", "python");
  const servers = path.join(workDir, "agent-servers.json");
  await writeFile(servers, JSON.stringify(tools.server.servers));
  const options = {
    servers,
    serverPackages: tools.server.packages,
    installer:
      tools.uv === null
        ? [python, "-m", "pip", "install", "--use-pep517"]
        : [tools.uv, "pip", "install", "--python", python, "--compile-bytecode"],
    lock: requirements.lock === null ? null : path.join(context.sourceDir, requirements.lock),
    uv: uvRequirement,
    choices: path.join(draft, choicesName),
    check: [python, "-P", ...tools.server.check.map((program) => ownFile(`../../${program}`))],
    checkedDir: path.join(context.cacheDir, "toolchains", "checked"),
  };
  const argv = [python, "-P", ownFile("./install.py"), JSON.stringify(options), "--", ...requirements.argv];
  const shown = [
    ...(tools.uv === null ? [] : ["uv"]),
    "pip",
    "install",
    ...tools.server.packages,
    ...requirements.argv,
  ];
  const env = {
    ...(await gitVersionVariables(context, tools.packageDirs)),
    ...(tools.pipConfigFile === null ? {} : { PIP_CONFIG_FILE: path.join(context.sourceDir, tools.pipConfigFile) }),
  };
  try {
    await runCommand(context, { argv, shown, cwd: requirements.cwd, env }, "InstallFailed");
  } catch (error) {
    const [because] = context.log.lastLines(1);
    if (!(error instanceof ProgramFailure) || error.exitCode !== explainedExitCode || because === undefined)
      throw error;
    throw new ProgramFailure(error.reason, `${because}\n${error.message}`, error.exitCode);
  }
}

/** As in install.py: its last line says what is wrong and what to do. */
const explainedExitCode = 3;

const ownFile = (relative: string) => fileURLToPath(new URL(relative, import.meta.url));
