import path from "node:path";
import type { ConfigValue } from "./config-reader.ts";

/** Any server that can be started with one program. Paths are relative to the root of the source. */
export interface CommandProject {
  kind: "command";
  configPath: string;
  directory: string;
  build: string[][];
  start: string[];
  healthPath: string;
  /** The server keeps state in its working directory, so two of it must never run at once. */
  isExclusive: boolean;
  warnings: string[];
}

const keys = ["$schema", "build", "start", "health", "state"];

/**
 * Reads a `pierhead.json`; docs/reference/pierhead-json.md describes it.
 * @throws BuildFailure `ConfigInvalid`
 */
export function readPierheadConfig(config: ConfigValue, configPath: string): CommandProject {
  for (const [key, value] of config.entries()) {
    if (!keys.includes(key)) value.refuse(`is not known; the keys are ${keys.slice(1).join(", ")}`);
  }
  const start = config.get("start");
  if (start.isAbsent)
    start.refuse('is missing: it must be the program that serves and its arguments, such as ["node", "server.js"]');
  return {
    kind: "command",
    configPath,
    directory: path.posix.dirname(configPath),
    build: readBuild(config.get("build")),
    start: readArgv(start),
    healthPath: readHealth(config.get("health")),
    isExclusive: readState(config.get("state")),
    warnings: [],
  };
}

/** One program, or a list of programs that run one after another. */
function readBuild(build: ConfigValue): string[][] {
  if (build.isAbsent) return [];
  const items = build.items();
  if (items.length === 0) return [];
  return items.every((item) => Array.isArray(item.value)) ? items.map(readArgv) : [readArgv(build)];
}

function readArgv(command: ConfigValue): string[] {
  if (typeof command.value === "string") {
    command.refuse(
      'must be a list of a program and its arguments, such as ["npm", "ci"]: there is no shell to take a string apart',
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
