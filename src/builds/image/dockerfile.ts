import path from "node:path";
import { fileURLToPath } from "node:url";
import { stateMount } from "../../compute/docker/replicas/container.ts";
import { showCommand } from "../detect/command-line.ts";
import type { BuildFailureReason } from "../failure.ts";
import type { ImageCommand, InstallPlan } from "./commands.ts";

/** One line of a generated Dockerfile; the engine counts them as its steps. */
export interface Instruction {
  text: string;
  /** What runs in it, and what its failure is called; null: nothing of the project. */
  runs: { shown: string; reason: BuildFailureReason } | null;
}

export interface ImageContent {
  /** Image to begin with. */
  base: string;
  /** Equal for all builds of this server: what is unfinished can be found and the cache is shared. */
  label: [name: string, value: string];
  install: InstallPlan;
  build: ImageCommand[];
  /** Directory the server is started in, from the root of the source. */
  directory: string;
  start: string[];
}

/** Directory of the build context with the source in it, and where that lies in the image. */
export const contextSource = "source";
export const appDir = "/app";

/** Where our own programs lie. */
export const ownDir = "/opt/pierhead";

/** Of the programs: .ts in a clone, .js when built. */
export const programExtension = path.extname(fileURLToPath(import.meta.url));
export const tidyProgram = "builds/image/run-and-tidy";

/** Nobody on any host: an agent needs no rights, not even over its own code. */
export const agentUser = "10001:10001";

/**
 * A Dockerfile for a project. Programs are argument lists as everywhere. What installs stands before what changes with
 * every commit, so that the engine's cache has it the next time.
 */
export function generateDockerfile(content: ImageContent): Instruction[] {
  const { base, label, install, build, directory, start } = content;
  const installs = install.commands.flatMap(runIn);
  const copyAll = plain(`COPY ${JSON.stringify([`${contextSource}/`, `${appDir}/`])}`);
  const copyAndInstall =
    install.manifests === null ? [copyAll, ...installs] : [copyManifests(install.manifests), ...installs, copyAll];
  return [
    plain(`FROM ${base}`),
    plain(`LABEL ${label.map((part) => JSON.stringify(part)).join("=")}`),
    ...copyAndInstall,
    ...build.flatMap(runIn),
    workdir(directory),
    plain(`ENV HOME=${stateMount} NODE_ENV=production`),
    plain(`USER ${agentUser}`),
    plain(`CMD ${JSON.stringify(start)}`),
  ];
}

export const plain = (text: string): Instruction => ({ text, runs: null });

export const workdir = (directory: string) =>
  plain(`WORKDIR ${path.posix.join(appDir, directory).replaceAll(/[\\$]/g, "\\$&")}`);

function copyManifests(manifests: string[]): Instruction {
  const directory = path.posix.join(appDir, path.posix.dirname(manifests[0] ?? "."));
  return plain(`COPY ${JSON.stringify([...manifests.map((file) => `${contextSource}/${file}`), `${directory}/`])}`);
}

function runIn({ argv, cwd, env, reason }: ImageCommand): Instruction[] {
  const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  const tidy = ["node", `${ownDir}/${tidyProgram}${programExtension}`];
  const program = [...tidy, ...(variables.length === 0 ? [] : ["env", ...variables]), ...argv];
  return [workdir(cwd), { text: `RUN ${JSON.stringify(program)}`, runs: { shown: showCommand(argv), reason } }];
}

/**
 * Puts our label into every stage of a project's own Dockerfile, for the engine keeps unfinished images and containers
 * of a build, and nothing else tells whose they are. Lines that go on (`\` at their end) are one instruction.
 */
export function labelStages(dockerfile: string, [name, value]: [string, string]): string {
  const label = `LABEL ${JSON.stringify(name)}=${JSON.stringify(value)}`;
  let isFrom = false;
  let continues = false;
  return dockerfile
    .split("\n")
    .flatMap((line) => {
      // The engine passes over them, also where an instruction goes on.
      const isNothing = /^\s*(#|$)/.test(line);
      if (!continues && !isNothing) isFrom = /^\s*FROM\s/i.test(line);
      if (!isNothing) continues = /\\\s*$/.test(line);
      return isFrom && !continues && !isNothing ? [line, label] : [line];
    })
    .join("\n");
}
