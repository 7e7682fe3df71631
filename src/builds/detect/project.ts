import { readdir, readFile, stat } from "node:fs/promises";
import path from "node:path";
import { dockerfileName, isProjectFile, projectFileNames, usualConfigPath } from "../../domain/config-path.ts";
import { detectServer } from "../../domain/detection/detect-server.ts";
import type { DetectedServer } from "../../domain/detection/detected-server.ts";
import { added, addedDirName } from "../../domain/detection/presets.ts";
import { type ProjectFacts, readProjectFacts } from "../../domain/detection/project-facts.ts";
import type { BuildTarget } from "../build.ts";
import { BuildFailure } from "../failure.ts";
import { installCommand } from "../node/install-command.ts";
import { isFileInside } from "../sources/inside.ts";
import { showCommand } from "./command-line.ts";
import { ConfigValue } from "./config-reader.ts";
import { importRootAbove } from "./import-root-above.ts";
import { JsonTextError, parseJsonText } from "./json-text.ts";
import { type LanggraphProject, readLanggraphConfig } from "./langgraph-config.ts";
import { type CommandProject, type DockerfileProject, readPierheadConfig } from "./pierhead-config.ts";
import { projectReader } from "./project-reader.ts";
import { parseStartLine } from "./start-line.ts";

export type Project = LanggraphProject | CommandProject | DockerfileProject;

/** Names of the configuration file, in the order in which they are tried when no path is given. */
const configNames = ["pierhead.json", "langgraph.json"];

/** Limit in bytes. A larger file is not a handwritten configuration. */
const configBytesMax = 256 * 1024;

/** Where the project is built: the version of Node, and whether a container engine can build a Dockerfile. */
export interface BuildHost {
  nodeMajor: number;
  target: BuildTarget["kind"];
}

/**
 * Finds the configuration of a project and determines the kind of project from its content. Without a configuration, the
 * files of the project say how its server is built and started.
 * @param sourceDir absolute root of the unpacked source.
 * @param configPath relative to it: a configuration, or a file from which a server is recognized, such as `package.json`;
 * null: the root of the source.
 * @throws BuildFailure `ConfigMissing`, `ConfigInvalid`, `Unsupported`, `CommandInvalid`
 */
export async function readProject(sourceDir: string, configPath: string | null, host: BuildHost): Promise<Project> {
  // Clients send the usual name also for a project without a configuration.
  const isUsual = configPath === usualConfigPath && !(await isFileInside(sourceDir, configPath));
  const place = configPath === null || isUsual ? await findConfig(sourceDir, host) : path.posix.normalize(configPath);
  const name = path.posix.basename(place);
  if (name === dockerfileName) return dockerfileProject(place);
  if (isProjectFile(name)) return detect(sourceDir, place, host);
  const config = new ConfigValue(place, "", await readConfig(sourceDir, place));
  config.entries();
  const isPierhead =
    config.get("graphs").isAbsent && (!config.get("start").isAbsent || place.endsWith("pierhead.json"));
  return isPierhead ? readPierheadConfig(config, place) : readLanggraphConfig(config, place, host.nodeMajor);
}

function dockerfileProject(place: string): DockerfileProject {
  return {
    kind: "dockerfile",
    configPath: place,
    directory: path.posix.dirname(place),
    dockerfile: place,
    healthPath: "",
    isExclusive: false,
    warnings: [],
  };
}

async function findConfig(sourceDir: string, { target }: BuildHost): Promise<string> {
  for (const name of configNames) if (await isFileInside(sourceDir, name)) return name;
  const hasDockerfile = await isFileInside(sourceDir, dockerfileName);
  if (hasDockerfile && target === "image") return dockerfileName;
  for (const name of projectFileNames) if (await isFileInside(sourceDir, name)) return name;
  if (hasDockerfile) return dockerfileName;
  const configs = await listConfigs(sourceDir);
  const projects = await listProjects(sourceDir, ".");
  throw missing(`${configNames.join(" or ")} not found at the root of the source`, configs, projects);
}

/** Recognizes the server of a project from its files. @param place of the file that names its directory. */
async function detect(sourceDir: string, place: string, { target }: BuildHost): Promise<CommandProject> {
  if (!(await isFileInside(sourceDir, place))) {
    throw missing(`${place.replace(/\p{Cc}/gu, "?")} not found in the source`, await listConfigs(sourceDir));
  }
  const directory = path.posix.dirname(place);
  const facts = await readProjectFacts(projectReader(sourceDir, directory));
  const detection = detectServer(facts);
  const others = await listConfigs(sourceDir);
  if (detection.server === null && detection.saysWhatToDo && others.length === 0)
    throw new BuildFailure("ConfigMissing", detection.because);
  // The root of a monorepo often has a start script that starts no server.
  const isAmbiguous = facts.node?.isWorkspaceRoot === true && others.length > 0;
  if (detection.server === null || isAmbiguous) {
    const why = detection.server === null ? `${detection.because} ` : "The root of the source is a workspace. ";
    throw missing(
      `${why}No server was recognized in ${directory === "." ? "the root of the source" : directory}`,
      others,
      await listProjects(sourceDir, directory),
    );
  }
  const { server } = detection;
  const warnings = others.map(
    (other) => `The source also contains ${other}. To use it, set the config path (--config).`,
  );
  // Containers have ports of their own.
  const opensGivenPort = server.hasOwnPort && server.runsInNode === true;
  const shared = await sharedModules(sourceDir, directory, { facts, server });
  const hasOwnPort = server.hasOwnPort && (opensGivenPort || !(await isMember(sourceDir, directory, server)));
  const isExclusive = hasOwnPort && !opensGivenPort && target === "directory";
  const localHost = localHostOf(server);
  return {
    ...commandProject(server, place, directory),
    ...shared,
    ...(hasOwnPort && { hasOwnPort }),
    ...(opensGivenPort && { opensGivenPort }),
    ...(localHost !== undefined && { localHost }),
    isExclusive,
    warnings: [
      ...warnings,
      ...(isExclusive ? [ownPort] : []),
      ...(opensGivenPort ? [givenPort] : []),
      ...(localHost?.isForPathsOnly === false ? [givenHost] : []),
    ],
  };
}

/** Only Node loads the module that changes the host name of requests. */
const localHostOf = ({ runsInNode, localHost }: DetectedServer) => (runsInNode === true ? localHost : undefined);

async function sharedModules(
  sourceDir: string,
  directory: string,
  { facts, server }: { facts: ProjectFacts; server: DetectedServer },
): Promise<Pick<CommandProject, "importsFrom">> {
  if (facts.python === null || server.language !== "python") return {};
  const importsFrom = await importRootAbove(sourceDir, directory, facts.python.packages);
  return importsFrom === null ? {} : { importsFrom };
}

/** Returns whether a JavaScript project is a member of a workspace, whose other packages may read PORT for it. */
async function isMember(sourceDir: string, directory: string, { language }: DetectedServer): Promise<boolean> {
  if (language !== "node") return false;
  const install = await installCommand(sourceDir, directory, "");
  return install !== null && install.cwd !== path.posix.normalize(directory);
}

const ownPort =
  "The server does not read PORT, so it listens on a port of its own. The old revision stops before a new one starts, and requests wait meanwhile. To roll out without this pause, listen on the port in PORT.";

const givenPort =
  "Nothing in the server reads PORT. The first port that it opens becomes the one in PORT, with a module that Node loads first.";

const givenHost =
  "The server accepts only requests for localhost. Pierhead loads a module into Node that changes the Host header of each request to that name. X-Forwarded-Host has the name that the client used. To accept other names, list them in the server's code.";

function commandProject(server: DetectedServer, configPath: string, directory: string): CommandProject {
  const what = server.preset === "procfile" ? "web command of the Procfile" : "start command";
  const start = server.start.startsWith("script:")
    ? { argv: [server.start], cwd: directory }
    : parseStartLine(server.start, { cwd: directory, what });
  return {
    kind: "command",
    configPath,
    directory,
    install: server.language,
    // The build reads the version of Python from the project's files.
    python: server.language === "python" ? pythonRequest(server) : null,
    build: [...(server.language === "python" ? [] : installsAdded(server.adds)), ...buildOf(server)],
    ...(server.file === undefined ? {} : { file: server.file }),
    ...(server.afterBuild === null ? {} : { afterBuild: server.afterBuild.split(" ") }),
    start: start.argv,
    ...launchOf(server, { directory, startDirectory: start.cwd }),
    ...(start.cwd === directory ? {} : { startDirectory: start.cwd }),
    healthPath: "",
    isExclusive: false,
    recognized: { name: server.name, because: server.because },
    warnings: [],
  };
}

const pythonRequest = ({ adds, tools }: DetectedServer) => {
  return { version: null, requirements: null, adds, ...(tools === undefined ? {} : { tools }) };
};

const buildOf = ({ build }: DetectedServer) => (build === null ? [] : build.split(" && ").map(commandOf));

const commandOf = (step: string) =>
  step.startsWith("script:") ? [step] : parseStartLine(step, { cwd: ".", what: "build command" }).argv;

function launchOf(
  { variables = {}, beforeStart = [], adds }: DetectedServer,
  { directory, startDirectory }: { directory: string; startDirectory: string },
): Pick<CommandProject, "launch"> {
  const programs = runtimes.some((one) => adds.includes(one.package)) ? `${addedDirName}/node_modules/.bin` : null;
  if (Object.keys(variables).length === 0 && beforeStart.length === 0 && programs === null) return {};
  const before = beforeStart.map((line) => {
    const { argv, cwd } = parseStartLine(line, { cwd: directory, what: "command before the start" });
    if (cwd === startDirectory) return argv;
    const place = path.posix.relative(startDirectory, cwd);
    return ["sh", "-c", `cd ${showCommand([place === "" ? "." : place])} && exec ${showCommand(argv)}`];
  });
  return { launch: { variables, before, programs } };
}

/** In a directory of their own, they change nothing in the project, whichever package manager it has. */
const installsAdded = (packages: readonly string[]) =>
  packages.length === 0
    ? []
    : [
        ["npm", "install", "--prefix", addedDirName, "--ignore-scripts", "--no-audit", "--no-fund", ...packages],
        ...runtimes.filter((one) => packages.includes(one.package)).map(({ file }) => ["node", file]),
      ];

/** Programs that run a server instead of Node. Scripts of package.json find them on the PATH. */
const runtimes = [added.bun, added.deno];

async function readConfig(sourceDir: string, place: string): Promise<unknown> {
  const isRelative = !path.posix.isAbsolute(place) && place !== ".." && !place.startsWith("../");
  if (!isRelative || !(await isFileInside(sourceDir, place))) {
    throw missing(`${place.replace(/\p{Cc}/gu, "?")} not found in the source`, await listConfigs(sourceDir));
  }
  const file = path.join(sourceDir, place);
  if ((await stat(file)).size > configBytesMax)
    throw new BuildFailure("ConfigInvalid", `${place} is larger than 256 KiB, so it is not a configuration.`);
  try {
    return parseJsonText(await readFile(file, "utf8"));
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    const where = `${place}, line ${error.line}, column ${error.column}`;
    throw new BuildFailure("ConfigInvalid", `${where}: ${error.message}. The file must be JSON.`);
  }
}

/** Returns the graphs that a configuration names, with the file and export of each. */
export async function graphsOf(
  sourceDir: string,
  { configPath }: LanggraphProject,
): Promise<{ id: string; path: string }[]> {
  const config = new ConfigValue(configPath, "", await readConfig(sourceDir, configPath));
  return config
    .get("graphs")
    .entries()
    .map(([id, value]) => ({ id, path: typeof value.value === "string" ? value.value : value.get("path").text() }));
}

/** Returns the configurations that a source contains, nearest to the root first. */
export const configsIn = (sourceDir: string): Promise<string[]> => listConfigs(sourceDir);

/** @param projects files of other projects in the source, from which a server may be recognized. */
function missing(what: string, found: string[], projects: string[] = []): BuildFailure {
  const use = (files: string[]) => `Use --config ${files.length === 1 ? files[0] : "with one of them"}.`;
  const hint =
    found.length > 0
      ? `The source contains ${found.join(", ")}. ${use(found)}`
      : projects.length > 0
        ? `Directories below have projects of their own: ${projects.join(", ")}. ${use(projects)}`
        : "Add a langgraph.json, or a pierhead.json with the start command of any other server.";
  return new BuildFailure("ConfigMissing", `${what}. ${hint}`);
}

/** Limits of the search: deep enough for a monorepo, and fast in any tree. */
const searchDepthMax = 4;
const searchHitsMax = 10;

const listConfigs = (sourceDir: string) => listNearest(sourceDir, ".", (names) => names.filter(isConfigName));

const isConfigName = (name: string) => configNames.includes(name);

/** Lists the projects in the directories below one, with one file of each. */
async function listProjects(sourceDir: string, directory: string): Promise<string[]> {
  const naming = ["pyproject.toml", "requirements.txt", "package.json"];
  const found = await listNearest(sourceDir, directory, (names) => {
    const name = naming.find((one) => names.includes(one));
    return name === undefined ? [] : [name];
  });
  return found.filter((file) => path.posix.dirname(file) !== path.posix.normalize(directory));
}

async function listNearest(sourceDir: string, from: string, wanted: (names: string[]) => string[]): Promise<string[]> {
  const found: string[] = [];
  let level = [from];
  for (let depth = 0; depth <= searchDepthMax && level.length > 0 && found.length < searchHitsMax; depth++) {
    const next: string[] = [];
    for (const directory of level) {
      const entries = await readdir(path.join(sourceDir, directory), { withFileTypes: true });
      const files = entries.filter((entry) => entry.isFile()).map(({ name }) => name);
      found.push(...wanted(files).map((name) => path.posix.join(directory, name)));
      const below = entries.filter(({ name }) => name !== "node_modules" && !name.startsWith("."));
      next.push(...below.filter((entry) => entry.isDirectory()).map(({ name }) => path.posix.join(directory, name)));
    }
    level = next.slice(0, 1_000);
  }
  return found.slice(0, searchHitsMax);
}
