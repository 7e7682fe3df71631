import { readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { dockerfileName, isProjectFile, projectFileNames } from "../../domain/config-path.ts";
import { detectServer, withoutPackages } from "../../domain/detection/detect-server.ts";
import { installFiles } from "../../domain/detection/install-files.ts";
import { readProjectFacts } from "../../domain/detection/project-facts.ts";
import { exampleNames } from "../../domain/dotenv.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import { listFiles } from "./list-files.ts";
import { nodePaths } from "./node-paths.ts";
import { projectsBelow } from "./projects-below.ts";
import { pythonPaths } from "./python-paths.ts";
import { refusePrivate } from "./refuse-private.ts";
import { isWithin, repositoryOf } from "./repository.ts";
import { workspaceRoot } from "./workspace-root.ts";

/** Source of an agent server on this machine. */
export interface Project {
  /** Directory to pack: the project, or its common ancestor with the local packages that it depends on and its workspace. */
  root: string;
  /** What is packed of `root`, relative to it; null: all of it. */
  parts: string[] | null;
  /** Config file relative to `root`, with `/`. */
  configPath: string;
  /** Config file, Dockerfile, .dockerignore and examples of `.env`, relative to `root`. */
  buildFiles: string[];
  name: string;
  /** `.env` next to the config, if it exists. */
  envFile: string | undefined;
  /** What will be deployed, in one sentence: "langgraph.json: 2 graphs, Python 3.12, uv.lock". */
  found: string;
  /** Whether the files of the project say how it starts, because it has no config. */
  isRecognized: boolean;
}

/** In order of precedence. */
const configNames = ["langgraph.json", "pierhead.json"];

/**
 * Finds the project of a directory: its config, or the server that is recognized from its files.
 * @param from where commands run that an error suggests.
 * @throws CliFailure if neither is found, or the config is not a JSON object.
 */
export async function findProject(
  directory: string,
  configOption: string | undefined,
  from = directory,
): Promise<Project> {
  const config = path.resolve(directory, configOption ?? (await findConfigName(directory, from)));
  // A Dockerfile decides what is installed, and copies files of its own directory.
  const isDockerfile = path.basename(config) === dockerfileName;
  const isConfig = !isDockerfile && !isProjectFile(path.basename(config));
  const content = isConfig ? await readConfig(config, directory) : {};
  const configDirectory = path.dirname(config);
  const own = localDependencies(content).map((dependency) => path.resolve(configDirectory, dependency));
  // The packages of a graph may be in a directory above it, which is the member of the workspace.
  const places = [...new Set([configDirectory, ...own])];
  const workspaces = (await Promise.all(places.map(workspaceRoot))).filter((found) => found !== null);
  const linked = isDockerfile ? [] : (await Promise.all(places.map(localPaths))).flat();
  const needed = [...own, ...workspaces, ...linked, path.resolve(directory), configDirectory];
  const root = needed.reduce(commonAncestor);
  const packed = await partsToPack(path.resolve(directory), needed);
  await refusePrivate(path.resolve(directory), packed, needed);
  const envFile = path.join(configDirectory, ".env");
  const inRoot = (file: string) => path.relative(root, file).split(path.sep).join("/");
  const dockerfile =
    typeof content["dockerfile"] === "string" ? [path.join(configDirectory, content["dockerfile"])] : [];
  // The build reads in them which variables and which database the project needs. Many projects keep `.env*` out of images.
  const examples = [configDirectory, root].flatMap((place) => exampleNames.map((name) => path.join(place, name)));
  return {
    root,
    parts: packed.includes(root) ? null : packed.map(inRoot),
    configPath: inRoot(config),
    buildFiles: [config, ...dockerfile, path.join(root, ".dockerignore"), ...examples].map(inRoot),
    name: await findName(configDirectory, content),
    envFile: (await isFile(envFile)) ? envFile : undefined,
    isRecognized: !isConfig,
    found: isConfig ? await describeConfig(config, content) : await describeServer(config, from),
  };
}

const localPaths = async (directory: string) => [...(await nodePaths(directory)), ...(await pythonPaths(directory))];

/** Names of the files that decide what a build installs of a language. */
const installNames = (language: "python" | "node" | null) =>
  installFiles
    .filter(({ manager }) => language === null || /^(?:uv|poetry|pip)$/.test(manager) === (language === "python"))
    .map(({ file }) => file);

async function describeConfig(config: string, content: Record<string, unknown>): Promise<string> {
  const { graphs, start, python_version: python, node_version: node } = content;
  const count = typeof graphs === "object" && graphs !== null ? Object.keys(graphs).length : null;
  const parts = [
    ...(count === null ? [] : [`${count} graph${count === 1 ? "" : "s"}`]),
    ...(Array.isArray(start) ? [`start ${start.join(" ")}`] : []),
    ...(python === undefined ? [] : [`Python ${python}`]),
    ...(node === undefined ? [] : [`Node ${node}`]),
    ...(await firstFile(path.dirname(config), installNames(languageOf(content)))),
  ];
  return `${path.basename(config)}${parts.length === 0 ? "" : `: ${parts.join(", ")}`}`;
}

/** Returns the language of the agents of a configuration; null: it does not say. A project may have tools in another one. */
function languageOf({ graphs, node_version: node }: Record<string, unknown>): "node" | null {
  return node !== undefined || /\.[cm]?[jt]sx?[:"]/.test(JSON.stringify(graphs ?? {})) ? "node" : null;
}

/** @throws CliFailure when no server is recognized in the directory of the file. */
async function describeServer(file: string, from: string): Promise<string> {
  const directory = path.dirname(file);
  if (path.basename(file) === dockerfileName) return "Dockerfile";
  const { files } = await listFiles(directory, new AbortController().signal);
  const read = async (name: string) => {
    const full = path.join(directory, name);
    return (await stat(full)).size > detectionBytesMax ? null : readFile(full, "utf8");
  };
  const detection = detectServer(await readProjectFacts({ list: async () => files, read }));
  if (detection.server === null) {
    const below = await projectsBelow(directory, from);
    if (detection.saysWhatToDo && below.length === 0) throw new CliFailure(detection.because);
    throw noServer(detection.because, below, await isFile(path.join(directory, dockerfileName)));
  }
  const { name, because, start, beforeStart = [], pythonVersion } = detection.server;
  const command = [...beforeStart, start.replace("script:", "package.json script ")].join(" && ");
  const parts = [
    because,
    ...(pythonVersion === null ? [] : [`Python ${pythonVersion}`]),
    ...(await firstFile(
      directory,
      installNames(detection.server.language).filter((file) => file !== "package.json"),
    )),
  ];
  return `${name}: ${parts.join(", ")}. Start: ${command}`;
}

/** Larger files are data, not sources of a server. */
const detectionBytesMax = 256 * 1024;

async function firstFile(directory: string, names: readonly string[]): Promise<string[]> {
  for (const name of names) if (await isFile(path.join(directory, name))) return [name];
  return [];
}

/** Returns a valid deployment name: lowercase letters, digits and hyphens, or `agent` if nothing remains. */
export function nameFrom(text: string): string {
  const name = text
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "-")
    .slice(0, 63)
    .replace(/^-+|-+$/g, "");
  return name || "agent";
}

async function findConfigName(directory: string, from: string): Promise<string> {
  const [found] = await firstFile(directory, [...configNames, ...projectFileNames, dockerfileName]);
  if (found !== undefined) return found;
  if ((await stat(directory).catch(() => undefined))?.isDirectory() !== true)
    throw usageFailure(`There is no directory ${directory}.`, "Begin a project: pierhead init DIR");
  const below = await projectsBelow(directory, from);
  const missing = withoutPackages(await readdir(directory));
  const because = `There is no ${configNames.join(" or ")} in ${directory}, and no server was recognized.`;
  if (missing !== null && below.length === 0) throw new CliFailure(`${because} ${missing}`);
  throw noServer(missing === null ? because : `${because} ${missing}`, below);
}

/** @param hasDockerfile whether to offer the project's own Dockerfile, which may start a server that Pierhead does not recognize. */
function noServer(message: string, below: readonly string[] = [], hasDockerfile = false): CliFailure {
  const ofImage = hasDockerfile
    ? ["With its Dockerfile, on a server with docker compute:  pierhead deploy DIR --config Dockerfile"]
    : [];
  if (below.length > 0) {
    const hints = [...ofImage, ...below.map((one) => `pierhead deploy ${one}`)];
    return new CliFailure(`${message} These directories below it look like projects:`, { hints });
  }
  const hints = [
    ...ofImage,
    "In a subdirectory:  pierhead deploy DIR --config path/langgraph.json",
    "For any server that speaks HTTP, write a pierhead.json with its start command",
  ];
  return new CliFailure(message, { hints });
}

async function readConfig(config: string, directory: string): Promise<Record<string, unknown>> {
  try {
    const content: unknown = JSON.parse(await readFile(config, "utf8"));
    if (typeof content === "object" && content !== null && !Array.isArray(content))
      return content as Record<string, unknown>;
    throw new Error("not a JSON object");
  } catch (error) {
    const shown = path.relative(directory, config);
    if ((error as NodeJS.ErrnoException).code === "ENOENT") throw usageFailure(`There is no ${shown} in ${directory}.`);
    throw new CliFailure(`${shown} cannot be used: ${(error as Error).message}.`);
  }
}

/** Returns the local paths in `dependencies` and `source.root` of a langgraph.json. */
function localDependencies(content: Record<string, unknown>): string[] {
  const dependencies: unknown[] = Array.isArray(content["dependencies"]) ? content["dependencies"] : [];
  const source = content["source"] as { root?: unknown } | undefined;
  return [...dependencies, source?.root].filter((one): one is string => typeof one === "string" && one.startsWith("."));
}

/**
 * Returns the directories to pack: the common parent of all that the project needs, but of what lies outside its git repository
 * only the directories themselves. Beside the repository are other projects.
 */
async function partsToPack(directory: string, needed: readonly string[]): Promise<string[]> {
  const repository = await repositoryOf(directory);
  const isInside = (one: string) => repository === null || isWithin(repository, one);
  const parts = [needed.filter(isInside).reduce(commonAncestor), ...needed.filter((one) => !isInside(one))];
  return [...new Set(parts)].filter((one) => !parts.some((other) => other !== one && isWithin(other, one)));
}

function commonAncestor(a: string, b: string): string {
  const [parts, others] = [a.split(path.sep), b.split(path.sep)];
  const differs = parts.findIndex((part, index) => part !== others[index]);
  return parts.slice(0, differs === -1 ? undefined : differs).join(path.sep) || path.sep;
}

/** Returns `name` of the config, or of package.json next to it, or the directory name. */
async function findName(directory: string, content: Record<string, unknown>): Promise<string> {
  const named = typeof content["name"] === "string" ? content["name"] : await packageName(directory);
  return nameFrom(named ?? path.basename(directory));
}

async function packageName(directory: string): Promise<string | undefined> {
  try {
    const { name } = JSON.parse(await readFile(path.join(directory, "package.json"), "utf8")) as { name?: unknown };
    return typeof name === "string" ? name.replace(/^@[^/]*\//, "") : undefined;
  } catch {
    return undefined;
  }
}

const isFile = (file: string) =>
  stat(file).then(
    (found) => found.isFile(),
    () => false,
  );
