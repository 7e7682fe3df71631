import { isIP } from "node:net";
import { errors } from "../../contract/error.ts";
import type { CreateOAuthProvider, OAuthPreset, PatchOAuthProvider } from "../../contract/oauth/oauth-provider.ts";
import { oauthProviderListsBytesMax } from "../../domain/limits.ts";
import { findOAuthPreset, oauthPresets } from "../../domain/oauth-presets.ts";
import { oauthQuirksOf } from "../../domain/oauth-quirks.ts";
import { isLoopbackAddress, isPublicAddress } from "../../integrations/outbound-address.ts";
import type { ProviderFields } from "../../store/oauth/oauth-providers.ts";

interface Rules {
  allowPrivateNetwork: boolean;
  /** Whether the provider's metadata says that it does not support PKCE. */
  lacksPkce?: boolean;
}

/**
 * Returns the settings of a new provider. Fields that are left out come from its preset, or have a default.
 * @throws ApiError 400 `invalidProvider`
 */
export function newProviderSettings(body: CreateOAuthProvider, rules: Rules): ProviderFields {
  checkProviderId(body.provider_id);
  const preset = body.preset == null ? undefined : findOAuthPreset(body.preset);
  if (body.preset != null && preset === undefined) {
    throw errors.invalidProvider("preset", `must be one of ${oauthPresets.map(({ id }) => id).join(", ")}.`);
  }
  // Without a secret it can only be a public client.
  const defaultMethod =
    body.client_secret == null ? "none" : (preset?.token_endpoint_auth_method ?? "client_secret_post");
  const method = body.token_endpoint_auth_method ?? defaultMethod;
  const settings: ProviderFields = {
    name: body.name ?? preset?.name ?? body.provider_id,
    client_id: body.client_id,
    auth_url: body.auth_url ?? preset?.auth_url ?? "",
    token_url: body.token_url ?? preset?.token_url ?? "",
    uses_pkce: usesPkce(body, { method, preset, rules }),
    provider_type: body.provider_type ?? preset?.provider_type ?? null,
    token_endpoint_auth_method: method,
    authorization_params: body.authorization_params ?? preset?.authorization_params ?? {},
    allowed_redirect_uris: body.allowed_redirect_uris ?? [],
    default_redirect_uri: body.default_redirect_uri ?? null,
    issuer: body.issuer ?? null,
    revocation_url: body.revocation_url ?? null,
  };
  checkProviderSettings(settings, { ...rules, hasSecret: body.client_secret != null });
  return settings;
}

/**
 * Returns whether codes are requested with PKCE: for every client, also one with a secret (RFC 9700, section 2.1.1), because a
 * server that does not know it ignores its parameters. Exceptions are presets of services whose documentation excludes it, and
 * providers whose metadata does. A public client without PKCE is refused later.
 */
function usesPkce(
  { uses_pkce: asked, auth_url: authUrl }: CreateOAuthProvider,
  { method, preset, rules }: { method: string; preset: OAuthPreset | undefined; rules: Rules },
): boolean {
  if (method === "none" || asked === true) return asked ?? true;
  if (asked === false && rules.lacksPkce === true) return false;
  return preset === undefined || authUrl != null || preset.uses_pkce;
}

/**
 * Returns the settings of a provider after a change. A null or absent field leaves the setting unchanged.
 * @throws ApiError 400 `invalidProvider`, also when the secret or tokens would be sent to a host that they are not for.
 */
export function changedProviderSettings(
  before: ProviderFields,
  patch: PatchOAuthProvider,
  rules: Rules & { hasSecret: boolean; hasTokens: boolean },
): ProviderFields {
  const given = Object.entries(patch).filter(([field, value]) => value != null && field in before);
  const after: ProviderFields = { ...before, ...Object.fromEntries(given) };
  const mayEndPkce = rules.lacksPkce === true || after.token_endpoint_auth_method === "none";
  if (patch.uses_pkce === false && !mayEndPkce) after.uses_pkce = before.uses_pkce;
  checkProviderSettings(after, { ...rules, hasSecret: rules.hasSecret || patch.client_secret != null });
  const moved = movedEndpoint(before, after);
  if (moved !== undefined && rules.hasSecret && patch.client_secret == null) {
    throw errors.invalidProvider("client_secret", `must be given again when '${moved}' moves to another host.`);
  }
  if (rules.hasTokens && movesRevocation(before, after)) {
    throw errors.invalidProvider(
      "revocation_url",
      "cannot be on another host than 'token_url' while there are tokens, because it would receive them. Delete them first.",
    );
  }
  return after;
}

/**
 * Reports whether tokens that exist would be revoked at another host than before. A revocation sends access and refresh tokens, so
 * it may go to the host that issued them, or to the one that was known when they were issued.
 */
function movesRevocation(before: ProviderFields, after: ProviderFields): boolean {
  if (after.revocation_url === null || originOf(after.revocation_url) === originOf(after.token_url)) return false;
  const wasKnown = before.revocation_url !== null && originOf(before.revocation_url) === originOf(after.revocation_url);
  return !wasKnown || before.token_url !== after.token_url;
}

const originOf = (url: string) => new URL(url).origin;

/** Returns the endpoint that receives the secret or tokens and has moved to a host that received neither before. */
function movedEndpoint(before: ProviderFields, after: ProviderFields): "token_url" | "revocation_url" | undefined {
  if (originOf(after.token_url) !== originOf(before.token_url)) return "token_url";
  if (after.revocation_url === null) return undefined;
  const known = [after.token_url, before.revocation_url ?? after.token_url].map(originOf);
  return known.includes(originOf(after.revocation_url)) ? undefined : "revocation_url";
}

/** Names that have another meaning in the path where a provider's id is expected. */
const reservedIds: ReadonlySet<string> = new Set(["mcp-discover"]);
const uuidForm = /^[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}$/i;

/** @throws ApiError 400 `invalidProvider` */
export function checkProviderId(id: string): void {
  if (reservedIds.has(id) || uuidForm.test(id)) {
    throw errors.invalidProvider("provider_id", "is reserved. Choose another one.");
  }
}

/** @throws ApiError 400 `invalidProvider` */
export function checkProviderSettings(settings: ProviderFields, rules: Rules & { hasSecret: boolean }): void {
  for (const field of ["auth_url", "token_url", "revocation_url", "issuer"] as const) {
    const url = settings[field];
    if (url !== null) checkEndpoint(field, url, rules);
  }
  checkParameters(settings);
  checkSize(settings);
  for (const uri of settings.allowed_redirect_uris) checkRedirectUri(uri);
  const { default_redirect_uri: defaultUri, allowed_redirect_uris: allowed } = settings;
  if (defaultUri !== null && !allowed.includes(defaultUri)) {
    throw errors.invalidProvider("default_redirect_uri", "must be one of 'allowed_redirect_uris'.");
  }
  const { token_endpoint_auth_method: method } = settings;
  if (method === "none" && !settings.uses_pkce) {
    throw errors.invalidProvider("uses_pkce", "must be true for a public client ('token_endpoint_auth_method' none).");
  }
  if (method !== "none" && !rules.hasSecret) {
    throw errors.invalidProvider("client_secret", `is needed for 'token_endpoint_auth_method' ${method}.`);
  }
}

/** All providers of an organization are read and sent in one answer. */
function checkSize({ authorization_params: params, allowed_redirect_uris: uris }: ProviderFields): void {
  if (Buffer.byteLength(JSON.stringify([params, uris])) <= oauthProviderListsBytesMax) return;
  const because = `and 'allowed_redirect_uris' may together have ${oauthProviderListsBytesMax} bytes as JSON.`;
  throw errors.invalidProvider("authorization_params", because);
}

/**
 * Checks an endpoint. Calls to it carry secrets, so it must be https, or this machine if the operator allows that. Only the
 * text is checked here. Each call resolves and checks the host name.
 */
function checkEndpoint(field: string, text: string, { allowPrivateNetwork }: Rules): void {
  const url = readUrl(field, text);
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1").replace(/\.$/, "");
  const isHere = host === "localhost" || host.endsWith(".localhost") || isLoopbackAddress(host);
  if (!allowPrivateNetwork && (isHere || (isIP(host) !== 0 && !isPublicAddress(host)))) {
    throw errors.invalidProvider(field, "must be a public address.");
  }
  if (url.protocol !== "https:" && !isHere) throw errors.invalidProvider(field, "must begin with https://.");
}

/** Checks a redirect URI of an application: its own server, or a program on the user's machine (RFC 8252, section 7.3). */
function checkRedirectUri(text: string): void {
  const url = readUrl("allowed_redirect_uris", text);
  const isHere = url.hostname === "localhost" || url.hostname === "[::1]" || isLoopbackAddress(url.hostname);
  if (url.protocol !== "https:" && !isHere) {
    throw errors.invalidProvider("allowed_redirect_uris", `must begin with https://: ${text}`);
  }
  if (url.hostname.includes("*")) {
    throw errors.invalidProvider("allowed_redirect_uris", `must have no wildcard: ${text}`);
  }
}

/** @throws ApiError 400 `invalidProvider` */
export function readUrl(field: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || (url.protocol !== "https:" && url.protocol !== "http:")) {
    throw errors.invalidProvider(field, "must be an https:// address.");
  }
  if (url.username !== "" || url.password !== "") {
    throw errors.invalidProvider(field, "must have no user name or password.");
  }
  if (url.hash !== "" || text.includes("#")) throw errors.invalidProvider(field, "must have no fragment (#).");
  return url;
}

/** Parameters that are set by each request. */
const ownParameters: ReadonlySet<string> = new Set([
  "response_type",
  "response_mode",
  "client_id",
  "redirect_uri",
  "state",
  "nonce",
  "resource",
  "code_challenge",
  "code_challenge_method",
  "request",
  "request_uri",
]);

function checkParameters(settings: ProviderFields): void {
  const { scopeParameter } = oauthQuirksOf(settings);
  const isOwn = (name: string) => ownParameters.has(name) || name === scopeParameter;
  const inParams = Object.keys(settings.authorization_params).find(isOwn);
  if (inParams !== undefined) {
    throw errors.invalidProvider("authorization_params", `must not have '${inParams}': each request sets it itself.`);
  }
  const inUrl = [...new URL(settings.auth_url).searchParams.keys()].find(isOwn);
  if (inUrl !== undefined) {
    throw errors.invalidProvider("auth_url", `must not have the parameter '${inUrl}': each request sets it itself.`);
  }
}
