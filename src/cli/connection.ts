import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import type { CliContext } from "./context.ts";
import { usageFailure } from "./failure.ts";

/** Which server, as whom; and where each answer came from, for people who wonder. */
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
 * Flags, then the environment, then `credentials.json` of the data directory, which a server on this machine writes.
 * The key of that file goes only to the address that stands beside it: a key never leaves for another host.
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
  if (!URL.canParse(url) || !/^https?:/.test(url)) throw usageFailure(`"${url}" (${urlFrom}) is not an http address.`);
  const isStored = stored?.url !== undefined && sameOrigin(stored.url, url);
  const [apiKey, apiKeyFrom] = first([
    [await readKeyFile(options.apiKeyFile, context), "--api-key-file"],
    // A secret that was made of a file ends with a line end, which no header may have.
    [env.PIERHEAD_API_KEY?.trim(), "PIERHEAD_API_KEY"],
    [isStored ? stored.api_key : undefined, from],
  ]) ?? [undefined, "none"];
  const workspaceId =
    options.workspace ?? (env.PIERHEAD_WORKSPACE?.trim() || undefined) ?? (isStored ? stored.workspace_id : undefined);
  refuseUnsendable(`The key (${apiKeyFrom})`, apiKey);
  refuseUnsendable("The workspace", workspaceId);
  return { url: url.replace(/\/+$/, ""), urlFrom, apiKey, apiKeyFrom, workspaceId, dataDir };
}

/** Of several lines, in UTF-16, or with the quotes of a word processor: no header can have it, and no server is to blame. */
function refuseUnsendable(what: string, value: string | undefined): void {
  if (value === undefined || /^[\x20-\x7e]*$/.test(value)) return;
  throw usageFailure(`${what} has characters that none has: it is one line of letters and digits.`);
}

export function findDataDir(options: ConnectionOptions, { env, cwd }: CliContext): string {
  const given = options.dataDir ?? (env.PIERHEAD_DATA_DIR || undefined);
  return given === undefined ? path.join(homedir(), ".pierhead") : path.resolve(cwd, given);
}

type Credentials = { url?: string; workspace_id?: string; api_key?: string };

/** At once: the first read in the background starts threads, 1.5 ms of every command. */
function readCredentials(dataDir: string): Credentials | undefined {
  try {
    return JSON.parse(readFileSync(path.join(dataDir, "credentials.json"), "utf8")) as Credentials;
  } catch {
    return undefined; // no server has run here, or not as this user
  }
}

/** A key on the command line would stand in the process list; a file or a pipe does not. */
async function readKeyFile(file: string | undefined, context: CliContext): Promise<string | undefined> {
  if (file === undefined) return undefined;
  try {
    if (file !== "-") return readFileSync(path.resolve(context.cwd, file), "utf8").trim();
    const { readStdin } = await import("./terminal/stdin.ts");
    return (await readStdin(context)).trim();
  } catch (error) {
    context.signal.throwIfAborted();
    throw usageFailure(`The key file ${file} cannot be read: ${(error as Error).message}`);
  }
}

function first(candidates: [string | undefined, string][]): [string, string] | undefined {
  return candidates.find((candidate): candidate is [string, string] => (candidate[0] ?? "") !== "");
}

function sameOrigin(a: string, b: string): boolean {
  return URL.canParse(a) && new URL(a).origin === new URL(b).origin;
}
