import { cp, mkdir, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import type { Artifact, Engine } from "../../contract/listeners/assignment.ts";
import type { AddedFile } from "../../domain/detection/presets.ts";
import { engines } from "../../domain/engines.ts";
import { reusedArtifactLine } from "../../domain/reused-artifact.ts";
import type { BuildRequest, BuildResult } from "../build.ts";
import { artifactManifestName, builderVersion, directorySize, nodeMajor, readArtifact } from "../cache/artifact.ts";
import { moveWhole } from "../cache/move-atomically.ts";
import { databaseParts } from "../detect/database-parts.ts";
import { expectedVariables } from "../detect/expected-variables.ts";
import { isOnDefaultPostgres, type PythonProject, withEngine } from "../detect/langgraph-config.ts";
import type { CommandProject } from "../detect/pierhead-config.ts";
import { type Project, readProject } from "../detect/project.ts";
import { databaseSchemes, wantedVariables } from "../detect/read-variables.ts";
import { BuildFailure, tooLarge } from "../failure.ts";
import { isUsable } from "../image/saved-image.ts";
import { addEnvironmentFiles } from "../node/add-environment-files.ts";
import { runBuildCommand, runBuildLine, runIfPossible } from "../node/build-project.ts";
import { misfitOfInstalled, postgresMisfit, sayOnFiles, withoutDefault } from "../node/default-engine.ts";
import { installPackages } from "../node/install-packages.ts";
import { launchLine, showLaunch, startsAlone } from "../node/launch-line.ts";
import { hostVariables, preloadsOf } from "../node/preloads.ts";
import { beforeCommand, startCommand } from "../node/run-script.ts";
import { withBuiltFile } from "../node/start-file.ts";
import { engineDirOf, findPostgresToolchain, langgraphToolchain } from "../node/toolchain.ts";
import { buildSiblings } from "../node/workspace-siblings.ts";
import { layOutLocalPackages, packagesDirName } from "../python/local-packages.ts";
import { addImportRoot, layOutPrograms, serverEnvironment } from "../python/server-environment.ts";
import { noteUser } from "../python/shared-environment.ts";
import { layOutTools, toolEnvironment } from "../python/tool-environment.ts";
import { virtualEnvironment } from "../python/virtual-environment.ts";
import { isFileInside } from "../sources/inside.ts";
import { fetchSource, showSource } from "../sources/source.ts";
import type { BuildContext } from "./run-command.ts";

type Built = Extract<BuildResult, { ok: true }>;
type BuiltHere = Exclude<Project, { kind: "dockerfile" }>;

/** Runs the steps from source to artifact. Every step works in `context.sourceDir`; the last one moves it to its final path. */
export async function runPipeline(request: BuildRequest, context: BuildContext): Promise<Built> {
  const target = path.join(request.artifactsDir, request.key);
  const kept = await readArtifact(target);
  const isHiding = request.isDefaultKept && kept?.engine === "file";
  if (kept !== undefined && !isHiding && (await isUsable(kept, request.target))) {
    context.log.say(reusedArtifactLine);
    return { ok: true, artifact: kept, cached: true, steps: [] };
  }
  const { target: wanted } = request;
  const steps = new Steps(
    context,
    { directory: stepCount, image: imageStepCount, cluster: clusterStepCount }[wanted.kind],
  );
  await steps.run(`Fetch ${showSource(request)}`, () => fetchSource(request, context));
  const project = await steps.run("Read the configuration", () => readConfiguration(request, context));
  if (project.kind === "command") {
    if (project.file !== undefined) await addFile(context, project, project.file);
    await addEnvironmentFiles(context, project);
  }
  if (wanted.kind === "image") {
    const { makeImage, storeManifest } = await import("../image/image-pipeline.ts");
    const artifact = await steps.run("Build the image", () => makeImage(request, wanted, { project, context }));
    await steps.run("Store the artifact", () => storeManifest(request, artifact, context));
    return { ok: true, artifact, cached: false, steps: steps.done };
  }
  if (wanted.kind === "cluster") {
    const { prepareForCluster } = await import("../image/image-pipeline.ts");
    const prepare = () => prepareForCluster(request, wanted, { project, context });
    const { artifact, prepared } = await steps.run("Prepare the build context", prepare);
    return { ok: true, artifact, cached: false, steps: steps.done, context: prepared };
  }
  if (project.kind === "dockerfile") throw needsEngine(project);
  const installed = await steps.run("Install dependencies", () => install(request, context, project));
  await steps.run("Build", () => build(request, withEnvironment(context, installed), project));
  const start = await steps.run("Prepare the start", () =>
    prepareStart(request, context, { project, target, installed }),
  );
  const artifact = await steps.run("Store the artifact", () => store(request, context, { project, start, target }));
  return { ok: true, artifact, cached: false, steps: steps.done };
}

/** Adds a file beside the server, where its start command finds it. A link of the source with its name may lead elsewhere. */
async function addFile(
  { sourceDir, log }: BuildContext,
  { directory, startDirectory = directory }: CommandProject,
  { name, text }: AddedFile,
): Promise<void> {
  const file = path.join(sourceDir, startDirectory, name);
  await rm(file, { recursive: true, force: true });
  await writeFile(file, text, { flag: "wx" });
  log.say(`Added ${path.posix.join(startDirectory, name)}, which the start command needs.`);
}

const stepCount = 6;
const imageStepCount = 4;
/** The last step runs in the cluster. */
const clusterStepCount = 4;

const needsEngine = ({ dockerfile }: { dockerfile: string }) =>
  new BuildFailure(
    "Unsupported",
    `${dockerfile} needs a container engine, but this server runs agents as plain processes. Start the server with PIERHEAD_COMPUTE=docker, or describe the agent in a pierhead.json.`,
  );

/** Numbers, times and logs the steps of a build. */
class Steps {
  readonly #context: BuildContext;
  readonly #count: number;
  readonly done: { name: string; durationMs: number }[] = [];

  constructor(context: BuildContext, count: number) {
    this.#context = context;
    this.#count = count;
  }

  async run<T>(name: string, step: () => Promise<T>): Promise<T> {
    const { log, signal } = this.#context;
    const title = `Step ${this.done.length + 1}/${this.#count}: ${name}`;
    log.say(title);
    signal.throwIfAborted();
    const startedAt = performance.now();
    const result = await step();
    signal.throwIfAborted();
    const durationMs = Math.round(performance.now() - startedAt);
    this.done.push({ name, durationMs });
    log.say(
      `Step ${this.done.length}/${this.#count} done in ${(durationMs / 1000).toFixed(1)} s${typeof result === "string" ? `: ${result}` : ""}`,
    );
    return result;
  }
}

async function readConfiguration(request: BuildRequest, context: BuildContext): Promise<Project> {
  const { sourceDir, log } = context;
  const host = { nodeMajor, target: request.target.kind === "directory" ? "directory" : "image" } as const;
  const found = await readProject(sourceDir, request.configPath, host);
  const project = await fittingImage(withEngine(found, request.engine, request.defaultEngine), request, context);
  const recognized = project.kind === "command" ? project.recognized : undefined;
  if (recognized === undefined) log.say(`${project.configPath} describes ${descriptions[project.kind]}.`);
  else log.say(`Recognized ${recognized.name}: ${recognized.because}.`);
  for (const warning of project.warnings) log.say(`Note: ${warning}`);
  if (request.engine !== null) log.say(`Engine: ${request.engine}, as the deployment chose it.`);
  else if (isOnDefaultPostgres(project))
    log.say(`Engine: postgres, because the deployment has a PostgreSQL and ${project.configPath} names no engine.`);
  const names = Object.keys(request.variables ?? {});
  if (names.length > 0)
    log.say(`The build writes these variables of the deployment into the code for browsers: ${names.join(", ")}.`);
  const expected = await expectedVariables(sourceDir, project.directory);
  if (expected !== null && expected.names.length > 0)
    log.say(`${expected.file} names these variables: ${expected.names.join(", ")}.`);
  return project;
}

/**
 * Returns a project on files if its image would not work with the default. An image has the server of its engine before the packages
 * are installed, and a cluster builds it elsewhere, so what the source says of them decides.
 */
async function fittingImage(
  project: Project,
  { target, isDefaultKept }: BuildRequest,
  { sourceDir, log }: BuildContext,
): Promise<Project> {
  if (target.kind === "directory" || isDefaultKept || !isOnDefaultPostgres(project)) return project;
  const misfit = await postgresMisfit(sourceDir, project.directory);
  return misfit === null ? project : withoutDefault(project, misfit, log);
}

const descriptions = {
  command: "a server started by command",
  dockerfile: "an image",
  "langgraph-js": "a LangGraph.js agent",
  "langgraph-python": "a LangGraph agent in Python",
};

/** Directories that the install step created outside the source. */
interface Installed {
  environmentDir?: string;
  /** Programs in an environment of their own, which the start command needs. */
  tools?: { directory: string; names: readonly string[] };
}

/** Puts the programs of the Python environment on the PATH of the build commands. */
function withEnvironment(context: BuildContext, { environmentDir }: Installed): BuildContext {
  if (environmentDir === undefined) return context;
  const PATH = [path.join(environmentDir, "bin"), context.env["PATH"]].join(path.delimiter);
  return { ...context, env: { ...context.env, PATH, VIRTUAL_ENV: environmentDir } };
}

async function install(request: BuildRequest, context: BuildContext, project: BuiltHere): Promise<Installed> {
  if (project.kind === "langgraph-python") {
    return { environmentDir: await virtualEnvironment(context, project, request.key) };
  }
  if (project.kind === "command" && project.python !== null) {
    if (request.installCommand !== null) await installJavascript(request, context, project);
    const { python } = project;
    const environmentDir = await serverEnvironment(context, { ...project, python }, request.key);
    if (python.tools === undefined) return { environmentDir };
    return { environmentDir, tools: { directory: await toolEnvironment(context, python.tools), names: python.tools } };
  }
  await installJavascript(request, context, project);
  return {};
}

async function installJavascript(
  request: BuildRequest,
  context: BuildContext,
  project: Exclude<BuiltHere, PythonProject>,
): Promise<void> {
  if (request.installCommand === null && project.kind === "command" && project.install === null) {
    context.log.say(
      project.recognized === undefined
        ? "Nothing to install: a pierhead.json lists its commands under build."
        : "Nothing to install with a package manager.",
    );
    return;
  }
  // With its own build command, dependencies are installed at the root of the source and the build runs beside its configuration.
  const directory = request.buildCommand === null ? project.directory : ".";
  await installPackages(context, { directory, installCommand: request.installCommand });
}

async function build(request: BuildRequest, context: BuildContext, project: BuiltHere): Promise<void> {
  const cwd = project.directory;
  // A build command of the user's own, and the commands of a pierhead.json, are all that such a project needs.
  const isGiven = request.buildCommand !== null || (project.kind === "command" && project.install !== "node");
  if (project.kind !== "langgraph-python" && !isGiven) await buildSiblings(context, cwd);
  if (project.kind === "langgraph-python") {
    const given = request.installCommand !== null || request.buildCommand !== null;
    const ignored = "install_command and build_command are for JavaScript projects and have no effect here.";
    context.log.say(given ? `Note: ${ignored}` : "Nothing to build.");
  } else if (request.buildCommand !== null) {
    await runBuildLine(context, cwd, request.buildCommand);
  } else if (project.kind === "command" && project.build.length > 0) {
    for (const given of project.build) await runBuildCommand(context, cwd, given);
  } else if (project.kind !== "command" || project.afterBuild === undefined) {
    context.log.say("Nothing to build.");
  }
  // The user's own build command replaces the build script.
  const isReplaced = request.buildCommand !== null && project.kind === "command" && project.install === "node";
  if (project.kind === "command" && project.afterBuild !== undefined && !isReplaced)
    await runIfPossible(context, cwd, project.afterBuild);
}

type StartPlan = (Artifact & { kind: "directory" })["start"];

async function prepareStart(
  request: BuildRequest,
  context: BuildContext,
  { project, target, installed }: { project: BuiltHere; target: string; installed: Installed },
): Promise<StartPlan> {
  const { sourceDir } = context;
  if (project.kind === "command") return prepareCommand(context, project, { target, installed });
  for (const { place, file } of project.entryFiles) {
    if (await isFileInside(sourceDir, file)) continue;
    throw new BuildFailure(
      "ConfigInvalid",
      `${project.configPath}: ${place} names '${file}', which does not exist in the source. If a build command generates it, set build_command, for example 'npm run build'.`,
    );
  }
  const { environmentDir } = installed;
  if (environmentDir !== undefined) {
    await layOutLocalPackages(environmentDir, sourceDir, target);
    await noteUser(environmentDir, target);
    const { configPath } = project;
    const start = { environment_dir: environmentDir, packages_dir: packagesDirName, config_path: configPath };
    return { runner: "langgraph-python", ...start };
  }
  const [graph] = project.entryFiles;
  const projectDir = path.join(sourceDir, project.directory);
  const graphDir = path.join(sourceDir, path.dirname(graph?.file ?? project.configPath));
  const start = { runner: "langgraph-js", config_path: project.configPath } as const;
  const onPostgres = await postgresToolchain(request, context, { project, projectDir, graphDir });
  if (onPostgres !== null) return { ...start, toolchain_dir: onPostgres, engine_dir: engineDirOf(onPostgres) };
  const toolchain = await langgraphToolchain(context, { projectDir, graphDir, engine: "file" });
  const inside = path.relative(sourceDir, toolchain);
  return { ...start, toolchain_dir: inside.startsWith("..") ? toolchain : path.join(target, inside) };
}

/** Plans the start of a server that has a command. */
async function prepareCommand(
  context: BuildContext,
  project: CommandProject,
  { target, installed }: { target: string; installed: Installed },
): Promise<StartPlan> {
  const { sourceDir } = context;
  const { variables = {}, before = [], programs = null } = project.launch ?? {};
  const added = programs === null ? [] : [path.join(sourceDir, project.directory, programs)];
  const searchPath = [...added, context.env["PATH"] ?? ""].join(path.delimiter);
  const cwd = project.startDirectory ?? project.directory;
  const given = await startCommand(sourceDir, cwd, { start: project.start, searchPath });
  const built = await withBuiltFile(sourceDir, cwd, given);
  if (built !== null)
    context.log.say(
      `The start command names ${built.named}, which does not exist. The build made ${built.found}, so the server starts from there. Correct the start script to avoid this note.`,
    );
  const argv = built?.argv ?? given;
  const launch = {
    variables: { ...variables, ...hostVariables(project) },
    before: project.install === "node" ? before.map(beforeCommand) : before,
    programs,
  };
  context.log.say(`Start: ${showLaunch(argv, launch)}${cwd === "." ? "" : ` (in ${cwd})`}`);
  const modules = await Promise.all(preloadsOf(project).map((name) => addPreload(sourceDir, target, name)));
  const plan = { runner: "command" as const, argv: launchLine(argv, launch, modules), cwd };
  const { environmentDir, tools } = installed;
  if (environmentDir === undefined) return plan;
  await layOutLocalPackages(environmentDir, sourceDir, target);
  await layOutPrograms(environmentDir, sourceDir);
  if (project.importsFrom !== undefined) await addImportRoot(sourceDir, target, project.importsFrom);
  await noteUser(environmentDir, target);
  if (tools !== undefined) {
    await layOutTools(tools.directory, sourceDir, tools.names);
    await noteUser(tools.directory, target);
  }
  return { ...plan, environment_dir: environmentDir, packages_dir: packagesDirName };
}

/** Copies a module that Node loads before the server into the source. Returns its address in the artifact. */
async function addPreload(sourceDir: string, target: string, name: string): Promise<string> {
  const copyName = `.pierhead-${name}`;
  const file = path.join(sourceDir, copyName);
  await rm(file, { recursive: true, force: true });
  await cp(fileURLToPath(new URL(`../../compute/${name}`, import.meta.url)), file);
  return pathToFileURL(path.join(target, copyName)).href;
}

/** Returns null for a project on files, also for one whose packages do not fit the default that has no threads yet. */
async function postgresToolchain(
  { isDefaultKept }: BuildRequest,
  context: BuildContext,
  { project, ...directories }: { project: BuiltHere; projectDir: string; graphDir: string },
): Promise<string | null> {
  if (project.kind !== "langgraph-js" || project.engine !== "postgres") return null;
  if (isDefaultKept || project.engineBecause !== "default")
    return langgraphToolchain(context, { ...directories, engine: "postgres" });
  const found = await findPostgresToolchain(context, directories.graphDir);
  if (found === null) sayOnFiles(misfitOfInstalled, context.log);
  return found;
}

/** Writes the manifest and renames the directory to its final path, so that an artifact is either complete or absent. */
async function store(
  request: BuildRequest,
  { sourceDir, env, signal }: BuildContext,
  { project, start, target }: { project: BuiltHere; start: StartPlan; target: string },
): Promise<Artifact & { kind: "directory" }> {
  const bytes = await directorySize(sourceDir, signal);
  if (bytes > request.diskBytesMax) throw tooLarge(bytes, request.diskBytesMax);
  const engine = engineOf(project, start);
  const { rollout, healthPath } = engines[engine];
  const variables = await wantedVariables(sourceDir, project.directory);
  const schemes = await databaseSchemes(sourceDir, project.directory);
  const parts = await databaseParts(sourceDir, project.directory);
  const artifact: Artifact & { kind: "directory" } = {
    kind: "directory",
    digest: `sha256:${request.key}`,
    path: target,
    start,
    health_path: project.kind === "command" ? project.healthPath : healthPath,
    rollout: project.kind === "command" && project.isExclusive ? "handover" : rollout,
    engine,
    ...(project.kind !== "command" && {
      engine_because: engine === project.engine ? project.engineBecause : ("packages" as const),
    }),
    ...(variables.length === 0 ? {} : { variables }),
    ...(Object.keys(schemes).length === 0 ? {} : { database_schemes: schemes }),
    ...(Object.keys(parts).length === 0 ? {} : { database_parts: parts }),
    ...(project.kind === "command" && startsAlone(project.start, project.launch) && { starts_alone: true }),
    builder: builderVersion,
  };
  await writeFile(path.join(sourceDir, artifactManifestName), JSON.stringify(artifact, null, 2));
  await mkdir(request.artifactsDir, { recursive: true, mode: 0o700 });
  return moveInto(sourceDir, artifact, { env, signal });
}

function engineOf(project: BuiltHere, start: StartPlan): Engine {
  if (project.kind === "command") return "own";
  if (project.kind === "langgraph-python") return project.engine;
  return start.runner === "langgraph-js" && start.engine_dir !== undefined ? "postgres" : "file";
}

/** Moves the directory to its final path. If another build of the same source was faster, its artifact is used. */
async function moveInto(
  sourceDir: string,
  artifact: Artifact & { kind: "directory" },
  context: Pick<BuildContext, "env" | "signal">,
): Promise<Artifact & { kind: "directory" }> {
  try {
    await moveWhole(sourceDir, artifact.path, context);
    return artifact;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "EXDEV") {
      const near = `${artifact.path}.unfinished-${process.pid}`;
      await cp(sourceDir, near, { recursive: true, verbatimSymlinks: true });
      await rm(sourceDir, { recursive: true, force: true });
      return moveInto(near, artifact, context);
    }
    if (code !== "ENOTEMPTY" && code !== "EEXIST") throw error;
    const kept = await readArtifact(artifact.path);
    if (kept?.kind === "directory") return kept;
    await rm(artifact.path, { recursive: true, force: true });
    return moveInto(sourceDir, artifact, context);
  }
}
