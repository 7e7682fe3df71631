import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import type { CliContext } from "./context.ts";
import { usageFailure } from "./failure.ts";
import {
  contextFor,
  findContext,
  isSameServer,
  localName,
  readContexts,
  type StoredContexts,
} from "./login/contexts.ts";

/** Server and credentials, and the origin of each value for messages. */
export interface Connection {
  url: string;
  urlFrom: string;
  apiKey: string | undefined;
  apiKeyFrom: string;
  workspaceId: string | undefined;
  dataDir: string;
}

export interface ConnectionOptions {
  url?: string;
  context?: string;
  workspace?: string;
  apiKeyFile?: string;
  dataDir?: string;
}

const defaultUrl = "http://127.0.0.1:8124";

/** A server, and the key and workspace that belong to it. */
interface Choice {
  url: string;
  urlFrom: string;
  stored?: { api_key?: string; workspace_id?: string; from: string } | undefined;
  /** Whether PIERHEAD_API_KEY and PIERHEAD_WORKSPACE may be meant for this server. */
  takesEnvironment: boolean;
}

/**
 * Finds the server from the flags, then the environment, then the current context, then `credentials.json` of the data
 * directory. A stored key is only sent to the server that it was stored for, and PIERHEAD_API_KEY beside PIERHEAD_URL only to
 * that server.
 */
export async function findConnection(options: ConnectionOptions, context: CliContext): Promise<Connection> {
  const { env } = context;
  const dataDir = findDataDir(options, context);
  const { url, urlFrom, stored, takesEnvironment } = chooseServer(options, context, dataDir);
  if (!URL.canParse(url) || !/^https?:/.test(url)) throw usageFailure(`"${url}" (${urlFrom}) is not an HTTP address.`);
  const [apiKey, apiKeyFrom] = first([
    [await readKeyFile(options.apiKeyFile, context), "--api-key-file"],
    // A secret read from a file often ends with a line break, which is not allowed in a header.
    [takesEnvironment ? env.PIERHEAD_API_KEY?.trim() : undefined, "PIERHEAD_API_KEY"],
    [stored?.api_key, stored?.from ?? ""],
  ]) ?? [undefined, "none"];
  const workspaceOfEnvironment = takesEnvironment ? env.PIERHEAD_WORKSPACE?.trim() || undefined : undefined;
  const workspaceId = options.workspace ?? workspaceOfEnvironment ?? stored?.workspace_id;
  refuseUnsendable(`The key (${apiKeyFrom})`, apiKey);
  refuseUnsendable("The workspace", workspaceId);
  return { url: url.replace(/\/+$/, ""), urlFrom, apiKey, apiKeyFrom, workspaceId, dataDir };
}

function chooseServer(options: ConnectionOptions, context: CliContext, dataDir: string): Choice {
  const { env } = context;
  const file = path.join(dataDir, "credentials.json");
  const credentials = readCredentials(dataDir);
  const isForEnvironment = (url: string) => !env.PIERHEAD_URL || isSameServer(env.PIERHEAD_URL, url);
  const ofDataDir = (): Choice => {
    const [url, urlFrom] = credentials?.url === undefined ? [defaultUrl, "default"] : [credentials.url, file];
    const stored = credentials?.url === undefined ? undefined : { ...credentials, from: file };
    return { url, urlFrom, stored, takesEnvironment: isForEnvironment(url) };
  };
  const ofContext = (stored: StoredContexts, name: string, takesEnvironment: boolean): Choice => {
    const from = `context ${name}`;
    const found = findContext(stored, name);
    return { url: found.url, urlFrom: from, stored: { ...found, from }, takesEnvironment };
  };
  const ofUrl = (url: string, urlFrom: string): Choice => {
    const isOwn = credentials?.url !== undefined && isSameServer(credentials.url, url);
    const [name, found] = isOwn ? [] : (contextFor(readContexts(context), url) ?? []);
    const stored = isOwn ? { ...credentials, from: file } : found && { ...found, from: `context ${name}` };
    return { url, urlFrom, stored, takesEnvironment: isForEnvironment(url) };
  };
  if (options.context !== undefined) {
    if (options.url !== undefined) throw usageFailure("Give --context or --url, not both.");
    if (options.context === localName) return ofDataDir();
    return ofContext(readContexts(context), options.context, false);
  }
  if (options.url) return ofUrl(options.url, "--url");
  if (options.dataDir !== undefined && credentials?.url !== undefined) return ofDataDir();
  if (env.PIERHEAD_URL) return ofUrl(env.PIERHEAD_URL, "PIERHEAD_URL");
  // A key without an address was set for the server that commands call without contexts.
  if (options.dataDir !== undefined || env.PIERHEAD_DATA_DIR || env.PIERHEAD_API_KEY) return ofDataDir();
  const contexts = readContexts(context);
  return contexts.current === undefined ? ofDataDir() : ofContext(contexts, contexts.current, true);
}

/** Rejects values that cannot be an HTTP header: several lines, UTF-16, or typographic quotes from a word processor. */
function refuseUnsendable(what: string, value: string | undefined): void {
  if (value === undefined || /^[\x20-\x7e]*$/.test(value)) return;
  throw usageFailure(`${what} contains invalid characters: it must be one line of letters and digits.`);
}

export function findDataDir(options: ConnectionOptions, { env, cwd }: CliContext): string {
  const given = options.dataDir ?? (env.PIERHEAD_DATA_DIR || undefined);
  return given === undefined ? path.join(homedir(), ".pierhead") : path.resolve(cwd, given);
}

type Credentials = { url?: string; workspace_id?: string; api_key?: string };

/** Reads synchronously, because the first asynchronous read starts threads and costs 1.5 ms in every command. */
function readCredentials(dataDir: string): Credentials | undefined {
  try {
    return JSON.parse(readFileSync(path.join(dataDir, "credentials.json"), "utf8")) as Credentials;
  } catch {
    return undefined; // no server has run here, or not as this user
  }
}

/** Reads the key from a file or stdin, because an argument would appear in the process list. */
export async function readKeyFile(file: string | undefined, context: CliContext): Promise<string | undefined> {
  if (file === undefined) return undefined;
  try {
    if (file !== "-") return readFileSync(path.resolve(context.cwd, file), "utf8").trim();
    const { readStdin } = await import("./terminal/stdin.ts");
    return (await readStdin(context)).trim();
  } catch (error) {
    context.signal.throwIfAborted();
    throw usageFailure(`Cannot read the key file ${file}: ${(error as Error).message}`);
  }
}

function first(candidates: [string | undefined, string][]): [string, string] | undefined {
  return candidates.find((candidate): candidate is [string, string] => (candidate[0] ?? "") !== "");
}
