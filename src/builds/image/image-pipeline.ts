import { createWriteStream } from "node:fs";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { pipeline } from "node:stream/promises";
import { Engine } from "../../compute/docker/engine/engine.ts";
import { builtRepository } from "../../compute/docker/images/images.ts";
import { ImageTooLarge, inspectImage } from "../../compute/docker/images/inspect-image.ts";
import { stateMount } from "../../compute/docker/replicas/container.ts";
import type { LanggraphConfig } from "../../compute/process/langgraph/langgraph-config.ts";
import { openHealthPath } from "../../compute/process/langgraph/langgraph-js-options.ts";
import type { Artifact } from "../../contract/listeners/assignment.ts";
import type { BaseImages, BuildRequest, ClusterTarget, ImageTarget, PreparedContext } from "../build.ts";
import { artifactManifestName, builderVersion } from "../cache/artifact.ts";
import { moveWhole } from "../cache/move-atomically.ts";
import { databaseParts } from "../detect/database-parts.ts";
import { parseJsonText } from "../detect/json-text.ts";
import { isOnDefaultPostgres, type LanggraphProject, type PythonProject } from "../detect/langgraph-config.ts";
import type { Project } from "../detect/project.ts";
import { databaseSchemes, wantedVariables } from "../detect/read-variables.ts";
import { BuildFailure, ProgramFailure, tooLarge } from "../failure.ts";
import { misfitExitCode } from "../node/agent-servers.ts";
import { misfitOfInstalled, withoutDefault } from "../node/default-engine.ts";
import { startsAlone } from "../node/launch-line.ts";
import { preloadsOf } from "../node/preloads.ts";
import type { PythonServer } from "../python/wanted-version.ts";
import { isFileInside } from "../sources/inside.ts";
import { contextFileOf } from "../worker/context-file.ts";
import type { BuildContext } from "../worker/run-command.ts";
import { downloadAdded } from "./added-downloads.ts";
import { baseImage, fitProgram, imageEngineDir, startProgram, toolchainDir } from "./base-image.ts";
import { checkTriggers } from "./base-triggers.ts";
import { withBuildNetwork } from "./build-network.ts";
import { planBuild, planInstall, planPythonBuild, planStart, planStartFile } from "./commands.ts";
import { checkNames, packContext, packOwnContext } from "./context.ts";
import {
  appDir,
  contextSource,
  generateDockerfile,
  type Instruction,
  labelStages,
  ownDir,
  programExtension,
  stageLabel,
  tidyProgram,
} from "./dockerfile.ts";
import { buildInEngine, type EngineBuild } from "./engine-build.ts";
import { type Bases, contextBase, engineBases, stageBases } from "./make-base.ts";
import { contextExtra, pythonInstructions } from "./python-image.ts";
import { pythonServerInstructions } from "./python-server-image.ts";

type ImageArtifact = Extract<Artifact, { kind: "image" }>;

/**
 * Builds the image of a project in the container engine of this host, from the project's own Dockerfile or from a generated
 * one. Programs of the project run in containers of the engine, within limits.
 * @throws BuildFailure
 */
export async function makeImage(
  request: BuildRequest,
  target: ImageTarget,
  { project, context }: { project: Project; context: BuildContext },
): Promise<ImageArtifact> {
  try {
    return await makeProjectImage(request, target, { project, context });
  } catch (error) {
    if (request.isDefaultKept || !isOnDefaultPostgres(project) || !isMisfit(error)) throw error;
    const onFiles = withoutDefault(project, misfitOfInstalled, context.log);
    return makeProjectImage(request, target, { project: onFiles, context });
  }
}

const isMisfit = (error: unknown) =>
  error instanceof ProgramFailure && error.reason === "ToolchainFailed" && error.exitCode === misfitExitCode;

async function makeProjectImage(
  request: BuildRequest,
  target: ImageTarget,
  { project, context }: { project: Project; context: BuildContext },
): Promise<ImageArtifact> {
  const engine = await new Engine(target.host).open();
  try {
    const uri = `${builtRepository(target.installationId)}:${request.key}`;
    const digest = await withBuildNetwork(engine, target, request.buildId, async (open) => {
      const label = stageLabel(target.installationId, request.tenantId);
      const prepared =
        project.kind === "dockerfile"
          ? await prepareOwn(engine, label, { dockerfile: project.dockerfile, context, target })
          : await prepareGenerated(engineBases(engine, open, context), request, target, { project, context, label });
      const build = { tag: uri, labels: imageLabels(request), diskBytesMax: request.diskBytesMax, stageLabel: label };
      return buildInEngine(engine, { ...build, ...prepared, target: open }, context);
    });
    await checkSize(engine, digest, request.diskBytesMax);
    context.log.say(`Image ${digest}, built from ${describeSource(request)} by builder ${builderVersion}.`);
    return { ...(await describeImage(project, context)), digest, uri };
  } finally {
    engine.close();
  }
}

/**
 * Prepares the build of a project in a cluster: writes the context to a file. Nothing of the project runs here but uv, which
 * reads its lock file. The base is a stage of the Dockerfile, because clusters share no images between builds.
 * @returns the artifact, still without digest and address
 * @throws BuildFailure
 */
export async function prepareForCluster(
  request: BuildRequest,
  target: ClusterTarget,
  { project, context }: { project: Project; context: BuildContext },
): Promise<{ artifact: ImageArtifact; prepared: PreparedContext }> {
  const label = stageLabel(target.installationId, request.tenantId);
  // The build has no credentials and no images of others, so a project's own Dockerfile may name any image.
  const { context: packed, dockerfile } =
    project.kind === "dockerfile"
      ? await packOwn(project.dockerfile, context)
      : await prepareGenerated(stageBases(context), request, target, { project, context, label });
  const file = contextFileOf(request.workDir);
  await pipeline(packed, createWriteStream(file, { mode: 0o600 }), { signal: context.signal });
  if (isLanggraph(project) && !isDurable(project))
    context.log.say("Note: this agent server keeps its threads in its pod. They are lost when the pod is replaced.");
  const artifact = { ...(await describeImage(project, context)), digest: "", uri: "" };
  return { artifact, prepared: { path: file, dockerfile } };
}

async function packOwn(dockerfile: string, { sourceDir }: BuildContext) {
  await readOwn(dockerfile, sourceDir);
  return { context: await packOwnContext(sourceDir, dockerfile), dockerfile };
}

async function describeImage(project: Project, { sourceDir }: BuildContext) {
  const variables = await wantedVariables(sourceDir, project.directory);
  const schemes = await databaseSchemes(sourceDir, project.directory);
  const parts = await databaseParts(sourceDir, project.directory);
  const isServer = isLanggraph(project);
  const isExclusive = isServer ? !isDurable(project) : project.isExclusive;
  return {
    kind: "image",
    health_path: isServer ? await healthPath(sourceDir, project) : project.healthPath,
    rollout: isExclusive ? "handover" : "rolling",
    engine: isServer ? project.engine : "own",
    ...(isServer && { engine_because: project.engineBecause }),
    ...(variables.length === 0 ? {} : { variables }),
    ...(Object.keys(schemes).length === 0 ? {} : { database_schemes: schemes }),
    ...(Object.keys(parts).length === 0 ? {} : { database_parts: parts }),
    ...(project.kind === "command" && startsAlone(project.start, project.launch) && { starts_alone: true }),
    builder: builderVersion,
  } as const;
}

const isLanggraph = (project: Project): project is LanggraphProject | PythonProject =>
  project.kind === "langgraph-js" || project.kind === "langgraph-python";

const isOnPostgres = (project: Project) => project.kind === "langgraph-js" && project.engine === "postgres";

/** Whether the state is outside of the replicas. */
const isDurable = ({ engine }: LanggraphProject | PythonProject) => engine === "postgres" || engine === "aegra";

type Prepared = Pick<EngineBuild, "context" | "dockerfile" | "instructions" | "mayUseCache">;

async function prepareOwn(
  engine: Engine,
  label: string,
  { dockerfile, context, target }: { dockerfile: string; context: BuildContext; target: ImageTarget },
): Promise<Prepared> {
  const { sourceDir, signal } = context;
  const file = path.join(sourceDir, dockerfile);
  const given = await readOwn(dockerfile, sourceDir);
  const text = target.allowsPrivateRegistries === false ? await downloadAdded(given, context) : given;
  // Triggers run before the label of their stage, so the cache would share them with other workspaces.
  const hasTriggers = await checkTriggers(engine, text, { target, signal });
  await writeFile(file, labelStages(text, label));
  const packed = await packOwnContext(sourceDir, dockerfile);
  return { context: packed, dockerfile, instructions: null, mayUseCache: !hasTriggers };
}

async function readOwn(dockerfile: string, sourceDir: string): Promise<string> {
  if (await isFileInside(sourceDir, dockerfile)) return readFile(path.join(sourceDir, dockerfile), "utf8");
  throw new BuildFailure(
    "ConfigInvalid",
    `${dockerfile} not found in the source. Correct dockerfile in pierhead.json.`,
  );
}

async function prepareGenerated(
  bases: Bases,
  request: BuildRequest,
  target: BaseImages,
  generated: { project: Exclude<Project, { kind: "dockerfile" }>; context: BuildContext; label: string },
): Promise<Prepared> {
  const { project, context, label } = generated;
  const { sourceDir, log } = context;
  await checkNames(sourceDir);
  if (project.kind !== "command") await checkEntryFiles(request, sourceDir, project);
  if (project.kind === "langgraph-python") return preparePython(bases, request, target, { project, context, label });
  if (project.kind === "command" && project.python !== null) {
    const server = { ...project, python: project.python };
    return preparePythonServer(request, target, { project: server, context, label });
  }
  const install = await planInstall(request, sourceDir, project);
  if (install.because !== "") log.say(install.because);
  const base = await baseImage(bases, target, {
    kind: isOnPostgres(project) ? "langgraph-js-postgres" : project.kind,
    context,
  });
  const own = generateDockerfile({
    base: base.name,
    label,
    install,
    afterInstall: project.kind === "langgraph-js" ? [fitServer(project)] : [],
    variables: request.variables ?? {},
    build: [
      ...planBuild(request, project, { mayHaveSiblings: install.manifests === null }),
      ...(await planStartFile(sourceDir, project)),
    ],
    preloads: project.kind === "command" ? preloadsOf(project) : [],
    directory: (project.kind === "command" ? project.startDirectory : undefined) ?? project.directory,
    start: project.kind === "command" ? await planStart(sourceDir, project) : startLanggraph(project),
  });
  return writeGenerated([...base.stage, ...own], context, [contextSource]);
}

/** Writes the Dockerfile and packs it with these entries of the work directory, and with the files of a base stage. */
async function writeGenerated(
  instructions: Instruction[],
  { sourceDir }: BuildContext,
  entries: string[],
): Promise<Prepared> {
  const workDir = path.dirname(sourceDir);
  await writeFile(path.join(workDir, "Dockerfile"), textOf(instructions));
  const hasStage = instructions.some(({ text }) => text.startsWith(`COPY ${contextBase}/`));
  const packed = packContext(workDir, ["Dockerfile", ...(hasStage ? [contextBase] : []), ...entries]);
  return { context: packed, dockerfile: "Dockerfile", instructions, mayUseCache: true };
}

async function preparePython(
  bases: Bases,
  request: BuildRequest,
  target: BaseImages,
  { project, context, label }: { project: PythonProject; context: BuildContext; label: string },
): Promise<Prepared> {
  const given = request.installCommand !== null || request.buildCommand !== null;
  if (given)
    context.log.say("Note: install_command and build_command are for JavaScript projects and have no effect here.");
  const workDir = path.dirname(context.sourceDir);
  await mkdir(path.join(workDir, contextExtra), { recursive: true });
  const instructions = await pythonInstructions(bases, target, { project, context, label });
  return writeGenerated(instructions, context, [contextExtra, contextSource]);
}

async function preparePythonServer(
  request: BuildRequest,
  target: BaseImages,
  { project, context, label }: { project: PythonServer; context: BuildContext; label: string },
): Promise<Prepared> {
  if (request.installCommand !== null)
    context.log.say("Note: install_command has no effect on a Python server that is built as an image.");
  const workDir = path.dirname(context.sourceDir);
  await mkdir(path.join(workDir, contextExtra), { recursive: true });
  const build = await planPythonBuild(request, context.sourceDir, project);
  const instructions = await pythonServerInstructions(target, { project, build, context, label });
  return writeGenerated(instructions, context, [contextExtra, contextSource]);
}

const textOf = (instructions: Instruction[]) => instructions.map(({ text }) => text).join("\n");

function fitServer(project: LanggraphProject): Instruction {
  const { directory } = project;
  const [tidy, fit] = [tidyProgram, fitProgram].map((program) => `${ownDir}/${program}${programExtension}`);
  const argv = ["node", tidy, "node", fit, toolchainDir, path.posix.join(appDir, directory)];
  if (isOnPostgres(project)) argv.push("postgres");
  return {
    text: `RUN ${JSON.stringify(argv)}`,
    runs: { shown: "check of the LangGraph.js server", reason: "ToolchainFailed" },
  };
}

function startLanggraph(project: LanggraphProject): string[] {
  const program = `${ownDir}/${startProgram}${programExtension}`;
  const start = ["node", program, path.posix.join(appDir, project.configPath), stateMount, toolchainDir];
  return isOnPostgres(project) ? [...start, imageEngineDir] : start;
}

/** Checks that the graphs exist. With a build command, which may generate them, only the agent server's start shows it. */
async function checkEntryFiles(
  { buildCommand }: BuildRequest,
  sourceDir: string,
  project: LanggraphProject | PythonProject,
) {
  if (buildCommand !== null) return;
  for (const { place, file } of project.entryFiles) {
    if (await isFileInside(sourceDir, file)) continue;
    const what = `${project.configPath}: ${place} names '${file}', which does not exist in the source`;
    throw new BuildFailure("ConfigInvalid", `${what}. If a build command generates it, set build_command.`);
  }
}

async function healthPath(sourceDir: string, project: LanggraphProject | PythonProject): Promise<string> {
  const { configPath, kind } = project;
  const config = parseJsonText(await readFile(path.join(sourceDir, configPath), "utf8")) as LanggraphConfig;
  if (kind === "langgraph-python") return config.http?.disable_meta === true ? "" : "/ok";
  return openHealthPath(config) ?? "";
}

/** Returns labels that show an image's origin in `docker inspect`, without a query to the database. */
function imageLabels(request: BuildRequest): Record<string, string> {
  const { source } = request;
  return {
    "pierhead.dev/artifact": request.key,
    "pierhead.dev/builder": builderVersion,
    "org.opencontainers.image.created": new Date().toISOString(),
    ...(source.kind === "git" ? { "org.opencontainers.image.revision": source.commitSha } : {}),
  };
}

function describeSource({ source }: BuildRequest): string {
  switch (source.kind) {
    case "git":
      return `commit ${source.commitSha}`;
    case "tarball":
      return `upload sha256:${source.sha256}`;
    case "template":
      return `template ${source.digest}`;
  }
}

async function checkSize(engine: Engine, imageId: string, bytesMax: number): Promise<void> {
  const remove = () => engine.callUnless([404, 409], "DELETE", `/images/${imageId}`, { query: { force: true } });
  try {
    const image = await inspectImage(engine, imageId);
    if (image === undefined) throw new BuildFailure("BuilderFailed", "The image was removed after it was built.");
    if (image.Size <= bytesMax) return;
    await remove();
    throw tooLarge(image.Size, bytesMax);
  } catch (error) {
    if (!(error instanceof ImageTooLarge)) throw error;
    await remove();
    throw new BuildFailure("BuildFailed", `The build made an image that cannot be used: ${error.message}.`);
  }
}

/** Writes the manifest to the path of an artifact directory, so that listing artifacts finds images as well. */
export async function storeManifest(
  request: BuildRequest,
  artifact: ImageArtifact,
  context: BuildContext,
): Promise<void> {
  const target = path.join(request.artifactsDir, request.key);
  const draft = path.join(request.workDir, "manifest");
  await mkdir(draft, { recursive: true });
  await writeFile(path.join(draft, artifactManifestName), JSON.stringify(artifact, null, 2));
  await mkdir(request.artifactsDir, { recursive: true, mode: 0o700 });
  // An existing manifest describes an image that is gone, or one with the same content.
  await rm(target, { recursive: true, force: true });
  await moveWhole(draft, target, context);
}
