import { isRefusal } from "../../client/client.ts";
import type {
  CreateOAuthProvider,
  OAuthPreset,
  OAuthProvider,
  PatchOAuthProvider,
} from "../../contract/oauth/oauth-provider.ts";
import { CliFailure, usageFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { tableOf } from "../terminal/choose.ts";
import { askSecret, confirm } from "../terminal/prompt.ts";
import { readStdin } from "../terminal/stdin.ts";
import { harmless } from "../terminal/terminal.ts";
import { columns, nearest } from "../terminal/text.ts";

interface Settings {
  name?: string;
  clientId?: string;
  authUrl?: string;
  tokenUrl?: string;
  issuer?: string;
  revocationUrl?: string;
  pkce?: boolean;
  redirectUris?: string;
}

export async function providersList(session: Session): Promise<void> {
  const client = await session.client();
  const providers = await client.listOAuthProviders({}, { signal: session.signal });
  session.answer({ providers }, () => {
    const rows = providers.map((one) => [
      one.provider_id,
      one.name,
      new URL(one.auth_url).host,
      one.client_id,
      one.mcp_server_url ?? "-",
    ]);
    return tableOf(session, ["PROVIDER", "NAME", "SIGN-IN AT", "CLIENT", "MCP SERVER"], rows);
  });
  if (providers.length === 0) {
    session.terminal.say("No providers. List the presets: pierhead auth providers presets");
    session.terminal.say("Add an MCP server:              pierhead auth providers add NAME --mcp URL");
  }
}

export async function providersPresets(session: Session): Promise<void> {
  const presets = await presetsOf(session);
  session.answer({ presets }, () => {
    const rows = presets.map((one) => [one.id, one.name, one.registration_url, one.common_scopes.join(" ")]);
    return tableOf(session, ["PRESET", "NAME", "REGISTER AT", "COMMON SCOPES"], rows);
  });
}

export async function providersAdd(
  session: Session,
  [providerId = ""]: string[],
  options: Settings & { preset?: string; mcp?: string; public?: boolean },
): Promise<void> {
  const client = await session.client();
  if (options.mcp !== undefined) {
    const body = { provider_id: providerId, name: options.name ?? providerId, mcp_server_url: options.mcp };
    const found = await client.discoverMcpProvider({ body }, { signal: session.signal });
    session.answer(found, () => detailsOf(found));
    session.terminal.say(`Registered at ${new URL(found.auth_url).host}.`);
  } else {
    const preset = await presetFor(session, providerId, options);
    if (options.clientId === undefined) throw await needsClient(session, providerId, preset);
    const body: CreateOAuthProvider = {
      provider_id: providerId,
      client_id: options.clientId,
      ...(preset === undefined ? { name: options.name ?? providerId } : { preset: preset.id }),
      ...settingsOf(options),
      ...(options.public !== true && { client_secret: await readSecret(session) }),
    };
    const made = await client.createOAuthProvider({ body }, { signal: session.signal });
    session.answer(made, () => detailsOf(made));
    session.terminal.say("Register exactly the redirect URI above with the provider, and no other one of this server.");
  }
  session.terminal.say(`Connect a user:  pierhead auth connect ${providerId} --user NAME`);
}

export async function providersShow(session: Session, [providerId = ""]: string[]): Promise<void> {
  const found = await findProvider(session, providerId);
  session.answer(found, () => detailsOf(found));
}

export async function providersUpdate(
  session: Session,
  [providerId = ""]: string[],
  options: Settings & { secret?: boolean },
): Promise<void> {
  const client = await session.client();
  const body: PatchOAuthProvider = {
    ...settingsOf(options),
    ...(options.clientId !== undefined && { client_id: options.clientId }),
    ...(options.secret && { client_secret: await readSecret(session) }),
  };
  if (Object.keys(body).length === 0) throw usageFailure("Nothing to change. Give an option, such as --secret.");
  await findProvider(session, providerId);
  const changed = await client.patchOAuthProvider({ provider_id: providerId, body }, { signal: session.signal });
  session.answer(changed, () => detailsOf(changed));
}

export async function providersDelete(
  session: Session,
  [providerId = ""]: string[],
  options: { yes?: boolean },
): Promise<void> {
  const client = await session.client();
  const { name } = await findProvider(session, providerId);
  if (!options.yes) await confirm(session, `Delete ${harmless(name)} and revoke all of its tokens?`);
  const { message } = await client.deleteOAuthProvider({ provider_id: providerId }, { signal: session.signal });
  session.answer({ provider_id: providerId, deleted: true }, () => undefined);
  session.terminal.say(message);
}

/** Returns the failure for an unknown provider, with similar names and the command to add it. */
export async function unknownProvider(session: Session, providerId: string): Promise<CliFailure> {
  const client = await session.client();
  // A key with the role agent may not list the providers.
  const known = await client.listOAuthProviders({}, { signal: session.signal }).catch(() => []);
  const alike = nearest(
    providerId,
    known.map(({ provider_id }) => provider_id),
  );
  const hints = [
    ...(alike.length > 0 ? [`Did you mean ${alike.join(", ")}?`] : []),
    `Add it:  pierhead auth providers add ${providerId}`,
  ];
  return new CliFailure(`There is no OAuth provider "${providerId}".`, { hints });
}

async function findProvider(session: Session, providerId: string): Promise<OAuthProvider> {
  const client = await session.client();
  try {
    return await client.getOAuthProvider({ provider_id: providerId }, { signal: session.signal });
  } catch (error) {
    throw isRefusal(error, "oauthProviderNotFound") ? await unknownProvider(session, providerId) : error;
  }
}

async function presetsOf(session: Session): Promise<OAuthPreset[]> {
  return (await session.client()).listOAuthPresets({}, { signal: session.signal });
}

/** Returns the preset from `--preset` or with the id of the provider, or undefined if the endpoints are given. */
async function presetFor(
  session: Session,
  providerId: string,
  { preset, authUrl }: Settings & { preset?: string },
): Promise<OAuthPreset | undefined> {
  if (preset === undefined && authUrl !== undefined) return undefined;
  const presets = await presetsOf(session);
  const found = presets.find(({ id }) => id === (preset ?? providerId));
  if (found !== undefined) return found;
  const ids = presets.map(({ id }) => id).join(", ");
  if (preset !== undefined) throw usageFailure(`"${preset}" is not one of ${ids}.`);
  throw usageFailure(
    `"${providerId}" is not a preset (${ids}), so its addresses are required.`,
    "OAuth provider:      --auth-url URL --token-url URL",
    "An MCP server:       --mcp URL",
  );
}

/** Returns the steps to register an application with the provider. */
async function needsClient(session: Session, providerId: string, preset: OAuthPreset | undefined): Promise<CliFailure> {
  const { url } = await session.connection();
  const redirectUri = `${url}/v2/auth/callback/${encodeURIComponent(providerId)}`;
  return usageFailure(
    "Register your application with the provider first. It issues a client id and a secret.",
    `Register it at:      ${preset?.registration_url ?? "the provider"}`,
    `Its redirect URI:    ${redirectUri}`,
    `Then:                pierhead auth providers add ${providerId} --client-id ID`,
  );
}

/** Reads the secret from a prompt or stdin, so that it appears in no shell history and no process list. */
async function readSecret(session: Session): Promise<string> {
  if (session.terminal.isInteractive) return askSecret(session, "Client secret");
  const secret = (await readStdin(session.context)).replace(/\r?\n$/, "");
  if (secret !== "") return secret;
  throw usageFailure("The client secret is missing.", "Send it on stdin:  < secret.txt", "Without a secret:  --public");
}

function settingsOf(options: Settings) {
  const { name, authUrl, tokenUrl, issuer, revocationUrl, pkce, redirectUris } = options;
  return {
    ...(name !== undefined && { name }),
    ...(authUrl !== undefined && { auth_url: authUrl }),
    ...(tokenUrl !== undefined && { token_url: tokenUrl }),
    ...(issuer !== undefined && { issuer }),
    ...(revocationUrl !== undefined && { revocation_url: revocationUrl }),
    ...(pkce && { uses_pkce: true }),
    ...(redirectUris !== undefined && { allowed_redirect_uris: redirectUris.split(",").map((uri) => uri.trim()) }),
  };
}

function detailsOf(provider: OAuthProvider): string {
  const facts: [string, string | null][] = [
    ["Provider", provider.provider_id],
    ["Name", provider.name],
    ["MCP server", provider.mcp_server_url],
    ["Sign-in at", provider.auth_url],
    ["Tokens from", provider.token_url],
    ["Client", provider.client_id],
    ["PKCE", provider.uses_pkce ? "yes" : "no"],
    ["Scopes", provider.scopes_supported?.join(" ") ?? null],
    ["Redirect URI", provider.redirect_uri],
  ];
  const shown = facts.filter((fact): fact is [string, string] => fact[1] !== null);
  return columns(shown.map(([name, value]) => [name, harmless(value)]));
}
