import path from "node:path";
import { agentPort } from "../../compute/docker/replicas/container.ts";
import type { BuildRequest } from "../build.ts";
import { type Command, parseCommandLine } from "../detect/command-line.ts";
import type { CommandProject } from "../detect/pierhead-config.ts";
import type { Project } from "../detect/project.ts";
import type { BuildFailureReason } from "../failure.ts";
import { installCommand } from "../node/install-command.ts";
import { launchLine } from "../node/launch-line.ts";
import { readManifests } from "../node/npm-ci.ts";
import { hostVariables } from "../node/preloads.ts";
import {
  beforeCommand,
  isScript,
  joinManaged,
  managedStart,
  scriptCommand,
  scriptName,
  shownCommand,
  startCommand,
} from "../node/run-script.ts";
import { startsBuiltFile } from "../node/start-file.ts";

/** A step of a JavaScript project's build in an image: arguments of `project-steps`. */
export interface ImageStep {
  step: "install" | "install-with" | "siblings" | "build" | "build-if-possible" | "build-with" | "start-file";
  /** Of the project, relative to the root of the source. */
  directory: string;
  rest: string[];
  /** The program of the project, for messages. */
  shown: string[];
  reason: BuildFailureReason;
}

/** The steps that install a project's dependencies; `manifests`: the only files they depend on, null: all files. */
export interface InstallPlan {
  steps: ImageStep[];
  manifests: string[] | null;
  because: string;
}

/** Plans the installation of a build without an engine (docs/reference/builds.md). */
export async function planInstall(request: BuildRequest, sourceDir: string, project: Project): Promise<InstallPlan> {
  const reason = "InstallFailed" as const;
  const { installCommand: line } = request;
  if (line !== null) {
    parseCommandLine(line, { cwd: ".", what: "install command" });
    const step: ImageStep = { step: "install-with", directory: ".", rest: [line], shown: line.split(" "), reason };
    return { steps: [step], manifests: null, because: "" };
  }
  const nothing = { steps: [], manifests: null };
  if (project.kind === "command" && project.install === null) {
    return {
      ...nothing,
      because: project.recognized === undefined ? "A pierhead.json lists its commands under build." : "",
    };
  }
  const directory = request.buildCommand === null ? project.directory : ".";
  const command = await installCommand(sourceDir, directory, "");
  if (command === null) return { ...nothing, because: `There is no package.json in ${directory}.` };
  const isNpmCi = command.argv.join(" ") === "npm ci";
  return {
    steps: [{ step: "install", directory, rest: [], shown: command.argv, reason }],
    manifests: isNpmCi ? await manifestsOf(sourceDir, directory) : null,
    because: "",
  };
}

/**
 * Plans the build after the installation.
 * @param mayHaveSiblings whether packages of the project may be directories of the source.
 */
export function planBuild(
  { buildCommand: line }: BuildRequest,
  project: Project,
  { mayHaveSiblings }: { mayHaveSiblings: boolean },
): ImageStep[] {
  const { directory } = project;
  const common = { directory, reason: "BuildFailed" } as const;
  if (line !== null) {
    parseCommandLine(line, { cwd: directory, what: "build command" });
    return [{ ...common, step: "build-with", rest: [line], shown: line.split(" ") }];
  }
  const isGiven = project.kind === "command" && project.install !== "node";
  const siblings: ImageStep = { ...common, step: "siblings", rest: [], shown: ["build", "of", "siblings"] };
  const commands = project.kind === "command" ? project.build : [];
  return [
    ...(mayHaveSiblings && !isGiven ? [siblings] : []),
    ...commands.map((argv): ImageStep => {
      return { ...common, step: "build", rest: argv, shown: shownCommand(argv) };
    }),
    ...(project.kind === "command" && project.afterBuild !== undefined
      ? [
          {
            ...common,
            step: "build-if-possible",
            rest: project.afterBuild,
            shown: shownCommand(project.afterBuild),
          } as const,
        ]
      : []),
  ];
}

/** Plans the last step of a build whose start command names a file that the build makes. */
export async function planStartFile(sourceDir: string, project: Project): Promise<ImageStep[]> {
  if (project.kind !== "command" || project.install !== "node") return [];
  const argv = await startArgv(sourceDir, project);
  if (!startsBuiltFile(argv)) return [];
  const directory = project.startDirectory ?? project.directory;
  return [{ step: "start-file", directory, rest: argv, shown: ["start", "file"], reason: "BuildFailed" }];
}

/** A program that runs while an image is built, with the reason of its failure. */
export interface ImageCommand extends Command {
  reason: BuildFailureReason;
}

/** Plans the build of a Python server, whose image has none of the programs for JavaScript. */
export async function planPythonBuild(
  { buildCommand: line }: BuildRequest,
  sourceDir: string,
  project: CommandProject,
): Promise<ImageCommand[]> {
  const reason = "BuildFailed" as const;
  const cwd = project.directory;
  if (line !== null)
    return parseCommandLine(line, { cwd, what: "build command" }).map((command) => ({ ...command, reason }));
  const commands = project.build.map(async (given) => {
    const argv = isScript(given) ? await scriptCommand(sourceDir, cwd, { argv: given, searchPath: "" }) : given;
    return { argv, cwd, env: {}, reason };
  });
  return Promise.all(commands);
}

/** Returns the start command of an image, whose address is the same in every engine. */
export async function planStart(sourceDir: string, project: CommandProject): Promise<string[]> {
  const { variables = {}, before = [], programs = null } = project.launch ?? {};
  const argv = launchLine(await startArgv(sourceDir, project), {
    variables: { ...variables, ...hostVariables(project) },
    before: project.install === "node" ? before.map(beforeCommand) : before,
    programs,
  });
  const known: Record<string, string> = { PORT: String(agentPort), HOST: "0.0.0.0" };
  return argv.map((word) => word.replaceAll(/\$(PORT|HOST)\b/g, (_all, name: string) => known[name] ?? ""));
}

async function startArgv(sourceDir: string, project: CommandProject): Promise<string[]> {
  const { start } = project;
  const directory = project.startDirectory ?? project.directory;
  const managed = await managedStart(sourceDir, directory, start);
  if (managed !== null) {
    const { argv, cwd } = managed.server;
    return joinManaged({ ...managed, server: { argv: beforeCommand(argv), cwd } });
  }
  if (!isScript(start)) return ofPackages(project, start);
  const direct = await startCommand(sourceDir, directory, { start, searchPath: "" });
  // Without a package manager between them where nothing is lost. Programs of packages are only in the image.
  if (direct[0] === "node") return direct;
  const toleratesMissing = direct.some((word) => word.startsWith("--env-file-if-exists"));
  return toleratesMissing ? ["npm", "exec", "--no", "--", ...direct] : ["npm", "run", scriptName(start)];
}

/** npm finds a program of the project's packages, which are only in the image. */
function ofPackages({ recognized, install }: CommandProject, argv: string[]): string[] {
  const isPlain = recognized === undefined || install !== "node" || /^(?:node|npm|bun|deno)$/.test(argv[0] ?? "");
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
