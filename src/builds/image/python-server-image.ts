import path from "node:path";
import { stateMount } from "../../compute/docker/replicas/container.ts";
import type { BaseImages } from "../build.ts";
import { showCommand } from "../detect/command-line.ts";
import { findServerRequirements } from "../python/server-requirements.ts";
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
  const { directory } = project;
  const requirements = await findServerRequirements(context, project, null);
  context.log.say(requirements.because);
  const wanted = await moveRequirements(requirements.argv, context);
  const certificates = await readCertificates(context.env);
  if (certificates !== null) await writeExtra(context.sourceDir, "certificates.pem", certificates);
  const hasExtra = certificates !== null || wanted.some((argument) => argument.startsWith(ownDir));
  const pip = ["python", "-m", "pip", "install", "--no-cache-dir", ...wanted];
  const runs = { shown: showCommand(["pip", "install", ...wanted]), reason: "InstallFailed" as const };
  const importDirs = [directory, path.posix.join(directory, "src")].map((one) => path.posix.join(appDir, one));
  return [
    plain(`FROM ${target.pythonImage.replaceAll("{version}", await imageVersion(context, project))}`),
    plain(label),
    plain(`RUN ${JSON.stringify(["python", "-c", makeState])}`),
    ...(hasExtra ? [plain(`COPY ${JSON.stringify([`${contextExtra}/`, `${ownDir}/`])}`)] : []),
    plain("ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1"),
    ...(certificates === null ? [] : trustInstructions),
    plain(`COPY ${JSON.stringify([`${contextSource}/`, `${appDir}/`])}`),
    ...(wanted.length === 0 ? [] : [workdir(requirements.cwd), { text: `RUN ${JSON.stringify(pip)}`, runs }]),
    ...build.flatMap(({ argv, cwd, reason }) => [
      workdir(cwd),
      { text: `RUN ${JSON.stringify(argv)}`, runs: { shown: showCommand(argv), reason } },
    ]),
    workdir(directory),
    plain(`ENV HOME=${stateMount} PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1`),
    plain(`ENV PYTHONPATH=${JSON.stringify(importDirs.join(":"))}`),
    plain(`USER ${agentUser}`),
    plain(`CMD ${JSON.stringify(await planStart(context.sourceDir, project))}`),
  ];
}
