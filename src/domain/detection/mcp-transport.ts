import path from "node:path";
import type { SourceText } from "./project-sources.ts";

/** What the sources of an MCP server in JavaScript say about its transport. */
export interface McpTransport {
  /** Whether its only transport is the standard input: there is no HTTP server. */
  isStdioOnly: boolean;
  /** Whether it speaks over standard input unless its arguments ask for another transport. */
  isStdioDefault: boolean;
  /** The variable that makes it speak over HTTP, with its value; null: no variable does. */
  setting: { name: string; value: string } | null;
}

export interface McpSources {
  /** Texts of the server file and of those that it needs, or of all sources. */
  started: readonly string[];
  /** Text of the server file, empty if there is none. */
  entry: string;
  /** Texts beside the server file, also those that do not count as its sources. */
  beside: readonly string[];
  /** Text of `server.json`, with which the server is listed in the registry of the MCP; empty if there is none. */
  registry: string;
}

const packages = ["@modelcontextprotocol/sdk", "@modelcontextprotocol/server", "fastmcp"];

/**
 * Reads the transport from the sources.
 */
export function readMcpTransport(
  installed: readonly string[],
  { started: texts, entry, beside, registry }: McpSources,
): McpTransport {
  const all = [...texts, ...beside];
  const speaksStdio = packages.some((name) => installed.includes(name)) && all.some((text) => stdio.test(text));
  // The code of the transport may be in a package.
  const isDeclared = !all.some((text) => stdio.test(text) || httpTransport.test(text)) && registersStdio(registry);
  if (!speaksStdio) return { isStdioOnly: false, isStdioDefault: isDeclared, setting: null };
  const setting = httpSetting(all);
  // A file that speaks over standard input itself opens no port through another one, unless that has a transport for HTTP.
  const opening = stdio.test(entry) ? [entry] : texts;
  const isHttp = texts.some((text) => httpTransport.test(text)) || opening.some((text) => opensPort.test(text));
  const isOnly = texts.some((text) => stdio.test(text)) && !isHttp;
  return {
    isStdioOnly: isOnly && setting === null,
    // Where a variable chooses the transport, the deployment may set it.
    isStdioDefault:
      setting === null &&
      (all.some((text) => stdioDefault.test(text)) || (isHttp && (isChosen(texts) || isAskedForPort(entry)))) &&
      !all.some((text) => transportVariable.test(text)),
    setting,
  };
}

/** Returns the sources that a file needs, with its own: those that it and they import by a relative path. */
export function reachedFrom(start: string, sources: readonly SourceText[]): SourceText[] {
  const byName = new Map(sources.map((source) => [withoutExtension(source.file), source]));
  const found = new Set<SourceText>();
  const open = [byName.get(withoutExtension(start))];
  for (let at = open.pop(); open.length > 0 || at !== undefined; at = open.pop()) {
    if (at === undefined || found.has(at)) continue;
    found.add(at);
    const directory = path.posix.dirname(at.file);
    for (const [, name = ""] of at.text.matchAll(/["'](\.{1,2}\/[^"'\n]{1,200})["']/g)) {
      const target = withoutExtension(path.posix.join(directory, name));
      open.push(byName.get(target) ?? byName.get(`${target}/index`));
    }
  }
  return [...found];
}

/** Returns the source file that a script runs, also through another script, or as the file that a build makes of it. */
export function sourceOf(
  command: string,
  scripts: Readonly<Record<string, string>>,
  sources: readonly SourceText[],
): string | null {
  const text = lastScript(command, scripts);
  const names = new Set(sources.map(({ file }) => withoutExtension(file)));
  for (const word of text.split(/\s+/).filter((one) => /\.[cm]?[jt]sx?$/.test(one))) {
    const plain = withoutExtension(word.replace(/^\.\//, ""));
    const own = plain.replace(/^(?:dist|build|lib|out|bin)\/(?:(?:esm|cjs|commonjs)\/)?/, "");
    const alike = [...names].filter((name) => path.posix.basename(name) === path.posix.basename(own));
    const only = alike.length === 1 ? alike[0] : undefined;
    const found = [plain, `src/${own}`, own, only ?? plain].find((one) => names.has(one));
    if (found !== undefined) return found;
  }
  return null;
}

const scriptHopsMax = 5;

/** Returns the script to which the last part of a command leads: `npm run build && npm run serve` to the text of `serve`. */
export function lastScript(command: string, scripts: Readonly<Record<string, string>>): string {
  let text = command;
  for (let hops = 0; hops < scriptHopsMax; hops++) {
    const last = text.split("&&").at(-1)?.trim() ?? "";
    const named = /^(?:npm|pnpm|yarn|bun)(?: run)? ([\w:-]{1,100})$/.exec(last)?.[1];
    if (named === undefined || scripts[named] === undefined) break;
    text = scripts[named] ?? "";
  }
  return text;
}

const withoutExtension = (file: string) => file.replace(/\.[cm]?[jt]sx?$/, "");

/** The transport of the SDK, the function of its version 2, and the option of the package fastmcp. */
export const stdio = /StdioServerTransport|\bserveStdio\b|\btransportType\s*:\s*["']stdio["']/;

const httpTransport =
  /(?:HTTP|Http|SSE)(?:Server)?Transport|\bcreateMcpHandler\b|\btransportType\s*:\s*["'](?:httpStream|sse)["']/;

const opensPort = /\.listen\(|\bserve\(/;

/** Whether the package of a server speaks over standard input, as its entry in the registry says. */
const registersStdio = (registry: string) =>
  /"transport"\s*:\s*\{\s*"type"\s*:\s*"stdio"/.test(registry) &&
  !/"type"\s*:\s*"(?:streamable-http|sse)"/.test(registry);

/** A default of an argument, and not the first member of a type. */
const stdioDefault = /(?:\btransport\w{0,20}\s*=|\bdefault:|\.default\()\s*["']stdio["'](?!\s*\|)/i;

/** Whether a program compares its transport with `stdio`, and no HTTP is its default: without arguments it then speaks that. */
const isChosen = (texts: readonly string[]) =>
  texts.some((text) => /===?\s*["']stdio["']/.test(text)) && !texts.some((text) => httpDefault.test(text));

/** Whether a program speaks over standard input unless an argument has the port of another one of its files. */
const isAskedForPort = (entry: string) =>
  stdio.test(entry) && !opensPort.test(entry) && /["'`]--port\b/.test(entry) && !/--stdio\b|\benv\.PORT\b/.test(entry);

const httpDefault = /(?:[^=!]=|\?\?|\|\||\bdefault:|\.default\()\s*["'](?:http|sse|streamable)/i;

/** What programs call the transport over HTTP, the newest form first. */
const httpValues = [
  "streamable-http",
  "streamable_http",
  "streamableHttp",
  "streamable",
  "httpStream",
  "http-stream",
  "http",
];

/** Returns the variable that asks for HTTP: one that names a transport, or one that is compared with `true`. */
function httpSetting(texts: readonly string[]): McpTransport["setting"] {
  const choosing = texts.find((text) => transportVariable.test(text));
  const name = transportVariable.exec(choosing ?? "")?.[1];
  const value = httpValues.find((one) => texts.some((text) => isChoice(text, one)));
  if (name !== undefined && value !== undefined) return { name, value };
  const flags = texts.flatMap((text) =>
    [...text.matchAll(flag)]
      .map(([, one = "", wanted = ""]) => ({ name: one, value: wanted }))
      .filter(({ name: one }) => asksForTransport(one)),
  );
  return flags.find((one) => /HTTP/.test(one.name)) ?? flags[0] ?? null;
}

const transportVariable = /\benv(?:\.|\[["'])(\w*TRANSPORT(?:_TYPE|_MODE)?)\b/;

const flag = /\benv(?:\.|\[["'])([A-Z0-9_]{1,100})(?:["']\])?\s{0,20}={2,3}\s{0,20}["'](true|1)["']/g;

/** Whether the name of a variable says that it turns HTTP on: not `DISABLE_SSE`, and not `HTTP_PROXY`. */
function asksForTransport(name: string): boolean {
  const words = name.split("_");
  const at = words.findIndex((word) => /^(?:HTTP|SSE)$/.test(word));
  return (
    at !== -1 &&
    !words.some((word) => /^(?:DISABLED?|NO|NOT|SKIP|WITHOUT)$/.test(word)) &&
    !words.slice(at).some((word) => word.startsWith("PROXY"))
  );
}

/** Whether a text compares with a value, or lists it beside `stdio`. */
function isChoice(text: string, value: string): boolean {
  const quoted = `["']${value}["']`;
  const forms = [
    `(?:===?|\\bcase)\\s*${quoted}`,
    `["']stdio["']\\s*[,|]\\s*${quoted}`,
    `${quoted}\\s*[,|]\\s*["']stdio["']`,
  ];
  return forms.some((form) => new RegExp(form).test(text));
}
