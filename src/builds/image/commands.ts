import path from "node:path";
import { agentPort } from "../../compute/docker/replicas/container.ts";
import type { BuildRequest } from "../build.ts";
import { type Command, parseCommandLine } from "../detect/command-line.ts";
import type { CommandProject } from "../detect/pierhead-config.ts";
import type { Project } from "../detect/project.ts";
import type { BuildFailureReason } from "../failure.ts";
import { installCommand } from "../node/install-command.ts";
import { readManifests } from "../node/npm-ci.ts";
import { isScript, scriptCommand, scriptName } from "../node/run-script.ts";

/** A program that runs while an image is built, with the reason of its failure. */
export interface ImageCommand extends Command {
  reason: BuildFailureReason;
}

/** The commands that install a project's dependencies; `manifests`: the only files they depend on, null: all files. */
export interface InstallPlan {
  commands: ImageCommand[];
  manifests: string[] | null;
  because: string;
}

/** Selects the same commands as a build without an engine (docs/reference/builds.md), for an image that has only npm. */
export async function planInstall(request: BuildRequest, sourceDir: string, project: Project): Promise<InstallPlan> {
  const reason = "InstallFailed" as const;
  if (request.installCommand !== null) {
    const commands = parseCommandLine(request.installCommand, { cwd: ".", what: "install command" });
    return { commands: commands.map((command) => ({ ...command, reason })), manifests: null, because: "" };
  }
  const nothing = { commands: [], manifests: null };
  if (project.kind === "command" && project.install === null) {
    return { ...nothing, because: "A pierhead.json lists its commands under build." };
  }
  const directory = request.buildCommand === null ? project.directory : ".";
  const command = await installCommand(sourceDir, directory, "");
  if (command === null) return { ...nothing, because: `There is no package.json in ${directory}.` };
  const isNpmCi = command.argv.join(" ") === "npm ci";
  return {
    commands: [{ ...command, reason }],
    manifests: isNpmCi ? await manifestsOf(sourceDir, directory) : null,
    because: command.because,
  };
}

export async function planBuild(request: BuildRequest, sourceDir: string, project: Project): Promise<ImageCommand[]> {
  const reason = "BuildFailed" as const;
  const cwd = project.directory;
  if (request.buildCommand !== null) {
    const commands = parseCommandLine(request.buildCommand, { cwd, what: "build command" });
    return commands.map((command) => ({ ...command, reason }));
  }
  if (project.kind !== "command") return [];
  const commands = project.build.map(async (given) => {
    const argv = isScript(given)
      ? await scriptCommand(sourceDir, cwd, { argv: given, searchPath: "" })
      : ofPackages(project, given);
    return { argv, cwd, env: {}, reason };
  });
  return Promise.all(commands);
}

/** Returns the start command of an image, whose address is the same in every engine. */
export function planStart(project: CommandProject): string[] {
  const { start } = project;
  const argv = isScript(start) ? ["npm", "run", scriptName(start)] : ofPackages(project, start);
  const known: Record<string, string> = { PORT: String(agentPort), HOST: "0.0.0.0" };
  return argv.map((word) => word.replaceAll(/\$(PORT|HOST)\b/g, (_all, name: string) => known[name] ?? ""));
}

/** npm finds a program of the project's packages, which are only in the image. */
function ofPackages({ recognized, install }: CommandProject, argv: string[]): string[] {
  const isPlain = recognized === undefined || install !== "node" || argv[0] === "node" || argv[0] === "npm";
  return isPlain ? argv : ["npm", "exec", "--no", "--", ...argv];
}

/**
 * Returns null when more than these files decides what npm installs, or when a Dockerfile would interpret the path
 * differently.
 */
async function manifestsOf(sourceDir: string, directory: string): Promise<string[] | null> {
  if (/[*?[\]\\$]/.test(directory)) return null;
  const manifests = await readManifests(path.join(sourceDir, directory));
  return manifests?.map(([name]) => path.posix.join(directory, name)) ?? null;
}
