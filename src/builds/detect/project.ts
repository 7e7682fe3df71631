import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";
import { ConfigValue } from "./config-reader.ts";
import { JsonTextError, parseJsonText } from "./json-text.ts";
import { type LanggraphProject, readLanggraphConfig } from "./langgraph-config.ts";
import { type CommandProject, type DockerfileProject, readPierheadConfig } from "./pierhead-config.ts";

export type Project = LanggraphProject | CommandProject | DockerfileProject;

/** Names that are looked for when none is given, in this order. */
const configNames = ["pierhead.json", "langgraph.json"];

/** What is built when there is no configuration, in an image build. */
const dockerfileName = "Dockerfile";

/** A configuration is written by hand: what is larger is another file. */
const configBytesMax = 256 * 1024;

/**
 * Finds the configuration of a project and decides by its content what the project is.
 * @param sourceDir absolute root of the unpacked source.
 * @param configPath relative to it; null: one of the names above at the root.
 * @throws BuildFailure `ConfigMissing`, `ConfigInvalid`, `Unsupported`
 */
export async function readProject(sourceDir: string, configPath: string | null, nodeMajor: number): Promise<Project> {
  const place = configPath === null ? await findConfig(sourceDir) : path.posix.normalize(configPath);
  if (place === dockerfileName) return plainDockerfile;
  const config = new ConfigValue(place, "", await readConfig(sourceDir, place));
  config.entries();
  const isPierhead =
    config.get("graphs").isAbsent && (!config.get("start").isAbsent || place.endsWith("pierhead.json"));
  return isPierhead ? readPierheadConfig(config, place) : readLanggraphConfig(config, place, nodeMajor);
}

const plainDockerfile: DockerfileProject = {
  kind: "dockerfile",
  configPath: dockerfileName,
  directory: ".",
  dockerfile: dockerfileName,
  healthPath: "/ok",
  isExclusive: false,
  warnings: [],
};

async function findConfig(sourceDir: string): Promise<string> {
  for (const name of [...configNames, dockerfileName]) if (await isFileInside(sourceDir, name)) return name;
  throw missing(`There is no ${configNames.join(" or ")} at the root of the source`, await listConfigs(sourceDir));
}

async function readConfig(sourceDir: string, place: string): Promise<unknown> {
  const isRelative = !path.posix.isAbsolute(place) && place !== ".." && !place.startsWith("../");
  if (!isRelative || !(await isFileInside(sourceDir, place))) {
    throw missing(`There is no file '${place.replace(/\p{Cc}/gu, "?")}' in the source`, await listConfigs(sourceDir));
  }
  const bytes = await readFile(path.join(sourceDir, place));
  if (bytes.length > configBytesMax)
    throw new BuildFailure("ConfigInvalid", `${place} is too large to be a configuration.`);
  try {
    return parseJsonText(bytes.toString("utf8"));
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    const where = `${place}, line ${error.line}, column ${error.column}`;
    throw new BuildFailure("ConfigInvalid", `${where}: ${error.message}. The file must be JSON.`);
  }
}

function missing(what: string, found: string[]): BuildFailure {
  const hint =
    found.length === 0
      ? "Add a langgraph.json, or a pierhead.json for any other server."
      : `The source has ${found.join(", ")}: set the config path to ${found.length === 1 ? "it" : "one of them"}.`;
  return new BuildFailure("ConfigMissing", `${what}. ${hint}`);
}

/** How deep and how many: enough for a monorepo, quick in any tree. */
const searchDepthMax = 4;
const searchHitsMax = 10;

async function listConfigs(sourceDir: string): Promise<string[]> {
  const found: string[] = [];
  let level = ["."];
  for (let depth = 0; depth <= searchDepthMax && level.length > 0 && found.length < searchHitsMax; depth++) {
    const next: string[] = [];
    for (const directory of level) {
      for (const entry of await readdir(path.join(sourceDir, directory), { withFileTypes: true })) {
        const name = path.posix.join(directory, entry.name);
        if (entry.isFile() && configNames.includes(entry.name)) found.push(name);
        else if (entry.isDirectory() && entry.name !== "node_modules" && !entry.name.startsWith(".")) next.push(name);
      }
    }
    level = next.slice(0, 1_000);
  }
  return found.slice(0, searchHitsMax);
}
