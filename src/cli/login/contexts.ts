import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import type { CliContext } from "../context.ts";
import { usageFailure } from "../failure.ts";

/** A server with the key and the workspace to use there, which `pierhead login` stores. */
export interface StoredContext {
  url: string;
  api_key: string;
  /** Absent: the default workspace of the key. */
  workspace_id?: string;
  /** The key is from a login in the browser and of this machine alone, so that `pierhead logout` revokes it. */
  by_browser?: true;
}

export interface StoredContexts {
  /** Name of the context that commands use without `--context`. Absent: the server of the data directory. */
  current?: string;
  contexts: Record<string, StoredContext>;
}

/** Name for the server of the data directory of this machine. No context can have it. */
export const localName = "local";

export function contextsFile({ env }: Pick<CliContext, "env">): string {
  const directory =
    env.PIERHEAD_CONFIG_DIR || path.join(env.XDG_CONFIG_HOME || path.join(homedir(), ".config"), "pierhead");
  return path.join(directory, "contexts.json");
}

/** Reads synchronously, because the first asynchronous read starts threads and costs 1.5 ms in every command. */
export function readContexts(context: Pick<CliContext, "env">): StoredContexts {
  const file = contextsFile(context);
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch {
    return { contexts: {} }; // this user has not signed in
  }
  try {
    const { current, contexts } = JSON.parse(text) as StoredContexts;
    return { ...(current !== undefined && { current }), contexts: Object.assign(Object.create(null), contexts) };
  } catch {
    throw usageFailure(`${file} is not valid JSON.`, "Delete it and sign in again: pierhead login URL");
  }
}

/** Writes the file in one step, readable by its owner only. */
export function writeContexts(context: Pick<CliContext, "env">, stored: StoredContexts): void {
  const file = contextsFile(context);
  const draft = `${file}.${process.pid}`;
  mkdirSync(path.dirname(file), { recursive: true, mode: 0o700 });
  try {
    writeFileSync(draft, `${JSON.stringify(stored, null, 2)}\n`, { mode: 0o600, flag: "wx" });
    renameSync(draft, file);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** @throws CliFailure with the known names */
export function findContext({ contexts }: StoredContexts, name: string): StoredContext {
  const found = contexts[name];
  if (found !== undefined) return found;
  const names = Object.keys(contexts);
  throw usageFailure(
    `There is no context ${name}.`,
    names.length === 0 ? "Sign in to a server: pierhead login URL" : `Contexts: ${[localName, ...names].join(", ")}`,
  );
}

/** Returns the context for a server: the current one, otherwise the only one. */
export function contextFor({ current, contexts }: StoredContexts, url: string): [string, StoredContext] | undefined {
  const fitting = Object.entries(contexts).filter(([, { url: own }]) => isSameServer(own, url));
  return fitting.find(([name]) => name === current) ?? (fitting.length === 1 ? fitting[0] : undefined);
}

/** Whether two addresses name one server. Several servers may share a host, each below a path of its own. */
export function isSameServer(a: string, b: string): boolean {
  return addressOf(a) !== null && addressOf(a) === addressOf(b);
}

export function isSameOrigin(a: string, b: string): boolean {
  return URL.canParse(a) && URL.canParse(b) && new URL(a).origin === new URL(b).origin;
}

function addressOf(text: string): string | null {
  const url = URL.parse(text);
  return url === null ? null : url.origin + url.pathname.replace(/\/+$/, "");
}

/** Returns the variable that goes before the current context, if one is set. */
export const overriding = ({ env }: Pick<CliContext, "env">) =>
  (["PIERHEAD_URL", "PIERHEAD_DATA_DIR", "PIERHEAD_API_KEY"] as const).find((name) => env[name]);

/** Says which context commands use from now on. */
export function usedContext(context: Pick<CliContext, "env">, name: string): string {
  const variable = overriding(context);
  if (variable === undefined) return `Commands now use the context ${name}.`;
  return `The current context is ${name}, but ${variable} is set and goes before it. Unset it, or use --context ${name}.`;
}
