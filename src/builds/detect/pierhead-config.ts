import path from "node:path";
import type { LocalHost } from "../../domain/detection/local-host.ts";
import type { AddedFile } from "../../domain/detection/presets.ts";
import type { Launch } from "../node/launch-line.ts";
import { readPythonVersion } from "../python/settings.ts";
import type { ConfigValue } from "./config-reader.ts";

/** A server that one program starts. Paths are relative to the root of the source. */
export interface CommandProject {
  kind: "command";
  configPath: string;
  directory: string;
  /** Whose packages the build installs before it runs `build`; null: those that `build` installs. */
  install: "node" | "python" | null;
  /** The managed Python environment; null: the server needs none. */
  python: PythonRequest | null;
  /** Each is a program and its arguments, or `["script:NAME"]` for a script of package.json. */
  build: string[][];
  /** A file that the build adds to `directory`, for the start command. */
  file?: AddedFile;
  /** Runs after `build`. Its failure does not fail the build. */
  afterBuild?: string[];
  /** As `build`; `$PORT`, `$HOST` and `$PUBLIC_URL` stand for the values at the start. */
  start: string[];
  /** What runs and is set before the server starts; absent: nothing. */
  launch?: Launch;
  /** Whether a module for Node makes the first port that the server opens the one in PORT. */
  opensGivenPort?: true;
  /** The only host name that the server accepts. A module in Node sets it in each request. Absent: the server accepts any. */
  localHost?: LocalHost;
  /** Where the start command runs, when that is not `directory`: a Procfile may begin with `cd`. */
  startDirectory?: string;
  /** A directory above, from which Python imports modules that several services of the source share; absent: none. */
  importsFrom?: string;
  /** Empty: the driver asks the usual paths, see `checkHealth`. */
  healthPath: string;
  /** Whether the server keeps state in its working directory, so that two replicas must never run at once. */
  isExclusive: boolean;
  /** Whether it listens on a port of its own, because nothing in it reads PORT. */
  hasOwnPort?: true;
  /** What the server is and how it was recognized; absent: it has a configuration. */
  recognized?: { name: string; because: string };
  warnings: string[];
}

/** A Python environment of a server that is not a LangGraph agent. */
export interface PythonRequest {
  /** `3.12`; null: any version that Pierhead supports. */
  version: string | null;
  /** A file with requirements, relative to the root of the source; null: the files that tools use, in the usual order. */
  requirements: string | null;
  /** Packages to install beside those of the project. */
  adds: readonly string[];
  /** Programs to install in an environment of their own; absent: none. */
  tools?: readonly string[];
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

const keys = ["$schema", "build", "start", "dockerfile", "health", "state", "python"];

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
    for (const key of ["build", "start", "python"]) {
      const other = config.get(key);
      if (!other.isAbsent) other.refuse("cannot be combined with dockerfile: remove one of the two");
    }
    const file = dockerfile.filePath(dockerfile.text(), directory);
    return { kind: "dockerfile", configPath, directory, dockerfile: file, healthPath, isExclusive, warnings: [] };
  }
  const start = config.get("start");
  if (start.isAbsent)
    start.refuse('is missing: it must be the program that serves and its arguments, such as ["node", "server.js"]');
  const python = readPython(config.get("python"), directory);
  return {
    kind: "command",
    configPath,
    directory,
    install: python === null ? null : "python",
    python,
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

/** Reads `true`, a version, or an object with `version` and `requirements`. */
function readPython(python: ConfigValue, directory: string): PythonRequest | null {
  const { value } = python;
  if (python.isAbsent || value === false) return null;
  const any = { version: null, requirements: null, adds: [] };
  if (value === true) return any;
  if (typeof value === "string") return { ...any, version: readPythonVersion(python) };
  for (const [key, item] of python.entries()) {
    if (!["version", "requirements"].includes(key)) item.refuse("is not known; the keys are version, requirements");
  }
  const [version, file] = [python.get("version"), python.get("requirements")];
  return {
    version: version.isAbsent ? null : readPythonVersion(version),
    requirements: file.isAbsent ? null : file.filePath(file.text(), directory),
    adds: [],
  };
}

function readHealth(health: ConfigValue): string {
  if (health.isAbsent) return "";
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
