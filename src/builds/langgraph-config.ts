import path from "node:path";
import type { ConfigValue } from "./config-reader.ts";
import { BuildFailure } from "./failure.ts";

/** A project that the open LangGraph.js server can run. All paths are relative to the root of the source. */
export interface LanggraphProject {
  kind: "langgraph-js";
  configPath: string;
  directory: string;
  /** Files the server will import. They must exist once the build is done; a build command may make them. */
  entryFiles: { place: string; file: string }[];
  /** Said in the build log: what the configuration asks for and this builder does not do. */
  warnings: string[];
}

/** Node majors below this are too old for the agent server. */
const nodeMajorMin = 20;

/**
 * Reads a `langgraph.json` (contract 7.5).
 * @throws BuildFailure `ConfigInvalid`, or `Unsupported` for graphs that are not JavaScript or TypeScript.
 */
export function readLanggraphConfig(config: ConfigValue, configPath: string, nodeMajor: number): LanggraphProject {
  const directory = path.posix.dirname(configPath);
  const graphs = readGraphs(config.get("graphs"), directory);
  const others = [config.get("auth").get("path"), config.get("http").get("app")].flatMap((value) =>
    value.isAbsent ? [] : [readEntry(value, directory)],
  );
  const ui = config.get("ui").isAbsent ? [] : config.get("ui").entries();
  const uiFiles = ui.map(([id, value]) => ({ place: `ui.${id}`, file: value.filePath(value.text(), directory) }));
  checkEnv(config.get("env"), directory);
  return {
    kind: "langgraph-js",
    configPath,
    directory,
    entryFiles: [...graphs, ...others, ...uiFiles],
    warnings: [...ignoredKeys(config), ...readNodeVersion(config.get("node_version"), nodeMajor)],
  };
}

function readGraphs(graphs: ConfigValue, directory: string): LanggraphProject["entryFiles"] {
  if (graphs.isAbsent)
    graphs.refuse('is missing: it must name at least one graph, such as {"agent": "./src/agent.ts:graph"}');
  const entries = graphs.entries();
  if (entries.length === 0) graphs.refuse("must name at least one graph");
  const files = entries.map(([, value]) =>
    readEntry(typeof value.value === "string" ? value : value.get("path"), directory),
  );
  const python = files.find(({ file }) => !/\.[cm]?[jt]s$/.test(file));
  if (python !== undefined) {
    throw new BuildFailure(
      "Unsupported",
      `${python.place} is '${python.file}', which is not JavaScript or TypeScript. Python agents are deployed as images (external_docker) on a server with docker compute; this builder runs LangGraph.js projects and any server with a pierhead.json.`,
    );
  }
  return files;
}

/** `<file>:<export>`; the export is `default` when it is left out. */
function readEntry(value: ConfigValue, directory: string): LanggraphProject["entryFiles"][number] {
  const given = value.text();
  const file = given.replace(/:[^:/]*$/, "");
  if (file === "" || given.endsWith(":")) value.refuse(`must look like './src/agent.ts:graph', not '${given}'`);
  return { place: value.place, file: value.filePath(file, directory) };
}

/** A dotenv file, a map of strings, or a list of names. The file is often left out of a repository: it is not required. */
function checkEnv(env: ConfigValue, directory: string): void {
  if (env.isAbsent) return;
  if (typeof env.value === "string") env.filePath(env.text(), directory);
  else if (Array.isArray(env.value)) for (const item of env.items()) item.text();
  else {
    for (const [, value] of env.entries()) {
      if (!["string", "number", "boolean"].includes(typeof value.value)) value.refuse("must be a string");
    }
  }
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
    : [`node_version is ${asked}; the agent runs on Node ${nodeMajor}, which this server brings.`];
}

/** What only a container image can do. */
function ignoredKeys(config: ConfigValue): string[] {
  const imageKeys = ["base_image", "dockerfile_lines", "image_distro", "pip_config_file", "python_version"];
  const known =
    "$schema node_version node_loader graphs env dependencies auth http ui ui_config store checkpointer webhooks".split(
      " ",
    );
  return config.entries().flatMap(([key, value]) => {
    if (value.isAbsent || known.includes(key)) return [];
    return [
      imageKeys.includes(key)
        ? `${key} is for container images and has no effect here.`
        : `${key} is not known and has no effect.`,
    ];
  });
}
