import path from "node:path";
import { fileURLToPath } from "node:url";
import { labels, stateMount } from "../../compute/docker/replicas/container.ts";
import { showCommand } from "../detect/command-line.ts";
import type { BuildFailureReason } from "../failure.ts";
import { escapeMarks } from "./base-names.ts";
import type { ImageStep, InstallPlan } from "./commands.ts";

/** One instruction of a generated Dockerfile. The engine counts instructions as steps. */
export interface Instruction {
  text: string;
  /** The program of the project that it runs, and the reason of its failure; null: it runs nothing of the project. */
  runs: {
    shown: string;
    reason: BuildFailureReason;
    /** Whether it prints the programs that it runs. */
    printsPrograms?: true;
  } | null;
}

export interface ImageContent {
  /** Base image. */
  base: string;
  /** From `stageLabel`. */
  label: string;
  install: InstallPlan;
  /** Run after the installation, before files that change with every commit. */
  afterInstall: Instruction[];
  /** Variables of the build. */
  variables: Readonly<Record<string, string>>;
  build: ImageStep[];
  /** Files in `src/compute` of the modules that Node loads before the server. */
  preloads: readonly string[];
  /** Working directory of the server, relative to the root of the source. */
  directory: string;
  start: string[];
}

/** Directory of the source in the build context, and in the image. */
export const contextSource = "source";
export const appDir = "/app";

/** Directory of Pierhead's own programs in an image. */
export const ownDir = "/opt/pierhead";

/** Extension of the programs: .ts in a clone, .js when built. */
export const programExtension = path.extname(fileURLToPath(import.meta.url));
export const tidyProgram = "builds/image/run-and-tidy";
export const preloadPrograms = ["compute/listen-on-port.mjs", "compute/local-host.mjs"];
export const stepsProgram = "builds/image/project-steps";

/** A user id that exists on no host: an agent needs no permissions, not even to write its own code. */
export const agentUser = "10001:10001";

/**
 * Generates the Dockerfile of a project. Programs are always argument lists. Installation comes before the files that
 * change with every commit, so that the engine's cache can reuse it.
 */
export function generateDockerfile(content: ImageContent): Instruction[] {
  const { base, label, install, afterInstall, variables, build, preloads, directory, start } = content;
  const installs = [...install.steps.flatMap(runStep), ...afterInstall];
  const copyAll = plain(`COPY ${JSON.stringify([`${contextSource}/`, `${appDir}/`])}`);
  const copyAndInstall =
    install.manifests === null ? [copyAll, ...installs] : [copyManifests(install.manifests), ...installs, copyAll];
  return [
    plain(`FROM ${base}`),
    plain(label),
    ...copyAndInstall,
    ...Object.entries(variables).flatMap(setVariable),
    ...build.flatMap(runStep),
    workdir(directory),
    plain(`ENV HOME=${stateMount} NODE_ENV=production`),
    ...(preloads.length === 0 ? [] : [loadsFirst(preloads)]),
    plain(`USER ${agentUser}`),
    plain(`CMD ${JSON.stringify(start)}`),
  ];
}

/** An instruction is one line, in which the engine replaces variables. */
const setVariable = ([name, value]: [string, string]) =>
  /\p{Cc}/u.test(value) ? [] : [plain(`ENV ${name}=${JSON.stringify(value).replaceAll("$", "\\$")}`)];

const loadsFirst = (names: readonly string[]) =>
  plain(`ENV NODE_OPTIONS="${names.map((name) => `--import ${ownDir}/compute/${name}`).join(" ")}"`);

export const plain = (text: string): Instruction => ({ text, runs: null });

export const workdir = (directory: string) =>
  plain(`WORKDIR ${path.posix.join(appDir, directory).replaceAll(/[\\$]/g, "\\$&")}`);

function copyManifests(manifests: string[]): Instruction {
  const directory = path.posix.join(appDir, path.posix.dirname(manifests[0] ?? "."));
  return plain(`COPY ${JSON.stringify([...manifests.map((file) => `${contextSource}/${file}`), `${directory}/`])}`);
}

function runStep({ step, directory, rest, shown, reason }: ImageStep): Instruction[] {
  const [tidy, steps] = [tidyProgram, stepsProgram].map((program) => `${ownDir}/${program}${programExtension}`);
  const program = ["node", tidy, "node", steps, step, directory, ...rest];
  const runs = { shown: showCommand(shown), reason, printsPrograms: true } as const;
  return [workdir("."), { text: `RUN ${JSON.stringify(program)}`, runs }];
}

/**
 * Returns the instruction that follows every `FROM`. Its labels show whose unfinished images and containers are, and the
 * engine's cache compares it: a workspace reuses its own steps, and never learns which steps another one has run.
 */
export const stageLabel = (installationId: string, tenantId: string) =>
  `LABEL ${JSON.stringify(labels.installation)}=${JSON.stringify(installationId)} ${JSON.stringify(labels.tenant)}=${JSON.stringify(tenantId)}`;

/**
 * Adds the label to every stage of a project's own Dockerfile. Continued lines (the escape mark at the end) belong to one
 * instruction. Engines parse some files differently, so the build checks that the label has followed every `FROM`.
 */
export function labelStages(dockerfile: string, label: string): string {
  const lines = dockerfile.split("\n");
  const [mark = "\\"] = escapeMarks(lines);
  const isContinued = mark === "`" ? /`[ \t]*\r*$/ : /\\[ \t]*\r*$/;
  let isFrom = false;
  let continues = false;
  return lines
    .flatMap((line) => {
      // The engine ignores these lines, even within a continued instruction.
      const isNothing = /^\s*(#|$)/.test(line);
      if (!continues && !isNothing) isFrom = /^\s*FROM\s/i.test(line);
      if (!isNothing) continues = isContinued.test(line);
      return isFrom && !continues && !isNothing ? [line, label] : [line];
    })
    .join("\n");
}
