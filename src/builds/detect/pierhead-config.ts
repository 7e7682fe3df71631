import path from "node:path";
import type { ConfigValue } from "./config-reader.ts";

/** A server that one program starts. Paths are relative to the root of the source. */
export interface CommandProject {
  kind: "command";
  configPath: string;
  directory: string;
  build: string[][];
  start: string[];
  healthPath: string;
  /** Whether the server keeps state in its working directory, so that two replicas must never run at once. */
  isExclusive: boolean;
  warnings: string[];
}

/** A server that is built as an image from its own Dockerfile. Paths are relative to the root of the source. */
export interface DockerfileProject {
  kind: "dockerfile";
  configPath: string;
  directory: string;
  dockerfile: string;
  healthPath: string;
  isExclusive: boolean;
  warnings: string[];
}

const keys = ["$schema", "build", "start", "dockerfile", "health", "state"];

/**
 * Reads a `pierhead.json`; docs/reference/pierhead-json.md describes it.
 * @throws BuildFailure `ConfigInvalid`
 */
export function readPierheadConfig(config: ConfigValue, configPath: string): CommandProject | DockerfileProject {
  for (const [key, value] of config.entries()) {
    if (!keys.includes(key)) value.refuse(`is not known; the keys are ${keys.slice(1).join(", ")}`);
  }
  const directory = path.posix.dirname(configPath);
  const [healthPath, isExclusive] = [readHealth(config.get("health")), readState(config.get("state"))];
  const dockerfile = config.get("dockerfile");
  if (!dockerfile.isAbsent) {
    for (const key of ["build", "start"]) {
      const other = config.get(key);
      if (!other.isAbsent) other.refuse("cannot be combined with dockerfile: remove one of the two");
    }
    const file = dockerfile.filePath(dockerfile.text(), directory);
    return { kind: "dockerfile", configPath, directory, dockerfile: file, healthPath, isExclusive, warnings: [] };
  }
  const start = config.get("start");
  if (start.isAbsent)
    start.refuse('is missing: it must be the program that serves and its arguments, such as ["node", "server.js"]');
  return {
    kind: "command",
    configPath,
    directory,
    build: readBuild(config.get("build")),
    start: readArgv(start),
    healthPath,
    isExclusive,
    warnings: [],
  };
}

/** Reads one program, or a list of programs that run one after another. */
function readBuild(build: ConfigValue): string[][] {
  if (build.isAbsent) return [];
  const items = build.items();
  if (items.length === 0) return [];
  return items.every((item) => Array.isArray(item.value)) ? items.map(readArgv) : [readArgv(build)];
}

function readArgv(command: ConfigValue): string[] {
  if (typeof command.value === "string") {
    command.refuse(
      'must be a list of a program and its arguments, such as ["npm", "ci"], because no shell splits a string',
    );
  }
  const argv = command.items().map((item, at) => (at === 0 ? item.text() : item.argument()));
  if (argv.length === 0) command.refuse("must name a program");
  return argv;
}

function readHealth(health: ConfigValue): string {
  if (health.isAbsent) return "/ok";
  const given = health.text();
  if (!/^\/[\w\-./~%]*$/.test(given) || given.startsWith("//"))
    health.refuse(`must be a path such as "/ok", not '${given}'`);
  return given;
}

function readState(state: ConfigValue): boolean {
  if (state.isAbsent || state.value === "none") return false;
  if (state.value !== "exclusive") state.refuse('must be "exclusive" or "none"');
  return true;
}
