import { findPythonEntries, type PythonEntry } from "./python-entries.ts";
import { requirementNames, tomlKeys, tomlList, tomlSection, tomlString } from "./toml-text.ts";

/** Access to the files of one project. Paths are relative to its directory, with `/`. */
export interface ProjectReader {
  /** Lists the files of the directory and below, without those of third parties. */
  list(): Promise<readonly string[]>;
  /** @returns null when the file does not exist, is not text, or is too large to be written by hand. */
  read(file: string): Promise<string | null>;
}

/** What the files of a project say about its server. */
export interface ProjectFacts {
  files: ReadonlySet<string>;
  /** The `web` command of a Procfile. */
  procfile: string | null;
  node: NodeFacts | null;
  python: PythonFacts | null;
}

export interface NodeFacts {
  scripts: Readonly<Record<string, string>>;
  /** Names of all dependencies, with development dependencies. */
  packages: ReadonlySet<string>;
  /** A server file that exists: `main` of package.json, or a file with a usual name. */
  entry: string | null;
  isWorkspaceRoot: boolean;
  /** Whether its only transport is the standard input: there is no HTTP server. */
  isStdioOnly: boolean;
  /** Whether its own sources start a server, and none of them reads the variable PORT. */
  hasOwnPort: boolean;
}

export interface PythonFacts {
  /** Normalized names of the dependencies (PEP 503). */
  packages: ReadonlySet<string>;
  /** The file that declares them. */
  declaredIn: string;
  entries: readonly PythonEntry[];
  /** Whether it is a Django project that serves files which a command collects. */
  collectsStatic: boolean;
  /** Whether a source file reads the variable PORT, or may read it. */
  readsPort: boolean;
  /** `3.12`, from .python-version, runtime.txt or requires-python; null: none of them names one version. */
  version: string | null;
}

/** Limits of what is read: enough for a server with its modules, and fast in any tree. */
const sourcesMax = 200;
const sourceDepthMax = 5;
const sourceCharactersMax = 4 * 1024 * 1024;

/** A longer command of a Procfile is not one that a person wrote. */
const procfileCommandMax = 4_096;

/** Directories whose programs are not the server. */
const besides = /(^|\/)(tests?|__tests__|docs?|examples?|notebooks?|migrations|alembic|evals?|benchmarks?|scripts)\//;

/** Reads the facts of a project. */
export async function readProjectFacts(reader: ProjectReader): Promise<ProjectFacts> {
  const files = new Set(await reader.list());
  const [node, python] = await Promise.all([readNode(reader, files), readPython(reader, files)]);
  const procfile = files.has("Procfile") ? await reader.read("Procfile") : null;
  const web = /^web:[ \t]*(\S.*)$/m.exec(procfile ?? "")?.[1]?.trim() ?? null;
  return { files, procfile: web !== null && web.length <= procfileCommandMax ? web : null, node, python };
}

interface Sources {
  texts: { file: string; text: string }[];
  /** Whether these are all sources of the project. */
  isComplete: boolean;
}

/** Reads the project's own source files with an extension, nearest to the root first, within the limits. */
async function readSources(reader: ProjectReader, files: ReadonlySet<string>, extension: RegExp): Promise<Sources> {
  const own = [...files].filter((file) => extension.test(file) && !besides.test(file));
  const near = own
    .filter((file) => depthOf(file) <= sourceDepthMax)
    .sort((a, b) => depthOf(a) - depthOf(b) || (a < b ? -1 : 1))
    .slice(0, sourcesMax);
  const read = await Promise.all(near.map(async (file) => ({ file, text: await reader.read(file) })));
  let left = sourceCharactersMax;
  const texts = read.flatMap(({ file, text }) => {
    left -= text?.length ?? 0;
    return text === null || left < 0 ? [] : [{ file, text }];
  });
  return { texts, isComplete: texts.length === own.length };
}

const depthOf = (file: string) => file.split("/").length;

/** Server files that frameworks generate, in the order in which they are tried. */
const serverNames = ["server", "app", "index", "main"];
const serverFiles = ["", "src/"].flatMap((directory) =>
  serverNames.flatMap((name) =>
    ["js", "mjs", "cjs", "ts", "mts"].map((extension) => `${directory}${name}.${extension}`),
  ),
);

async function readNode(reader: ProjectReader, files: ReadonlySet<string>): Promise<NodeFacts | null> {
  if (!files.has("package.json")) return null;
  const manifest = objectOf(parse((await reader.read("package.json")) ?? ""));
  const scripts = Object.entries(scriptsOf(manifest)).filter(
    (entry): entry is [string, string] => typeof entry[1] === "string",
  );
  const packages = ["dependencies", "devDependencies", "optionalDependencies"].flatMap((kind) =>
    Object.keys(objectOf(manifest[kind])),
  );
  const sources = await readSources(reader, files, /\.[cm]?[jt]sx?$/);
  const texts = sources.texts.map(({ text }) => text);
  const main = typeof manifest["main"] === "string" ? manifest["main"].replace(/^\.\//, "") : null;
  return {
    scripts: Object.fromEntries(scripts),
    packages: new Set(packages),
    entry: serverFile(main, "build" in scriptsOf(manifest), files),
    isWorkspaceRoot: manifest["workspaces"] !== undefined || files.has("pnpm-workspace.yaml"),
    isStdioOnly: packages.includes("@modelcontextprotocol/sdk") && isStdioOnly(texts),
    hasOwnPort: sources.isComplete && texts.some((text) => /\.listen\(|\bserve\(/.test(text)) && !texts.some(readsPort),
  };
}

const scriptsOf = (manifest: Record<string, unknown>) => objectOf(manifest["scripts"]);

/** Returns `main` of package.json if it exists or a build makes it, else a file with a usual name. */
function serverFile(main: string | null, hasBuild: boolean, files: ReadonlySet<string>): string | null {
  const isMade = main !== null && hasBuild && /^(dist|build|lib|out)\//.test(main);
  if (main !== null && (isMade || files.has(main))) return main;
  return serverFiles.find((file) => files.has(file)) ?? null;
}

function isStdioOnly(texts: readonly string[]): boolean {
  if (!texts.some((text) => text.includes("StdioServerTransport"))) return false;
  return !texts.some((text) =>
    /HTTPServerTransport|HttpServerTransport|SSEServerTransport|\.listen\(|\bserve\(/.test(text),
  );
}

async function readPython(reader: ProjectReader, files: ReadonlySet<string>): Promise<PythonFacts | null> {
  const declaredIn = ["pyproject.toml", "requirements.txt", "Pipfile", "setup.py"].find((name) => files.has(name));
  if (declaredIn === undefined) return null;
  const [pyproject, requirements, pipfile] = await Promise.all(
    ["pyproject.toml", "requirements.txt", "Pipfile"].map(async (name) => (files.has(name) ? reader.read(name) : null)),
  );
  const project = tomlSection(pyproject ?? "", "project");
  const packages = [
    ...requirementNames(tomlList(project, "dependencies")),
    ...tomlKeys(tomlSection(pyproject ?? "", "tool.poetry.dependencies")),
    ...requirementNames((requirements ?? "").split("\n")),
    ...tomlKeys(tomlSection(pipfile ?? "", "packages")),
  ];
  const { texts, isComplete } = await readSources(reader, files, /\.py$/);
  return {
    packages: new Set(packages.map(normalized)),
    declaredIn,
    entries: findPythonEntries(texts, files),
    collectsStatic:
      files.has("manage.py") &&
      texts.some(({ text }) => /["']django\.contrib\.staticfiles["']/.test(text) && /^STATIC_ROOT\b/m.test(text)),
    // Another package of a workspace may read it for the server.
    readsPort: !isComplete || inWorkspace.test(pyproject ?? "") || texts.some(({ text }) => pythonPort.test(text)),
    version: await pythonVersion(reader, files, project),
  };
}

/** How a pyproject.toml names a package of its workspace of uv as a dependency. */
const inWorkspace = /\bworkspace[ \t]*=[ \t]*true\b/;

/** How Python reads the variable PORT. Classes of settings read it without naming it. */
const pythonPort = /["']PORT["']|\benv\.PORT\b|\bBaseSettings\b/;

/** How JavaScript reads it: by name, by destructuring, or in a schema of all variables. */
const nodePort = /["'`]PORT["'`]|\benv\??\.PORT\b|[{,]\s*PORT\b|^[ \t]*PORT\s*:/m;

/** Whether a source file reads the variable PORT. Bun reads it itself, unless the program says which port it wants. */
const readsPort = (text: string) => nodePort.test(text) || (/\bBun\.serve\(/.test(text) && !/\bport\s*:/.test(text));

const normalized = (name: string) => name.toLowerCase().replaceAll(/[-_.]+/g, "-");

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

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // the package manager reports what is wrong with it
  }
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
