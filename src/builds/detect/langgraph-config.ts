import path from "node:path";
import type { EngineBecause } from "../../contract/listeners/assignment.ts";
import { BuildFailure } from "../failure.ts";
import { type PythonSettings, readPythonSettings } from "../python/settings.ts";
import type { ConfigValue } from "./config-reader.ts";

/** A project for one of the open LangGraph servers. All paths are relative to the root of the source. */
export type LanggraphProject = JavascriptProject | PythonProject;

export interface JavascriptProject extends GraphProject {
  kind: "langgraph-js";
  engine: "file" | "postgres";
  engineBecause: EngineBecause;
}

export interface PythonProject extends GraphProject {
  kind: "langgraph-python";
  engine: "memory" | "aegra";
  engineBecause: EngineBecause;
  /** Keys of the configuration that only the engine in memory knows. */
  memoryOnly: string[];
  python: PythonSettings;
}

interface GraphProject {
  configPath: string;
  directory: string;
  /** Files that the server imports. They must exist when the build ends; a build command may generate them. */
  entryFiles: { place: string; file: string }[];
  /** Settings that this builder ignores, for the build log. */
  warnings: string[];
}

/** Node majors below this are too old for the agent server. */
const nodeMajorMin = 20;

/**
 * Reads a `langgraph.json` (contract 7.5).
 * @throws BuildFailure `ConfigInvalid`, or `Unsupported` for graphs in both languages.
 */
export function readLanggraphConfig(config: ConfigValue, configPath: string, nodeMajor: number): LanggraphProject {
  const directory = path.posix.dirname(configPath);
  const graphs = readGraphs(config.get("graphs"), directory);
  const others = [config.get("auth").get("path"), config.get("http").get("app")].flatMap((value) =>
    value.isAbsent ? [] : [readEntry(value, directory)],
  );
  const ui = config.get("ui").isAbsent ? [] : config.get("ui").entries();
  const uiFiles = ui.map(([id, value]) => ({ place: `ui.${id}`, file: value.filePath(value.text(), directory) }));
  const notes = readEnv(config.get("env"), directory);
  const entryFiles = [...graphs, ...others, ...uiFiles].filter((entry) => !isModule(entry.file));
  if (graphs.every(({ file }) => isJavascript(file))) {
    const warnings = [...notes, ...ignoredKeys(config), ...readNodeVersion(config.get("node_version"), nodeMajor)];
    const engine = readEngine(config.get("engine"), ["file", "postgres"] as const);
    const engineBecause = config.get("engine").isAbsent ? "default" : "configuration";
    return { kind: "langgraph-js", engine, engineBecause, configPath, directory, entryFiles, warnings };
  }
  const engine = readEngine(config.get("engine"), ["memory", "aegra"] as const);
  const python = readPythonSettings(config, directory);
  return {
    kind: "langgraph-python",
    engine,
    engineBecause: config.get("engine").isAbsent ? "default" : "configuration",
    memoryOnly: ["encryption", "webhooks", "ui", "priority"].filter((key) => !config.get(key).isAbsent),
    configPath,
    directory,
    entryFiles,
    warnings: [...notes, ...ignoredKeys(config)],
    python,
  };
}

/**
 * Gives a project the engine that its deployment chose.
 * @param fallback engine of a JavaScript project that names none; null: files.
 * @throws BuildFailure `ConfigInvalid` when the project cannot run on it.
 */
export function withEngine<Any extends { kind: string; configPath: string }>(
  project: Any | JavascriptProject | PythonProject,
  chosen: "file" | "memory" | "postgres" | "aegra" | null,
  fallback: "postgres" | null = null,
): Any | JavascriptProject | PythonProject {
  if (chosen === null) {
    const isOpen = isJavascriptProject(project) && project.engineBecause === "default";
    return isOpen && fallback !== null ? { ...project, engine: fallback } : project;
  }
  if (isJavascriptProject(project)) {
    if (chosen === "file" || chosen === "postgres") return { ...project, engine: chosen, engineBecause: "deployment" };
    throw unfit(chosen, `${project.configPath} has graphs in JavaScript`, '"file" or "postgres"');
  }
  if (!isPythonProject(project)) {
    throw unfit(chosen, `${project.configPath} describes a server of its own`, "none: remove the choice");
  }
  if (chosen === "memory" || chosen === "aegra") return { ...project, engine: chosen, engineBecause: "deployment" };
  throw unfit(chosen, `${project.configPath} has graphs in Python`, '"memory" or "aegra"');
}

/** Whether a project is on PostgreSQL only because that is the default. */
export const isOnDefaultPostgres = (project: { kind: string }): project is JavascriptProject =>
  isJavascriptProject(project) && project.engine === "postgres" && project.engineBecause === "default";

const isJavascriptProject = (project: { kind: string }): project is JavascriptProject =>
  project.kind === "langgraph-js";

const isPythonProject = (project: { kind: string }): project is PythonProject => project.kind === "langgraph-python";

const unfit = (chosen: string, because: string, possible: string) =>
  new BuildFailure(
    "EngineUnavailable",
    `The deployment chose engine "${chosen}", but ${because}. Possible is ${possible}. Change it: pierhead change NAME --engine default`,
  );

/** Every graph that is not JavaScript is Python (contract 7.5). */
const isJavascript = (file: string) => /\.[cm]?[jt]s$/.test(file);

/** Python graphs may have the form `package.module:graph`. */
const isModule = (file: string) => /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(file) && !/\.(py|[cm]?[jt]s)$/.test(file);

function readGraphs(graphs: ConfigValue, directory: string): LanggraphProject["entryFiles"] {
  if (graphs.isAbsent)
    graphs.refuse('is missing: it must name at least one graph, such as {"agent": "./src/agent.ts:graph"}');
  const entries = graphs.entries();
  if (entries.length === 0) graphs.refuse("must name at least one graph");
  const files = entries.map(([, value]) =>
    readEntry(typeof value.value === "string" ? value : value.get("path"), directory),
  );
  const javascript = files.find(({ file }) => isJavascript(file));
  const python = files.find(({ file }) => !isJavascript(file));
  if (javascript !== undefined && python !== undefined) {
    throw new BuildFailure(
      "Unsupported",
      `${javascript.place} is JavaScript ('${javascript.file}') and ${python.place} is Python ('${python.file}'): one agent server without an image runs one language. Create two deployments, each with its own configuration, or deploy an image (external_docker) on a server with docker compute.`,
    );
  }
  return files;
}

/** Reads `<file>:<export>`. In JavaScript the export defaults to `default`. */
function readEntry(value: ConfigValue, directory: string): LanggraphProject["entryFiles"][number] {
  const given = value.text();
  const file = given.replace(/:[^:/]*$/, "");
  if (file === "" || given.endsWith(":")) value.refuse(`must look like './src/agent.ts:graph', not '${given}'`);
  return { place: value.place, file: isModule(file) ? file : value.filePath(file, directory) };
}

/**
 * Accepts a dotenv file, a map of strings, or a list of names. The file need not exist, because repositories often omit it.
 * @returns a note when the file is outside the source, where nothing can read it.
 */
function readEnv(env: ConfigValue, directory: string): string[] {
  if (env.isAbsent) return [];
  if (typeof env.value === "string") {
    const file = path.posix.normalize(path.posix.join(directory, env.value));
    const isOutside = path.posix.isAbsolute(env.value) || file === ".." || file.startsWith("../");
    return isOutside ? [`env names '${env.value}', which is outside the source. ${setVariables}`] : [];
  }
  if (Array.isArray(env.value)) for (const item of env.items()) item.text();
  else {
    for (const [, value] of env.entries()) {
      if (!["string", "number", "boolean"].includes(typeof value.value)) value.refuse("must be a string");
    }
  }
  return [];
}

const setVariables = "Set its variables on the deployment: pierhead deploy --env-from FILE, or pierhead env set.";

/** @param possible for the language of the project, the default first. */
function readEngine<Name extends string>(engine: ConfigValue, possible: readonly [Name, ...Name[]]): Name {
  if (engine.isAbsent) return possible[0];
  const found = possible.find((name) => name === engine.value);
  if (found !== undefined) return found;
  const language = possible.includes("memory" as Name) ? "Python" : "JavaScript";
  const names = possible.map((name) => `"${name}"`).join(" or ");
  return engine.refuse(`must be ${names} for graphs in ${language}, not ${JSON.stringify(engine.value)}`);
}

function readNodeVersion(version: ConfigValue, nodeMajor: number): string[] {
  if (version.isAbsent) return [];
  const asked = Number(version.value);
  if (!Number.isInteger(asked) || asked < nodeMajorMin) {
    version.refuse(
      `must be a major version of Node from ${nodeMajorMin} on, such as "24", not ${JSON.stringify(version.value)}`,
    );
  }
  return asked === nodeMajor
    ? []
    : [`node_version is ${asked}, but the agent runs on Node ${nodeMajor}, the version of this server.`];
}

/** Returns a warning for each key that has no effect: keys for container images, and unknown keys. */
function ignoredKeys(config: ConfigValue): string[] {
  const imageKeys = ["api_version", "base_image", "dockerfile_lines", "image_distro", "keep_pkg_tools"];
  const known = [
    "$schema node_version node_loader graphs env auth http ui ui_config store checkpointer webhooks encryption engine priority",
    "python_version dependencies source pip_config_file pip_installer",
  ].flatMap((line) => line.split(" "));
  return config.entries().flatMap(([key, value]) => {
    if (value.isAbsent || known.includes(key)) return [];
    return [
      imageKeys.includes(key)
        ? `${key} is for container images and has no effect here.`
        : `${key} is not known and has no effect.`,
    ];
  });
}
