import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { BuildFailure } from "../failure.ts";
import { isFileInside } from "../sources/inside.ts";
import { ConfigValue } from "./config-reader.ts";
import { JsonTextError, parseJsonText } from "./json-text.ts";
import { type LanggraphProject, readLanggraphConfig } from "./langgraph-config.ts";
import { type CommandProject, type DockerfileProject, readPierheadConfig } from "./pierhead-config.ts";

export type Project = LanggraphProject | CommandProject | DockerfileProject;

/** Names of the configuration file, in the order in which they are tried when no path is given. */
const configNames = ["pierhead.json", "langgraph.json"];

/** The file that an image build uses when there is no configuration. */
const dockerfileName = "Dockerfile";

/** Limit in bytes. A larger file is not a handwritten configuration. */
const configBytesMax = 256 * 1024;

/**
 * Finds the configuration of a project and determines the kind of project from its content.
 * @param sourceDir absolute root of the unpacked source.
 * @param configPath relative to it; null: one of `configNames` or a Dockerfile at the root.
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
  throw missing(`${configNames.join(" or ")} not found at the root of the source`, await listConfigs(sourceDir));
}

async function readConfig(sourceDir: string, place: string): Promise<unknown> {
  const isRelative = !path.posix.isAbsolute(place) && place !== ".." && !place.startsWith("../");
  if (!isRelative || !(await isFileInside(sourceDir, place))) {
    throw missing(`${place.replace(/\p{Cc}/gu, "?")} not found in the source`, await listConfigs(sourceDir));
  }
  const bytes = await readFile(path.join(sourceDir, place));
  if (bytes.length > configBytesMax)
    throw new BuildFailure("ConfigInvalid", `${place} is larger than 256 KiB, so it is not a configuration.`);
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
      : `The source contains ${found.join(", ")}. Set the config path (--config) to ${found.length === 1 ? found[0] : "one of them"}.`;
  return new BuildFailure("ConfigMissing", `${what}. ${hint}`);
}

/** Limits of the search: deep enough for a monorepo, and fast in any tree. */
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
