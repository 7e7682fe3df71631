import { ApiFailure } from "../../client/failure.ts";
import type { Session as Caller } from "../../contract/administration/session.ts";
import { type ConnectionOptions, readKeyFile } from "../connection.ts";
import { CliFailure, exitCodes, usageFailure } from "../failure.ts";
import { lightSend } from "../light-send.ts";
import type { Session } from "../session.ts";
import { askSecret } from "../terminal/prompt.ts";
import { readSecret } from "../terminal/stdin.ts";
import { harmless } from "../terminal/terminal.ts";
import {
  contextsFile,
  findContext,
  isSameServer,
  localName,
  readContexts,
  type StoredContexts,
  usedContext,
  writeContexts,
} from "./contexts.ts";

interface LoginOptions extends ConnectionOptions {
  key?: boolean;
  browser?: boolean;
  name?: string;
}

/** Gets a key in the browser or takes one, checks it with the server and stores it as the current context. Stores nothing that the server does not accept. */
export async function login(session: Session, [argument]: [string?], options: LoginOptions): Promise<void> {
  const { context, terminal, signal } = session;
  const stored = readContexts(context);
  const url = addressOf(session, argument, stored);
  warnOfPlainHttp(session, url);
  const { createClient } = await import("../../client/client.ts");
  const isByBrowser = isInBrowser(session, options);
  const apiKey = isByBrowser
    ? await (await import("./device-login.ts")).loginInBrowser(
        session,
        createClient({ baseUrl: url, send: lightSend(context.env) }),
        url,
      )
    : await readKey(session, options);
  const client = createClient({ baseUrl: url, apiKey, send: lightSend(context.env) });
  const caller = await client.getSession({}, { signal }).catch((error: unknown) => {
    if (!(error instanceof ApiFailure) || error.status !== 401) throw error;
    const hints = ["Ask an administrator of the server for a key: pierhead admin keys create NAME"];
    throw new CliFailure(`${url} rejected this key. Nothing was stored.`, { exitCode: exitCodes.auth, hints });
  });
  const workspace = chooseWorkspace(caller, options.workspace);
  const workspaceId = workspace?.id ?? caller.workspace_id;
  // Another login may have ended while the user typed.
  const known = readContexts(context);
  const name = nameOf(known, { url, workspaceId, wanted: options.name });
  const contexts = {
    ...known.contexts,
    [name]: {
      url,
      api_key: apiKey,
      ...(workspaceId && { workspace_id: workspaceId }),
      ...(isByBrowser && { by_browser: true as const }),
    },
  };
  writeContexts(context, { current: name, contexts });
  session.answer({ context: name, url, workspace_id: workspaceId, session: caller }, () => name);
  terminal.say(
    `Signed in to ${url} as ${harmless(caller.name)} (${harmless(caller.role)}). The key is in ${contextsFile(context)}. ${usedContext(context, name)}`,
  );
  if (workspaceId === null) {
    terminal.say(`Commands need --workspace ID. Or sign in to one workspace: pierhead login ${url} --workspace ID`);
    for (const one of caller.workspaces) terminal.say(`  ${harmless(one.id)}  ${harmless(one.name)}`);
  }
}

/** Deletes a context. A key from the browser ends with it. Any other stays valid, because other machines may use it. */
export async function logout(session: Session, [argument]: [string?]): Promise<void> {
  const { context, terminal, options } = session;
  const { current, contexts } = readContexts(context);
  const name = argument ?? options.context ?? current;
  if (name === undefined) throw usageFailure("No context is selected.", "Name one: pierhead logout CONTEXT");
  const { url, api_key: apiKey, by_browser: isByBrowser } = findContext({ contexts }, name);
  const isRevoked = isByBrowser === true && (await revoke(session, url, apiKey));
  const rest = Object.fromEntries(Object.entries(contexts).filter(([other]) => other !== name));
  writeContexts(context, { ...(current !== undefined && current !== name && { current }), contexts: rest });
  session.answer({ context: name, deleted: true, revoked: isRevoked }, () => undefined);
  terminal.say(`Deleted the context ${name} and its key from this machine.`);
  if (isRevoked) terminal.say("The key is revoked.");
  else terminal.say("The key stays valid. An administrator revokes it: pierhead admin keys revoke NAME");
}

/** Ends the key that this machine got in the browser. @returns false when the server refuses or does not answer. */
async function revoke({ context, signal }: Session, url: string, apiKey: string): Promise<boolean> {
  const { createClient } = await import("../../client/client.ts");
  const client = createClient({ baseUrl: url, apiKey, send: lightSend(context.env) });
  return client.endDeviceLogin({ signal }).then(
    () => true,
    (error: unknown) => {
      signal.throwIfAborted();
      // The key was revoked before, or has expired.
      return error instanceof ApiFailure && error.status === 401;
    },
  );
}

/** A key comes from a file, a pipe, or with `--key` from the terminal. Without one of them the user signs in in the browser. */
function isInBrowser({ context }: Session, options: LoginOptions): boolean {
  if (options.browser && (options.key || options.apiKeyFile !== undefined))
    throw usageFailure("Give --browser, or a key with --key or --api-key-file, not both.");
  if (options.browser) return true;
  return options.apiKeyFile === undefined && !options.key && context.stdin.isTTY === true;
}

function addressOf(session: Session, argument: string | undefined, stored: StoredContexts): string {
  const { options, context } = session;
  if (argument !== undefined && options.url !== undefined && argument !== options.url) {
    throw usageFailure("Give one address: either as argument or with --url.");
  }
  const name = options.context ?? stored.current;
  const url =
    argument ??
    options.url ??
    (context.env.PIERHEAD_URL || (name === undefined ? undefined : findContext(stored, name).url));
  if (url === undefined)
    throw usageFailure("No address given.", "Example: pierhead login https://pierhead.example.com");
  const { protocol, username, password, hash, search } = URL.canParse(url) ? new URL(url) : new URL("invalid:");
  if (!/^https?:$/.test(protocol)) throw usageFailure(`"${url}" is not an HTTP address.`);
  if (username !== "" || password !== "" || hash !== "" || search !== "") {
    throw usageFailure("The address must not contain a user, a password, a query or a fragment.");
  }
  return url.replace(/\/+$/, "");
}

function warnOfPlainHttp({ terminal }: Session, url: string): void {
  const { protocol, hostname } = new URL(url);
  if (protocol === "https:" || /^(localhost|127\.[\d.]+|\[::1\])$/.test(hostname)) return;
  terminal.say(
    terminal.paintErr("yellow", `The key travels unencrypted to ${url}. Use https outside of a trusted network.`),
  );
}

/** Reads the key from the file, the terminal or stdin. An argument or a variable would show it to other programs. */
async function readKey(session: Session, options: ConnectionOptions): Promise<string> {
  const { context, terminal } = session;
  const fromFile = await readKeyFile(options.apiKeyFile, context);
  const key = fromFile ?? (await (terminal.isInteractive ? askSecret(session, "API key") : readSecret(context)));
  const trimmed = key.trim();
  if (trimmed === "")
    throw usageFailure("No key given.", "Send it on stdin, use --api-key-file FILE, or sign in with --browser.");
  if (!/^[\x21-\x7e]+$/.test(trimmed))
    throw usageFailure("The key contains invalid characters: it must be one line of letters and digits.");
  return trimmed;
}

/** Returns the workspace with this id or name. @returns undefined when none is wanted and the key does not belong to only one. */
function chooseWorkspace({ workspaces }: Caller, wanted: string | undefined) {
  if (wanted === undefined) return workspaces.length === 1 ? workspaces[0] : undefined;
  const byId = workspaces.find(({ id }) => id === wanted);
  const byName = workspaces.filter(({ name }) => name === wanted);
  const found = byId ?? (byName.length === 1 ? byName[0] : undefined);
  if (found !== undefined) return found;
  const hints = workspaces.slice(0, 20).map(({ id, name }) => `${id}  ${name}`);
  throw new CliFailure(`This key may not act in a workspace ${wanted}. Nothing was stored.`, {
    exitCode: exitCodes.auth,
    hints,
  });
}

interface Named {
  url: string;
  workspaceId: string | null;
  wanted: string | undefined;
}

/** Returns the name to store under. A context of another server or workspace is never replaced under a derived name. */
function nameOf({ contexts }: StoredContexts, { url, workspaceId, wanted }: Named): string {
  if (wanted !== undefined) {
    if (!/^[\w.:/-]{1,100}$/.test(wanted) || wanted === localName || wanted === "__proto__") {
      throw usageFailure(
        `"${wanted}" cannot be the name of a context: use letters, digits and .:/-_, and not ${localName}.`,
      );
    }
    const found = contexts[wanted];
    if (found !== undefined && !isSameServer(found.url, url)) {
      throw usageFailure(
        `The context ${wanted} is for ${found.url}.`,
        `Choose another name, or delete it: pierhead logout ${wanted}`,
      );
    }
    return wanted;
  }
  const { host } = new URL(url);
  const found = contexts[host];
  const isOther =
    found !== undefined && !(isSameServer(found.url, url) && (found.workspace_id ?? null) === workspaceId);
  return isOther ? `${host}/${workspaceId ?? "all"}` : host;
}
