import path from "node:path";
import { type LocalHost, localHostOf } from "./local-host.ts";
import { type McpTransport, reachedFrom, readMcpTransport, sourceOf, stdio } from "./mcp-transport.ts";
import { mcpScripts } from "./presets.ts";
import { type ProjectReader, readSources, type SourceText } from "./project-sources.ts";

/** What the files of a JavaScript project say about its server. */
export interface NodeFacts {
  scripts: Readonly<Record<string, string>>;
  /** Names of all dependencies, with development dependencies. */
  packages: ReadonlySet<string>;
  /** Whether it has Auth.js, which is version 5 of NextAuth.js. */
  hasAuthJs: boolean;
  /** A server file: `main` or `bin` of package.json, the file of a development script, or a file with a usual name. */
  entry: string | null;
  /** What `entry` needs on its command line to start the server, after a space; "" if nothing. */
  entryArguments: string;
  /**
   * Whether `entry` exports an application, as hosts of functions and Bun expect it, and neither it nor a file that it imports
   * opens a port.
   */
  exportsApp: boolean;
  /** Whether its sources use modules or globals that only Bun has, as Elysia without its adapter for Node does. */
  needsBun: boolean;
  isWorkspaceRoot: boolean;
  mcp: McpTransport;
  /** The only name to which its server of the MCP answers; null: any. */
  localHost: LocalHost | null;
  /** Whether a file configures the host names that a server of its framework answers to. */
  namesHosts: boolean;
  /** Whether one of its own sources opens a port. */
  opensPort: boolean;
  /** Scripts that run a source file, when nothing else says which one is the server. */
  programs: readonly string[];
  /** Files that open a port, when nothing says which one is the server. */
  servers: readonly string[];
  /** A source file that imports the runtime of Cloudflare Workers, which Node does not have; null: none. */
  workerFile: string | null;
  /** Whether its own sources start a server, and none of them reads the variable PORT. */
  hasOwnPort: boolean;
}

export async function readNode(reader: ProjectReader, files: ReadonlySet<string>): Promise<NodeFacts | null> {
  if (!files.has("package.json")) return null;
  const manifest = objectOf(parse(await textIn(reader, files, "package.json")));
  const scripts = Object.fromEntries(
    Object.entries(objectOf(manifest["scripts"])).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string",
    ),
  );
  const dependencies = ["dependencies", "devDependencies", "optionalDependencies"].flatMap((kind) =>
    Object.entries(objectOf(manifest[kind])),
  );
  const packages = dependencies.map(([name]) => name);
  const isWorkspaceRoot = hasMembers(manifest, await textIn(reader, files, "pnpm-workspace.yaml"));
  const read = await readSources(reader, files, /\.[cm]?[jt]sx?$/);
  const sources = { ...read, texts: read.texts.map(({ file, text }) => ({ file, text: withoutComments(text) })) };
  const texts = sources.texts.map(({ text }) => text);
  const worker = await readWorkerConfig(reader, files);
  const workerMain = worker?.main ?? null;
  const entry = serverFile({ manifest, scripts, files, sources: sources.texts, workerMain, isWorkspaceRoot });
  const textOf = (name: string | null) =>
    sources.texts.find(({ file }) => withoutExtension(file) === withoutExtension(name ?? ""))?.text ?? "";
  const entryText = sources.texts.find(({ file }) => file === entry)?.text ?? "";
  const isStarted = sources.texts.some(({ file, text }) => opensPort(text) && isImported(file, entry ?? "", entryText));
  const script = mcpScripts.find((name) => scripts[name] !== undefined);
  const started = sourceOf(scripts[script ?? ""] ?? entry ?? "", scripts, sources.texts);
  // A package often has a program for each transport.
  const reached = started === null ? texts : reachedFrom(started, sources.texts).map(({ text }) => text);
  // A build may bundle the program from a directory that does not count as source, such as `scripts`.
  const developed = devScripts
    .flatMap((name) => fileOf(scripts[name] ?? "", files))
    .find((file) => textOf(file) === "" && path.posix.dirname(file) !== path.posix.dirname(entry ?? ""));
  const command = startCommandIn(packages, files);
  const beside = [entry, developed ?? null, command].map((file) => textsBeside(reader, files, file));
  const mcp = readMcpTransport(packages, {
    started: reached,
    entry: textOf(started),
    beside: (await Promise.all(beside)).flat(),
    registry: await textIn(reader, files, "server.json"),
  });
  const isStdioEntry = mcp.isStdioOnly && stdio.test(entryText);
  const exportsApp = !isStdioEntry && !opensPort(entryText) && !isStarted && exportsDefault.test(entryText);
  return {
    scripts,
    packages: new Set(packages),
    hasAuthJs: hasAuthJs(new Map(dependencies)),
    entry,
    entryArguments: command === null ? "" : " start",
    exportsApp,
    needsBun:
      sources.texts.some(({ file, text }) => !buildFile.test(file) && bunRuntime.test(text)) ||
      (packages.includes("elysia") && !packages.includes("@elysiajs/node")),
    isWorkspaceRoot,
    mcp: { ...mcp, isStdioOnly: mcp.isStdioOnly && !exportsApp },
    localHost: localHostOf(reached),
    namesHosts: texts.some((text) => /\ballowedHosts\b/.test(text)),
    opensPort: texts.some(opensPort),
    programs: isWorkspaceRoot ? [] : programsIn(scripts, files),
    servers: isWorkspaceRoot ? [] : await serversIn(reader, files),
    workerFile: worker === null ? null : (sources.texts.find(({ text }) => workerRuntime.test(text))?.file ?? null),
    hasOwnPort: !exportsApp && sources.isComplete && texts.some(opensPort) && !texts.some(readsPort),
  };
}

/** Returns the file of the command `start` of a program made with Stricli, as Speakeasy generates it for servers of the MCP. */
function startCommandIn(packages: readonly string[], files: ReadonlySet<string>): string | null {
  if (!packages.includes("@stricli/core")) return null;
  return [...files].find((file) => /(?:^|\/)cli\/start\/command\.ts$/.test(file)) ?? null;
}

/** pnpm-workspace.yaml may also have only the settings of a single package. */
const hasMembers = ({ workspaces }: Record<string, unknown>, pnpmWorkspace: string) =>
  workspaces !== undefined || /^packages[ \t]*:/m.test(pnpmWorkspace);

/** Adapters such as @auth/prisma-adapter also fit version 4. */
function hasAuthJs(versions: ReadonlyMap<string, unknown>): boolean {
  const nextAuth = versions.get("next-auth");
  if (nextAuth === undefined) return [...versions.keys()].some((name) => name.startsWith("@auth/"));
  return /^\D{0,9}(?:[5-9]|\d\d)(?:\.|$)|^(?:beta|next|canary|experimental)$/.test(String(nextAuth));
}

const textIn = async (reader: ProjectReader, files: ReadonlySet<string>, name: string) =>
  (files.has(name) ? await reader.read(name) : null) ?? "";

/** Server files that frameworks generate, in the order in which they are tried. */
const serverFiles = ["", "src/"].flatMap((directory) =>
  ["server", "app", "index", "main"].flatMap((name) =>
    ["js", "mjs", "cjs", "ts", "mts", "tsx"].map((extension) => `${directory}${name}.${extension}`),
  ),
);

/** Scripts that start a server while it is written. */
const devScripts = ["dev", "start:dev", "dev:server", "serve", "server"];

interface Search {
  manifest: Record<string, unknown>;
  scripts: Readonly<Record<string, string>>;
  files: ReadonlySet<string>;
  sources: readonly SourceText[];
  workerMain: string | null;
  isWorkspaceRoot: boolean;
}

/** Returns `main` or the only `bin` of package.json if it exists or a build makes it, else the file that starts the server. */
function serverFile({ manifest, scripts, files, sources, workerMain, isWorkspaceRoot }: Search): string | null {
  const isMade = (file: string) =>
    "build" in scripts && (/^(dist|build|lib|out)\//.test(file) || (file.startsWith("bin/") && !files.has(file)));
  const texts = new Map(sources.map(({ file, text }) => [file, text]));
  const named = serverFiles.filter((file) => files.has(file));
  const servers = named.filter((file) => opensPort(texts.get(file) ?? ""));
  const { main } = manifest;
  const made = binOf(manifest);
  // The main of a package with a program is what others import.
  if (
    made !== null &&
    isMade(made) &&
    typeof main === "string" &&
    isMade(plain(main)) &&
    nameOf(made) !== nameOf(plain(main))
  )
    return made;
  if (typeof main === "string" && (isMade(plain(main)) || files.has(plain(main)))) return plain(main);
  if (made !== null && isMade(made) && (servers.length === 0 || servers.some((file) => nameOf(file) === nameOf(made))))
    return made;
  // A package that the registry of the MCP lists: its program is the server, and its main is what others import.
  const registered = manifest["mcpName"] !== undefined && made !== null && files.has(made) ? [made] : [];
  // In the root of a workspace such a script starts the members, or builds them again when a file changes.
  const developed = isWorkspaceRoot ? [] : devScripts.flatMap((name) => fileOf(scripts[name] ?? "", files));
  const apps = [workerMain ?? "", ...named].filter((file) => exportsDefault.test(texts.get(file) ?? ""));
  return [...servers, ...registered, ...developed, ...apps, ...named][0] ?? null;
}

/** Whether a file names another one of the project in an import. */
function isImported(file: string, by: string, text: string): boolean {
  const named = [...text.matchAll(/["'](\.{1,2}\/[^"'\n]{1,200})["']/g)].map((match) => match[1] ?? "");
  const targets = named.map((name) => withoutExtension(path.posix.join(path.posix.dirname(by), name)));
  return targets.includes(withoutExtension(file)) || targets.includes(path.posix.dirname(file));
}

const withoutExtension = (file: string) => file.replace(/\.[cm]?[jt]sx?$/, "");

const plain = (file: string) => file.replace(/^\.\//, "");
const nameOf = (file: string) => file.split("/").at(-1)?.split(".")[0];

function binOf({ bin }: Record<string, unknown>): string | null {
  const [file, ...others] = typeof bin === "string" ? [bin] : Object.values(objectOf(bin));
  return typeof file === "string" && others.length === 0 ? plain(file) : null;
}

/** Returns the source file that a script runs. */
function fileOf(script: string, files: ReadonlySet<string>): string[] {
  if (!/^(?:npx )?(?:tsx|ts-node(?:-dev)?|tsnd|nodemon|node|bun|vite-node)\b/.test(script)) return [];
  return script
    .split(/\s+/)
    .slice(1)
    .map(plain)
    .filter((word) => /\.[cm]?[jt]sx?$/.test(word) && files.has(word));
}

/** Scripts that are no servers by their names. */
const otherProgram =
  /^(?:pre|post)(?:build|install|start)|setup|bootstrap|doctor|test|lint|format|check|clean|verif|validat|smoke|coverage|\bpack\b|release|publish|client|\bcli\b|migrat|seed|generat|build|\bdb\b|script/i;

const programsIn = (scripts: Readonly<Record<string, string>>, files: ReadonlySet<string>) =>
  Object.keys(scripts).filter((name) => !otherProgram.test(name) && fileOf(scripts[name] ?? "", files).length > 0);

/** Searched files with a usual name, in any directory but those of packages. */
const searchedMax = 100;

/** Returns the files with the name of a server that open a port, also those in directories of samples. */
async function serversIn(reader: ProjectReader, files: ReadonlySet<string>): Promise<string[]> {
  const named = [...files].filter((file) => /(?:^|\/)(?:server|app|index|main)\.[cm]?[jt]s$/.test(file)).sort();
  const texts = await Promise.all(
    named.slice(0, searchedMax).map(async (file) => ({ file, text: (await reader.read(file)) ?? "" })),
  );
  return texts.filter(({ text }) => opensPort(text)).map(({ file }) => file);
}

async function readWorkerConfig(reader: ProjectReader, files: ReadonlySet<string>) {
  const file = ["wrangler.jsonc", "wrangler.json", "wrangler.toml"].find((name) => files.has(name));
  if (file === undefined) return null;
  const main = /^[ \t]*"?main"?[ \t]*[=:]\s*"([^"]{1,200})"/m.exec((await reader.read(file)) ?? "")?.[1];
  return { main: main === undefined ? null : plain(main) };
}

/** Removes lines of comments: they often name what the code does not use. */
const withoutComments = (text: string) => text.replaceAll(/^[ \t]*(?:\/\/|\/?\*).*$/gm, "");

/** Modules of Cloudflare's own runtime, and its SDK for agents, which needs Durable Objects. */
const workerRuntime = /\b(?:from|import)\s*\(?["'](?:cloudflare:[\w-]+|agents(?:\/[\w/-]+)?|@cloudflare\/ai-chat)["']/;

/** A program that makes the server, whatever runs it. */
const buildFile = /(?:^|\/)(?:build|bundle)\.[cm]?[jt]s$/;

const bunRuntime = /\bBun\.(?:serve|file|env|sql)\b|\bfrom "bun(?::(?!test")\w+)?"/;

const opensPort = (text: string) =>
  /\.listen\(|\bserve\(|\b(?:hono|elysia)Server\(/.test(text) || flowServer.test(text);

/** How Genkit serves flows, by default on PORT. */
const flowServer = /\bstartFlows?Server\(/;
const exportsDefault = /^export default\b|^export \{[^{}]*\bas default\b|^module\.exports = app\b/m;

const besideMax = 20;

/** Returns the sources in the directory of the server file, also in one that does not count as source, such as `scripts`. */
async function textsBeside(reader: ProjectReader, files: ReadonlySet<string>, entry: string | null): Promise<string[]> {
  if (entry === null) return [];
  const directory = path.posix.dirname(entry);
  const near = [...files].filter((file) => path.posix.dirname(file) === directory && /\.[cm]?[jt]s$/.test(file));
  const texts = await Promise.all(near.slice(0, besideMax).map((file) => reader.read(file)));
  return texts.filter((text) => text !== null);
}

/** How JavaScript reads it: by name, by destructuring, or in a schema of all variables. */
const nodePort = /["'`]PORT["'`]|\benv\??\.PORT\b|[{,]\s*PORT\b|^[ \t]*PORT\s*:/m;

/** Whether a source file reads the variable PORT. Bun and Genkit read it, unless the program says which port it wants. */
export const readsPort = (text: string) =>
  nodePort.test(text) || ((/\bBun\.serve\(/.test(text) || flowServer.test(text)) && !/\bport\s*:/.test(text));

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null; // the package manager reports what is wrong with it
  }
}

const objectOf = (value: unknown): Record<string, unknown> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
