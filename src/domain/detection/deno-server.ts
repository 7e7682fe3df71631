import { denoConfigs } from "../config-path.ts";
import type { DetectedServer } from "./detected-server.ts";
import { stdio } from "./mcp-transport.ts";
import { readsPort } from "./node-facts.ts";
import { added, addedDirName } from "./presets.ts";
import { type ProjectReader, readSources } from "./project-sources.ts";

/** What the files of a project say about its server in Deno. */
export interface DenoFacts {
  /** `deno.json` or `deno.jsonc`. */
  config: string;
  tasks: Readonly<Record<string, string>>;
  /** A server file with a usual name; null: none. */
  entry: string | null;
  /** Whether `entry` exports a handler, as `deno serve` expects it. */
  exportsHandler: boolean;
  /** Whether its sources speak the MCP over standard input, and serve nothing. */
  isStdioOnly: boolean;
  /** Whether it listens on a port of its own: through functions whose port no variable changes, and without reading PORT. */
  hasOwnPort: boolean;
}

/** Tasks that start a server, in order. */
const taskNames = ["start", "serve", "production", "prod", "preview", "server"];

const entryNames = ["", "src/"].flatMap((directory) =>
  ["main", "server", "app", "index", "mod"].flatMap((name) =>
    ["ts", "tsx", "js"].map((extension) => `${directory}${name}.${extension}`),
  ),
);

export async function readDeno(reader: ProjectReader, files: ReadonlySet<string>): Promise<DenoFacts | null> {
  const config = denoConfigs.find((name) => files.has(name));
  if (config === undefined) return null;
  const { texts } = await readSources(reader, files, /\.[cm]?[jt]sx?$/);
  const textOf = (file: string) => texts.find((one) => one.file === file)?.text ?? "";
  const named = entryNames.filter((file) => files.has(file));
  const serving = (form: RegExp) => named.find((file) => form.test(textOf(file)));
  // Files with the other names may be modules that other files import.
  const entry = serving(starts) ?? serving(handler) ?? named.find((file) => /(?:main|server)\.\w+$/.test(file)) ?? null;
  const all = texts.map(({ text }) => text);
  const serves = all.some((text) => denoServe.test(text));
  return {
    config,
    tasks: tasksOf((await reader.read(config)) ?? ""),
    entry,
    exportsHandler: entry !== null && handler.test(textOf(entry)) && !starts.test(textOf(entry)),
    isStdioOnly: !serves && all.some((text) => stdio.test(text)) && !all.some((text) => otherListen.test(text)),
    hasOwnPort: !serves && all.some((text) => otherListen.test(text)) && !all.some(readsPort),
  };
}

/** The variable DENO_SERVE_ADDRESS replaces the address of this function, and of frameworks that use it. */
const denoServe = /\bDeno\.serve\(|\bfrom ["'](?:jsr:@oak\/oak|@oak\/oak|fresh|@fresh\/core)/;
const otherListen = /\.listen\(|\bserve\(|\bDeno\.listen/;
const starts = /\bDeno\.serve\(|\.listen\(|\bserve\(|\bstart\(/;
const handler = /^export default\b/m;

/** Reads the tasks: commands, or objects with a command. */
function tasksOf(text: string): Record<string, string> {
  const { tasks } = parseWithComments(text) as { tasks?: unknown };
  return Object.fromEntries(
    Object.entries(typeof tasks === "object" && tasks !== null ? tasks : {}).flatMap(([name, task]) => {
      const command: unknown =
        typeof task === "object" && task !== null ? (task as { command?: unknown }).command : task;
      return typeof command === "string" ? [[name, command] as const] : [];
    }),
  );
}

/** Returns the directories above its own whose packages a configuration uses instead of published ones. */
export function denoLinks(text: string): string[] {
  const { links, patch } = parseWithComments(text) as { links?: unknown; patch?: unknown };
  const all: unknown[] = [links, patch].flatMap((one) => (Array.isArray(one) ? one : []));
  return all.filter((one) => typeof one === "string" && one.startsWith("../")) as string[];
}

function parseWithComments(text: string): object {
  try {
    const parsed: unknown = JSON.parse(withoutComments(text));
    return typeof parsed === "object" && parsed !== null ? parsed : {};
  } catch {
    return {}; // Deno reports what is wrong with it
  }
}

/** Each alternative also matches an unclosed string or comment, so that the match takes linear time. */
const jsonTokens = /"(?:[^"\\\n]|\\.)*"?|\/\/[^\n]*|\/\*(?:[^*]|\*(?!\/))*(?:\*\/)?|[^"/]+|\//g;

/** Removes comments and trailing commas, which Deno allows in its configuration. */
function withoutComments(text: string): string {
  const tokens = (text.match(jsonTokens) ?? []).filter((token) => !/^\/[/*]/.test(token));
  return tokens.join("").replace(/("(?:[^"\\\n]|\\.)*"?)|,(?=\s*[}\]])/g, "$1");
}

/**
 * Returns how Deno runs a project. Its dependencies are downloaded into the artifact by the build.
 * @param hasManifest whether it also has packages of npm to install.
 * @returns null if neither a task nor a file starts a server.
 */
export function detectDeno(facts: DenoFacts, hasManifest: boolean): DetectedServer | null {
  const { config, tasks, entry, isStdioOnly } = facts;
  const task = taskNames.find((name) => runsDeno.test(tasks[name] ?? "") && !developmentTask.test(tasks[name] ?? ""));
  // With packages of npm, the configuration is often for the tools of Deno alone.
  if (task === undefined && (entry === null || hasManifest)) return null;
  const command = commandOf(task, facts);
  const { package: proxy, file: proxyFile } = added.mcpProxy;
  return {
    preset: "deno",
    name: isStdioOnly ? "Deno, MCP server over standard input" : "Deno",
    because: task === undefined ? `${config} and ${entry}` : `its ${task} task in ${config}`,
    language: hasManifest ? "node" : null,
    build: buildOf(command, facts),
    afterBuild: null,
    start: isStdioOnly ? `node ${proxyFile} --host $HOST --port $PORT -- ${command}` : command,
    variables: {
      DENO_DIR: `$PWD/${denoDir}`,
      DENO_NO_UPDATE_CHECK: "1",
      ...(isStdioOnly ? {} : denoAddress),
    },
    hasOwnPort: facts.hasOwnPort && !isStdioOnly,
    adds: [added.deno.package, ...(isStdioOnly ? [proxy] : [])],
    pythonVersion: null,
  };
}

/** Skips Deno's task runner where possible, because it takes memory and delays the stop signal. */
function commandOf(task: string | undefined, { tasks, entry, exportsHandler }: DenoFacts): string {
  if (task === undefined) return `deno ${exportsHandler ? "serve" : "run"} --allow-all ${entry}`;
  const line = tasks[task] ?? "";
  return /^deno (?:run|serve) [^&|;<>$`'"\\*()]+$/.test(line) ? line : `deno task ${task}`;
}

/** Runs the project's own build, or else downloads what the server imports. */
function buildOf(command: string, { tasks, entry }: DenoFacts): string | null {
  const own = tasks["build"];
  if (own !== undefined && !/\bcompile\b/.test(own)) return `DENO_DIR=${denoDir} ${program} task build`;
  const file = command.split(/\s+/).find((word) => /\.[cm]?[jt]sx?$/.test(word)) ?? entry;
  return file === null ? null : `DENO_DIR=${denoDir} ${program} cache ${file}`;
}

/** Overrides the address that the program passes to `Deno.serve`. */
export const denoAddress = { DENO_SERVE_ADDRESS: "tcp:$HOST:$PORT" };

/** Packages that the build downloads for Deno, relative to the project. */
const denoDir = `${addedDirName}/deno`;
const program = `./${addedDirName}/node_modules/.bin/deno`;

/** A command that runs a program in Deno. */
export const runsDeno = /\bdeno (?:run|serve|task)\b/;
const developmentTask = /--watch\b|--hmr\b|\bdev\.ts\b|\bdeno task dev\b/;
