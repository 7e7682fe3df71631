import path from "node:path";
import { installFiles, type PackageManager } from "../../domain/detection/install-files.ts";
import type { BuildTarget } from "../build.ts";
import { nodeMajor } from "../cache/artifact.ts";
import { BuildFailure, type BuildFailureReason } from "../failure.ts";
import { installCommand } from "../node/install-command.ts";
import { wantedPython } from "../python/wanted-version.ts";
import { isFileInside } from "../sources/inside.ts";
import { expectedVariables } from "./expected-variables.ts";
import { configsIn, graphsOf, type Project, readProject } from "./project.ts";

/** What a build would make of a source. Paths are relative to the root of the source. */
export interface SourceDescription {
  /** "langgraph.json: 2 graphs, Python 3.12, uv.lock"; null: no server was found. */
  found: string | null;
  kind: "langgraph" | "command" | "dockerfile" | null;
  /** Its name in a sentence, such as "FastAPI"; null: its configuration does not say. */
  framework: string | null;
  /** How it was recognized; null: a configuration describes it. */
  because: string | null;
  configPath: string | null;
  graphs: { id: string; path: string }[];
  language: "python" | "node" | null;
  pythonVersion: string | null;
  nodeVersion: string | null;
  packageManager: PackageManager | null;
  lockFile: string | null;
  buildCommands: string[];
  startCommand: string | null;
  variables: { name: string; example: string; from: string }[];
  notes: string[];
  problem: { reason: BuildFailureReason; message: string } | null;
  /** Configurations that the source contains. */
  configs: string[];
}

export const nothingFound: SourceDescription = {
  found: null,
  kind: null,
  framework: null,
  because: null,
  configPath: null,
  graphs: [],
  language: null,
  pythonVersion: null,
  nodeVersion: null,
  packageManager: null,
  lockFile: null,
  buildCommands: [],
  startCommand: null,
  variables: [],
  notes: [],
  problem: null,
  configs: [],
};

/**
 * Describes what a build would make of a source, with the rules that the build has. Installs and runs nothing.
 * @param sourceDir absolute root of the source.
 * @param configPath as in a build; null: the root of the source decides.
 */
export async function describeSource(
  sourceDir: string,
  configPath: string | null,
  target: BuildTarget["kind"],
): Promise<SourceDescription> {
  const configs = await configsIn(sourceDir);
  try {
    const project = await readProject(sourceDir, configPath, { nodeMajor, target });
    return { ...(await describeProject(sourceDir, project)), configs };
  } catch (error) {
    if (!(error instanceof BuildFailure)) throw error;
    return { ...nothingFound, configs, problem: { reason: error.reason, message: error.message } };
  }
}

async function describeProject(sourceDir: string, project: Project): Promise<SourceDescription> {
  const { directory, configPath } = project;
  const notes = [...project.warnings];
  const graphs =
    project.kind === "langgraph-js" || project.kind === "langgraph-python" ? await graphsOf(sourceDir, project) : [];
  const language = languageOf(project);
  const python = language === "python" ? await pythonOf(sourceDir, project, notes) : null;
  const install = await installerOf(sourceDir, directory, language);
  const shared = {
    ...nothingFound,
    configPath,
    graphs,
    language,
    pythonVersion: python,
    nodeVersion: language === "node" ? String(nodeMajor) : null,
    ...install,
    variables: await variablesOf(sourceDir, directory),
    notes,
    ...commandsOf(project),
  };
  const described: SourceDescription =
    project.kind === "command"
      ? {
          ...shared,
          kind: "command",
          framework: project.recognized?.name ?? null,
          because: project.recognized?.because ?? null,
        }
      : project.kind === "dockerfile"
        ? { ...shared, kind: "dockerfile", framework: "Dockerfile" }
        : { ...shared, kind: "langgraph", framework: project.kind === "langgraph-js" ? "LangGraph.js" : "LangGraph" };
  return { ...described, found: sentenceOf(described) };
}

function languageOf(project: Project): SourceDescription["language"] {
  if (project.kind === "langgraph-js") return "node";
  if (project.kind === "langgraph-python") return "python";
  if (project.kind === "dockerfile") return null;
  return project.python !== null ? "python" : project.install;
}

async function pythonOf(sourceDir: string, project: Project, notes: string[]): Promise<string | null> {
  const log = { say: (text: string) => void notes.push(text.replace(/^Note: /, "")) };
  if (project.kind === "langgraph-python") return (await wantedPython({ sourceDir, log }, project)).version;
  if (project.kind !== "command" || project.python === null) return null;
  return (await wantedPython({ sourceDir, log }, { ...project, python: project.python })).version;
}

/** Returns the program that installs the packages, and its lock file. */
async function installerOf(
  sourceDir: string,
  directory: string,
  language: SourceDescription["language"],
): Promise<Pick<SourceDescription, "packageManager" | "lockFile">> {
  const places = [...new Set([directory, "."])];
  for (const { file, manager } of installFiles) {
    if (isOfPython(manager) !== (language === "python")) continue;
    for (const place of places) {
      const full = path.posix.join(place, file);
      if (!(await isFileInside(sourceDir, full))) continue;
      const isLock = !["package.json", "pyproject.toml", "requirements.txt"].includes(file);
      if (isLock || language !== "node") return { packageManager: manager, lockFile: isLock ? full : null };
      const [declared] = (await installCommand(sourceDir, directory, ""))?.manager.slice(-1) ?? [];
      return {
        packageManager: installFiles.find((one) => one.manager === declared)?.manager ?? manager,
        lockFile: null,
      };
    }
  }
  return { packageManager: null, lockFile: null };
}

const isOfPython = (manager: PackageManager) => ["uv", "poetry", "pip"].includes(manager);

function commandsOf(project: Project): Pick<SourceDescription, "buildCommands" | "startCommand"> {
  if (project.kind !== "command") return { buildCommands: [], startCommand: null };
  const word = (text: string) => (/^[^\s'"]+$/.test(text) ? text : JSON.stringify(text));
  const shown = (argv: string[]) =>
    argv
      .map(word)
      .join(" ")
      .replace(/^script:/, "package.json script ");
  const { variables = {}, before = [] } = project.launch ?? {};
  const set = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
  const start = [...set, shown(project.start)].join(" ");
  return {
    buildCommands: project.build.map(shown),
    startCommand: [...before.map((argv) => shown([...argv])), start].join(" && "),
  };
}

async function variablesOf(sourceDir: string, directory: string): Promise<SourceDescription["variables"]> {
  const expected = await expectedVariables(sourceDir, directory);
  if (expected === null) return [];
  return expected.names.map((name) => ({ name, example: expected.examples[name] ?? "", from: expected.file }));
}

function sentenceOf(source: SourceDescription): string {
  const { graphs, pythonVersion, nodeVersion, lockFile, packageManager, startCommand, configPath } = source;
  const parts = [
    ...(graphs.length === 0 ? [] : [`${graphs.length} graph${graphs.length === 1 ? "" : "s"}`]),
    ...(source.because === null ? [] : [source.because]),
    ...(pythonVersion === null ? [] : [`Python ${pythonVersion}`]),
    ...(nodeVersion === null ? [] : [`Node ${nodeVersion}`]),
    ...(lockFile !== null ? [path.posix.basename(lockFile)] : packageManager !== null ? [packageManager] : []),
    ...(startCommand === null ? [] : [`starts with ${startCommand}`]),
  ];
  const name = source.because === null ? (configPath ?? "") : (source.framework ?? "");
  return parts.length === 0 ? name : `${name}: ${parts.join(", ")}`;
}
