import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import type { CliContext } from "./context.ts";
import { usageFailure } from "./failure.ts";

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
  workspace?: string;
  apiKeyFile?: string;
  dataDir?: string;
}

const defaultUrl = "http://127.0.0.1:8124";

/**
 * Reads the connection from the flags, then the environment, then `credentials.json` of the data directory, which a server on
 * this machine writes. The key in that file is only sent to the address stored next to it, never to another host.
 */
export async function findConnection(options: ConnectionOptions, context: CliContext): Promise<Connection> {
  const { env } = context;
  const dataDir = findDataDir(options, context);
  const stored = readCredentials(dataDir);
  const from = path.join(dataDir, "credentials.json");
  const [url, urlFrom] = first([
    [options.url, "--url"],
    [env.PIERHEAD_URL, "PIERHEAD_URL"],
    [stored?.url, from],
  ]) ?? [defaultUrl, "default"];
  if (!URL.canParse(url) || !/^https?:/.test(url)) throw usageFailure(`"${url}" (${urlFrom}) is not an HTTP address.`);
  const isStored = stored?.url !== undefined && sameOrigin(stored.url, url);
  const [apiKey, apiKeyFrom] = first([
    [await readKeyFile(options.apiKeyFile, context), "--api-key-file"],
    // A secret read from a file often ends with a line break, which is not allowed in a header.
    [env.PIERHEAD_API_KEY?.trim(), "PIERHEAD_API_KEY"],
    [isStored ? stored.api_key : undefined, from],
  ]) ?? [undefined, "none"];
  const workspaceId =
    options.workspace ?? (env.PIERHEAD_WORKSPACE?.trim() || undefined) ?? (isStored ? stored.workspace_id : undefined);
  refuseUnsendable(`The key (${apiKeyFrom})`, apiKey);
  refuseUnsendable("The workspace", workspaceId);
  return { url: url.replace(/\/+$/, ""), urlFrom, apiKey, apiKeyFrom, workspaceId, dataDir };
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
async function readKeyFile(file: string | undefined, context: CliContext): Promise<string | undefined> {
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

function sameOrigin(a: string, b: string): boolean {
  return URL.canParse(a) && new URL(a).origin === new URL(b).origin;
}
