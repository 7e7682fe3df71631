import { readFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { stateMount } from "../../compute/docker/replicas/container.ts";
import type { BaseImages } from "../build.ts";
import { showCommand } from "../detect/command-line.ts";
import { gitVersionVariables } from "../python/git-version.ts";
import type { ServerRequirements } from "../python/python-requirements.ts";
import {
  olderSetuptools,
  packagingErrors,
  sayGivenUp,
  sayWithoutProject,
  unbuildable,
  unsolvable,
} from "../python/server-environment.ts";
import { findServerRequirements } from "../python/server-requirements.ts";
import { toolLauncher, toolName } from "../python/tool-environment.ts";
import { uvRequirement } from "../python/uv.ts";
import type { PythonServer } from "../python/wanted-version.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { type ImageCommand, planStart } from "./commands.ts";
import { agentUser, appDir, contextSource, type Instruction, ownDir, plain, workdir } from "./dockerfile.ts";
import { readCertificates } from "./make-base.ts";
import {
  contextExtra,
  imageVersion,
  makeState,
  moveRequirements,
  trustInstructions,
  writeExtra,
} from "./python-image.ts";

/**
 * Generates the Dockerfile of a Python server that is not a LangGraph agent: Python, the project's dependencies, the project.
 * @throws BuildFailure `ConfigInvalid`
 */
export async function pythonServerInstructions(
  target: BaseImages,
  {
    project,
    build,
    context,
    label,
  }: { project: PythonServer; build: ImageCommand[]; context: BuildContext; label: string },
): Promise<Instruction[]> {
  const { directory, startDirectory = directory } = project;
  const requirements = await findServerRequirements(context, project, null);
  const install = requirements.argv.length === 0 ? null : await installCommandOf(requirements, context, directory);
  const certificates = await readCertificates(context.env);
  if (certificates !== null) await writeExtra(context.sourceDir, "certificates.pem", certificates);
  const hasExtra = certificates !== null || install !== null;
  const above = project.importsFrom === undefined ? [] : [project.importsFrom];
  const importDirs = [startDirectory, path.posix.join(startDirectory, "src"), ...above].map((one) =>
    path.posix.join(appDir, one),
  );
  return [
    plain(`FROM ${target.pythonImage.replaceAll("{version}", await imageVersion(context, project))}`),
    plain(label),
    plain(`RUN ${JSON.stringify(["python", "-c", makeState])}`),
    ...(hasExtra ? [plain(`COPY ${JSON.stringify([`${contextExtra}/`, `${ownDir}/`])}`)] : []),
    plain("ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1"),
    ...(certificates === null ? [] : trustInstructions),
    plain(`COPY ${JSON.stringify([`${contextSource}/`, `${appDir}/`])}`),
    ...(install === null ? [] : [workdir(requirements.cwd), install]),
    ...installTools(project.python.tools ?? []),
    ...build.flatMap(({ argv, cwd, reason }) => [
      workdir(cwd),
      { text: `RUN ${JSON.stringify(argv)}`, runs: { shown: showCommand(argv), reason } },
    ]),
    ...afterBuild(project),
    workdir(startDirectory),
    plain(`ENV HOME=${stateMount} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1`),
    plain(`ENV PYTHONPATH=${JSON.stringify(importDirs.join(":"))}`),
    plain(`USER ${agentUser}`),
    plain(`CMD ${JSON.stringify(await planStart(context.sourceDir, project))}`),
  ];
}

const installProgram = "install-server.py";
const installPrograms = [installProgram, "kept_versions.py"];

/** Returns the instruction that installs the packages, with the repairs of a build without an engine (install-server.py). */
async function installCommandOf(
  requirements: ServerRequirements,
  context: BuildContext,
  directory: string,
): Promise<Instruction> {
  for (const name of installPrograms) {
    const file = fileURLToPath(new URL(`../python/${name}`, import.meta.url));
    await writeExtra(context.sourceDir, name, await readFile(file, "utf8"));
  }
  const attemptOf = async ({ argv, withoutProject, because, mayBeOutdated }: ServerRequirements) => ({
    argv: await moveRequirements(argv, context),
    withoutProject: withoutProject && (await moveRequirements(withoutProject, context)),
    because,
    mayBeOutdated,
  });
  const attempts = [await attemptOf(requirements)];
  for (let before = requirements, next = await nextOf(before); next !== null; before = next, next = await nextOf(next))
    attempts.push(await attemptOf({ ...next, because: `${sayGivenUp(before)} ${next.because}` }));
  const options = {
    installer: ["python", "-m", "pip", "install", "--no-cache-dir", "--use-pep517", "--root-user-action=ignore"],
    attempts,
    uv: uvRequirement,
    unsolvable: unsolvable.source,
    packaging: packagingErrors.source,
    sayWithoutProject,
    olderSetuptools,
    unbuildable: unbuildable.source,
  };
  const isOwn = requirements.argv.includes("--editable");
  const variables = isOwn ? await gitVersionVariables(context, [directory]) : {};
  const env = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
  const program = ["python", "-P", `${ownDir}/${installProgram}`, JSON.stringify(options)];
  const shown = showCommand(["pip", "install", ...(options.attempts[0]?.argv ?? [])]);
  return {
    text: `RUN ${JSON.stringify([...(env.length === 0 ? [] : ["env", ...env]), ...program])}`,
    runs: { shown, reason: "InstallFailed" },
  };
}

const nextOf = async ({ unlocked }: ServerRequirements) => (await unlocked?.("python", [])) ?? null;

const toolDir = `${ownDir}/tools`;

/** Installs programs in an environment of their own, and starts them from a directory of the PATH. */
function installTools(tools: readonly string[]): Instruction[] {
  if (tools.length === 0) return [];
  const pip = [`${toolDir}/bin/python`, "-m", "pip", "install", "--no-cache-dir", ...tools];
  const launchers = Object.fromEntries(
    tools.map(toolName).map((name) => [`/usr/local/bin/${name}`, toolLauncher(toolDir, name)]),
  );
  const write = `import os\nfor name, text in ${JSON.stringify(launchers)}.items():\n    open(name, "w").write(text)\n    os.chmod(name, 0o755)`;
  return [
    plain(`RUN ${JSON.stringify(["python", "-m", "venv", toolDir])}`),
    {
      text: `RUN ${JSON.stringify(pip)}`,
      runs: { shown: showCommand(["pip", "install", ...tools]), reason: "ToolchainFailed" },
    },
    plain(`RUN ${JSON.stringify(["python", "-c", write])}`),
  ];
}

/** As in builds without an engine, the failure of this command does not fail the build: the server may not need it. */
function afterBuild({ afterBuild: argv, directory }: PythonServer): Instruction[] {
  if (argv === undefined) return [];
  const shown = showCommand(argv);
  const text = `RUN ${JSON.stringify(["sh", "-c", `${shown} || echo 'Note: this command failed. The build goes on without it.'`])}`;
  return [workdir(directory), { text, runs: { shown, reason: "BuildFailed" } }];
}
