import { readCondaEnvironment } from "./conda-environment.ts";
import type { CondaEnvironment } from "./conda-packages.ts";
import { type DenoFacts, readDeno } from "./deno-server.ts";
import { condaFileNames } from "./install-files.ts";
import { type NodeFacts, readNode } from "./node-facts.ts";
import { isSample, type ProjectReader, readSources } from "./project-sources.ts";
import { findPythonEntries, type PythonEntry, pythonStdio } from "./python-entries.ts";
import { withoutLongStrings } from "./python-text.ts";
import { normalizedName, requirementNames, tomlKeys, tomlList, tomlSection, tomlString } from "./toml-text.ts";

/** What the files of a project say about its server. */
export interface ProjectFacts {
  files: ReadonlySet<string>;
  procfile: Procfile | null;
  node: NodeFacts | null;
  python: PythonFacts | null;
  deno: DenoFacts | null;
}

/** The commands of a Procfile that matter to a server. */
export interface Procfile {
  web: string;
  /** Runs before a version serves, for example the migration of a database; null: nothing. */
  release: string | null;
}

export interface PythonFacts {
  /** Normalized names of the dependencies (PEP 503). */
  packages: ReadonlySet<string>;
  /** The file that declares them. */
  declaredIn: string;
  entries: readonly PythonEntry[];
  /** Those in directories of samples, for a project without any other. */
  samples: readonly PythonEntry[];
  /** Directories of samples with a Django project, for a project without any entry. */
  djangoSamples: readonly string[];
  /** Whether it has an MCP server that speaks over standard input. */
  speaksStdio: boolean;
  /** Whether it is a Django project that serves files which a command collects. */
  collectsStatic: boolean;
  /** Whether it is a Django project with a database, whose tables `manage.py migrate` creates. */
  migratesDatabase: boolean;
  /** Variable with the host names that a Django project serves; null: none is found. */
  hostsVariable: string | null;
  /** Whether a source file reads the variable PORT, or may read it. */
  readsPort: boolean;
  /** `3.12`, from .python-version, runtime.txt or requires-python; null: none of them names one version. */
  version: string | null;
}

/** A longer command of a Procfile is not one that a person wrote. */
const procfileCommandMax = 4_096;

/** Reads the facts of a project. */
export async function readProjectFacts(reader: ProjectReader): Promise<ProjectFacts> {
  const files = new Set(await reader.list());
  const [node, python, deno] = await Promise.all([
    readNode(reader, files),
    readPython(reader, files),
    readDeno(reader, files),
  ]);
  const procfile = files.has("Procfile") ? readProcfile((await reader.read("Procfile")) ?? "") : null;
  return { files, procfile, node, python, deno };
}

const packagesOf = (conda: CondaEnvironment | null) => [
  ...requirementNames(conda?.pip ?? []),
  ...(conda?.packages ?? []).map(({ name }) => name),
];

/** Returns whether a build installs the packages of an environment of conda: only where no other file decides alone. */
function installsConda(files: ReadonlySet<string>, pyproject: string): boolean {
  if (files.has("pyproject.toml") && files.has("uv.lock")) return false;
  const isProject = /^[ \t]*\[(?:build-system|tool\.poetry\.dependencies)\]|^[ \t]*dependencies[ \t]*=/m;
  return isProject.test(pyproject) || !otherFiles.some((name) => files.has(name));
}

/** Files with packages that a build prefers to an environment of conda, after the pyproject.toml. */
const otherFiles = ["requirements.txt", "setup.py", "Pipfile"];

function readProcfile(text: string): Procfile | null {
  const command = (process: string) => {
    const found = new RegExp(`^${process}:[ \\t]*(\\S.*)$`, "m").exec(text)?.[1]?.trim() ?? "";
    return found === "" || found.length > procfileCommandMax ? null : found;
  };
  const web = command("web");
  return web === null ? null : { web, release: command("release") };
}

async function readConda(reader: ProjectReader, files: ReadonlySet<string>) {
  const file = [...condaFileNames, "pyproject.toml"].find((name) => files.has(name));
  return file === undefined ? null : readCondaEnvironment(file, (await reader.read(file)) ?? "");
}

async function readPython(reader: ProjectReader, files: ReadonlySet<string>): Promise<PythonFacts | null> {
  const declaring = ["pyproject.toml", "requirements.txt", "Pipfile", "setup.py", ...condaFileNames];
  const declaredIn = declaring.find((name) => files.has(name));
  if (declaredIn === undefined) return null;
  const [pyproject, requirements, pipfile] = await Promise.all(
    ["pyproject.toml", "requirements.txt", "Pipfile"].map(async (name) => (files.has(name) ? reader.read(name) : null)),
  );
  const project = tomlSection(pyproject ?? "", "project");
  const conda = await readConda(reader, files);
  const packages = [
    ...requirementNames(tomlList(project, "dependencies")),
    ...tomlKeys(tomlSection(pyproject ?? "", "tool.poetry.dependencies")),
    ...requirementNames((requirements ?? "").split("\n")),
    ...tomlKeys(tomlSection(pipfile ?? "", "packages")),
    ...(installsConda(files, pyproject ?? "") ? packagesOf(conda) : []),
  ];
  const names = new Set(packages.map(normalizedName));
  const { texts, isComplete } = await readPythonSources(reader, files);
  const scripts = scriptsOfPackage(pyproject ?? "");
  const pages = await pagesOf(reader, files);
  const found = findPythonEntries({ sources: texts, scripts, packages: names, pages }, files);
  const entries = [...found, ...namedWorkflows(pyproject ?? "", found)];
  const { texts: shown } = entries.length > 0 ? { texts: [] } : await readPythonSources(reader, files, isSample);
  return {
    packages: names,
    declaredIn,
    entries,
    samples: findPythonEntries({ sources: shown, scripts: {}, packages: names }, files),
    djangoSamples: entries.length > 0 ? [] : djangoSamplesIn(files),
    speaksStdio:
      packages.some((name) => /^(mcp|fastmcp)$/i.test(name)) && texts.some(({ text }) => pythonStdio.test(text)),
    collectsStatic:
      files.has("manage.py") &&
      texts.some(({ text }) => /["']django\.contrib\.staticfiles["']/.test(text) && /^STATIC_ROOT\b/m.test(text)),
    migratesDatabase: files.has("manage.py") && texts.some(({ text }) => namesDatabase(text)),
    hostsVariable: files.has("manage.py") ? hostsVariableIn(texts) : null,
    // Another package of a workspace may read it for the server.
    readsPort: !isComplete || inWorkspace.test(pyproject ?? "") || texts.some(({ text }) => pythonPort.test(text)),
    version: (await pythonVersion(reader, files, project)) ?? conda?.pythonVersion ?? null,
  };
}

async function readPythonSources(
  reader: ProjectReader,
  files: ReadonlySet<string>,
  isWanted?: (file: string) => boolean,
) {
  const { texts, isComplete } = await readSources(reader, files, /\.py$/, isWanted);
  return { texts: texts.map(({ file, text }) => ({ file, text: withoutLongStrings(text) })), isComplete };
}

/**
 * How the settings of Django read the allowed host names from a variable, with os, django-environ or python-decouple. Settings that
 * allow every host without the variable, or split it at something else than commas, are left alone.
 */
const allowedHosts =
  /\b(?:getenv|environ(?:\.get)?|config|env(?:\.list)?)\s{0,20}[([]\s{0,100}["'](\w*ALLOWED_HOSTS)["'](?![^\n]{0,100}(?:["']\*["']|split\((?!["'],["']\))))/;

const hostsVariableIn = (texts: readonly { text: string }[]) =>
  texts.map(({ text }) => allowedHosts.exec(text)?.[1]).find((name) => name !== undefined) ?? null;

const pageForm = /\b(?:streamlit|chainlit) run (?:\.\/)?([\w./-]{1,200}\.py)\b/g;

/** Returns the files that the README of a project runs as pages. */
async function pagesOf(reader: ProjectReader, files: ReadonlySet<string>): Promise<Set<string>> {
  const readme = files.has("README.md") ? ((await reader.read("README.md")) ?? "") : "";
  return new Set([...readme.matchAll(pageForm)].map((match) => match[1] ?? ""));
}

const djangoSamplesIn = (files: ReadonlySet<string>) =>
  [...files]
    .filter((file) => /\/manage\.py$/.test(file) && isSample(file))
    .map((file) => file.slice(0, file.lastIndexOf("/")));

/** A project without a database has `DATABASES = {}`. */
const namesDatabase = (text: string) =>
  /^[ \t]*DATABASES\b[ \t]*[:=]/m.test(text) && /["']ENGINE["']|\bdj_database_url\b|\benv\.db\(/.test(text);

/** Tables of workflows for `llamactl`, of its new and its earlier versions. It reads the first one. */
const workflowTables = ["tool.llamaagents.workflows", "tool.llamadeploy.workflows"];

const hasServer = (entries: readonly PythonEntry[]) =>
  entries.some(({ isIndirect, isOfOther }) => !isIndirect && isOfOther !== true);

/** Returns the entry of a project without a server of its own, whose pyproject.toml names workflows of LlamaIndex. */
function namedWorkflows(pyproject: string, found: readonly PythonEntry[]): PythonEntry[] {
  const table = workflowTables.find((name) => tomlKeys(tomlSection(pyproject, name)).length > 0);
  if (hasServer(found) || table === undefined) return [];
  const module = { file: "pyproject.toml", importRoot: "", module: "pierhead_workflows", name: `[${table}]` };
  return [{ kind: "workflow-names", ...module, options: "", hasOwnPort: false, isIndirect: false }];
}

/** Bounds the work: the source of the server is searched once for each script. Packages have fewer. */
const scriptsMax = 50;

/** Returns the scripts of a project that is installed as a package: another one has no programs. */
function scriptsOfPackage(pyproject: string): Record<string, string> {
  if (!/^[ \t]*\[build-system\]/m.test(pyproject)) return {};
  const section = ["project.scripts", "tool.poetry.scripts"].map((name) => tomlSection(pyproject, name)).join("\n");
  const names = tomlKeys(section)
    .filter((name) => /^[\w.-]+$/.test(name))
    .slice(0, scriptsMax);
  return Object.fromEntries(names.flatMap((name) => [[name, tomlString(section, name) ?? ""]]));
}

/** How a pyproject.toml names a package of its workspace of uv as a dependency. */
const inWorkspace = /\bworkspace[ \t]*=[ \t]*true\b/;

/** Python code that reads the variable PORT. Subclasses of `BaseSettings` read it without naming it. */
const pythonPort = /["']PORT["']|\benv\.PORT\b|\bBaseSettings\b/;

async function pythonVersion(
  reader: ProjectReader,
  files: ReadonlySet<string>,
  project: string,
): Promise<string | null> {
  for (const name of [".python-version", "runtime.txt"]) {
    const [, version] = /^(?:python-)?(3\.\d+)/m.exec(files.has(name) ? ((await reader.read(name)) ?? "") : "") ?? [];
    if (version !== undefined) return version;
  }
  const required = tomlString(project, "requires-python") ?? "";
  return /^\s*(?:==|~=)\s*(3\.\d+)(?:\.[\d*]+)?\s*$/.exec(required)?.[1] ?? null;
}
