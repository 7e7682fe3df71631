import { type Client, isRefusal } from "../../client/client.ts";
import type { Authenticate, Authenticated } from "../../contract/oauth/oauth-token.ts";
import { CliFailure, exitCodes } from "../failure.ts";
import type { Session } from "../session.ts";
import { openInBrowser } from "../terminal/open-browser.ts";
import { harmless } from "../terminal/terminal.ts";
import { parseDuration } from "../terminal/text.ts";
import { unknownProvider } from "./providers.ts";

interface ConnectOptions {
  user?: string;
  agent?: string;
  again?: boolean;
  browser: boolean;
  wait: boolean;
  timeout: string;
}

/** Answer of the command, which never contains the token. */
interface Connected {
  status: "completed" | "pending";
  provider_id: string;
  user_id: string | null;
  auth_id: string | null;
  url: string | null;
  token_id: string | null;
  account: string | null;
  scopes: string[];
  expires_at: string | null;
}

/** Prints and opens the sign-in address of a provider, waits for the user to consent, and prints the connected account. */
export async function connect(
  session: Session,
  [providerId = "", ...scopes]: string[],
  options: ConnectOptions,
): Promise<void> {
  const timeoutMs = parseDuration(options.timeout);
  const client = await session.client(options.user);
  const { user, agent } = options;
  const question: Authenticate = {
    ...{ provider: providerId, scopes },
    ...{ user_id: user ?? null, agent_id: agent ?? null, force_new: options.again === true },
    ...defaults,
  };
  const begun = await begin(session, client, question);
  const { url, auth_id: authId } = begun;
  if (url === null || authId === null) {
    await showConnected(session, client, question);
    session.terminal.say("A usable token exists. To sign in again: --again");
    return;
  }
  const who = nameOf(begun.user_id, options);
  const pending: Connected = { ...nothing, provider_id: providerId, user_id: begun.user_id, auth_id: authId, url };
  if (!options.wait) {
    session.answer(pending, () => url);
    throw later(`${who} has ten minutes to sign in at that address.`);
  }
  session.terminal.say(`Sign in to ${providerId} as ${who} at this address:\n\n  ${harmless(url)}\n`);
  if (options.browser) openInBrowser(session, url);
  session.terminal.say("Waiting for the sign-in. Ctrl-C stops waiting but does not cancel the sign-in.");
  await waitUntilConnected(session, client, { authId, providerId, who, timeoutMs });
  await showConnected(session, client, { ...question, force_new: false });
}

const defaults = { use_agent_builder_public_oauth: false, is_default: true, check_only: false } as const;
const nothing = {
  status: "pending",
  token_id: null,
  account: null,
  scopes: [],
  expires_at: null,
} as const satisfies Partial<Connected>;

async function begin(session: Session, client: Client, body: Authenticate): Promise<Authenticated> {
  try {
    return await client.authenticate({ body }, { signal: session.signal });
  } catch (error) {
    throw isRefusal(error, "oauthProviderNotFound") ? await unknownProvider(session, body.provider) : error;
  }
}

/** Duration of one long poll, shorter than the deadline of the client. */
const holdS = 20;

async function waitUntilConnected(
  session: Session,
  client: Client,
  { authId, providerId, who, timeoutMs }: { authId: string; providerId: string; who: string; timeoutMs: number },
): Promise<void> {
  const endAt = performance.now() + timeoutMs;
  for (;;) {
    const leftS = (endAt - performance.now()) / 1_000;
    const timeout = Math.max(0, Math.min(holdS, leftS));
    const { status } = await client.waitForAuth({ auth_id: authId, timeout }, { signal: session.signal });
    if (status === "completed") return;
    if (status === "not_found") throw await notConnected(session, client, { providerId, who });
    if (leftS <= 0) throw later(`${who} has not consented yet.`);
  }
}

const later = (what: string) =>
  new CliFailure(what, {
    exitCode: exitCodes.pending,
    hints: ["Show connections:  pierhead auth tokens list --user NAME"],
  });

/** Reads the reason from the token history of the user, because the wait only reports that the sign-in has ended. */
async function notConnected(
  session: Session,
  client: Client,
  { providerId, who }: { providerId: string; who: string },
): Promise<CliFailure> {
  const question = { provider_id: providerId, limit: 1 };
  const [newest] = await client.listTokenEvents(question, { signal: session.signal }).catch(() => []);
  const isFresh = newest?.event_type === "flow_failed" && Date.now() - Date.parse(newest.created_at) < 60_000;
  return new CliFailure(`${who} was not connected to ${providerId}.`, {
    because: isFresh ? newest.detail : "The sign-in was refused, or not finished within ten minutes.",
    hints: [`Try again:  pierhead auth connect ${providerId}`],
  });
}

async function showConnected(session: Session, client: Client, question: Authenticate): Promise<void> {
  const { signal } = session;
  const body = { ...question, force_new: false, check_only: true };
  const { status, user_id, metadata, expires_at } = await client.authenticate({ body }, { signal });
  if (status !== "completed") {
    throw new CliFailure(`${question.provider} issued a token that cannot be used.`, {
      because: "The token lacks a requested scope, or has expired.",
      hints: ["Show its scopes: pierhead auth tokens list --user NAME"],
    });
  }
  const tokenId = metadata?.["token_id"] as string;
  const scopes = (metadata?.["scopes"] ?? []) as string[];
  const kept = (await client.listOAuthTokens({ provider_id: question.provider }, { signal })).find(
    ({ id }) => id === tokenId,
  );
  const account = kept?.provider_account_label ?? null;
  const found = { provider_id: question.provider, user_id, auth_id: null, url: null, token_id: tokenId };
  const connected: Connected = { status: "completed", ...found, account, scopes, expires_at };
  session.answer(connected, () => {
    const as = account === null ? "" : ` as ${account}`;
    const may = scopes.length === 0 ? "" : `, with ${scopes.join(" ")}`;
    return harmless(`Connected: ${nameOf(user_id, { agent: question.agent_id })} at ${question.provider}${as}${may}.`);
  });
}

/** Returns a readable name, because the id of a key means nothing to users. */
function nameOf(userId: string | null, { agent }: { agent?: string | null | undefined }): string {
  if (userId === null) return `the agent ${agent ?? ""}`.trim();
  return userId.startsWith("key:") ? "this key's own user" : userId;
}
