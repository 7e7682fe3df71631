import {
  type AuthorizationServer,
  allowInsecureRequests,
  authorizationCodeGrantRequest,
  type Client,
  type ClientAuth,
  ClientSecretBasic,
  ClientSecretPost,
  customFetch,
  None,
  nopkce,
  processAuthorizationCodeResponse,
  processRefreshTokenResponse,
  processRevocationResponse,
  refreshTokenGrantRequest,
  revocationRequest,
  type TokenEndpointResponse,
  validateAuthResponse,
} from "oauth4webapi";
import { oauthScopesLengthMax } from "../../domain/limits.ts";
import { type OAuthQuirks, oauthQuirksOf } from "../../domain/oauth-quirks.ts";
import { isPlainText } from "../../domain/plain-text.ts";
import type { ProviderRow } from "../../store/oauth/oauth-providers.ts";
import type { IssuedToken } from "../../store/oauth/oauth-tokens.ts";
import { failureOf, OAuthFailure } from "./failure.ts";
import type { ProviderFetch } from "./outbound.ts";
import { readTokenAnswer, type TokenAnswer } from "./token-answer.ts";

/** Provider with the secret and the transport for calls to it. */
export interface ProviderClient {
  provider: ProviderRow;
  /** null: a public client. */
  secret: string | null;
  fetch: ProviderFetch;
}

/** Response at the redirect URI (RFC 6749, section 4.1.2). */
export interface AuthorizationResponse {
  parameters: URLSearchParams;
  state: string;
  redirectUri: string;
  /** null: the provider is used without PKCE. */
  verifier: string | null;
  askedScopes: readonly string[];
}

export interface Exchanged {
  token: IssuedToken;
  /** For the whole workspace, beside the user's; see `TokenAnswer`. */
  workspaceToken: IssuedToken | null;
}

/**
 * Exchanges the code of an authorization response for a token.
 * @throws OAuthFailure when the response is an error or comes from another issuer, or the provider refuses the code.
 */
export async function exchangeCode(
  providerClient: ProviderClient,
  response: AuthorizationResponse,
): Promise<Exchanged> {
  try {
    checkIssuer(providerClient.provider, response.parameters);
    // Checked above. The library would compare it with an issuer that is unknown for providers that were added by hand.
    const parameters = new URLSearchParams([...response.parameters].filter(([name]) => name !== "iss"));
    const as = serverOf(providerClient.provider);
    const client = clientOf(providerClient.provider);
    const checked = validateAuthResponse(as, client, parameters, response.state);
    const { options, answered } = capturing(providerClient);
    const { redirectUri, verifier } = response;
    const codeVerifier = verifier ?? nopkce;
    const answer = await authorizationCodeGrantRequest(
      as,
      client,
      authOf(providerClient),
      checked,
      redirectUri,
      codeVerifier,
      options,
    );
    const issued = await processAuthorizationCodeResponse(as, client, answer);
    const context = { quirks: quirksOf(providerClient), fallbackScopes: response.askedScopes, answer: answered() };
    const { workspaceToken: other } = answered();
    return {
      token: issuedToken(issued, context),
      workspaceToken: other === null ? null : issuedToken(other as unknown as typeof issued, context),
    };
  } catch (error) {
    throw failureOf(error);
  }
}

/**
 * Requests a new access token (RFC 6749, section 6). A provider that rotates also issues a new refresh token. Otherwise the
 * old one stays valid.
 * @throws OAuthFailure
 */
export async function refreshToken(
  providerClient: ProviderClient,
  before: { refreshToken: string; scopes: readonly string[] },
): Promise<IssuedToken> {
  try {
    const as = serverOf(providerClient.provider);
    const client = clientOf(providerClient.provider);
    const { options, answered } = capturing(providerClient);
    const answer = await refreshTokenGrantRequest(as, client, authOf(providerClient), before.refreshToken, options);
    const issued = await processRefreshTokenResponse(as, client, answer);
    const context = { quirks: quirksOf(providerClient), fallbackScopes: before.scopes, answer: answered() };
    const token = issuedToken(issued, context);
    return { ...token, refreshToken: token.refreshToken ?? before.refreshToken };
  } catch (error) {
    throw failureOf(error);
  }
}

/**
 * Revokes a token at its provider (RFC 7009, or the service's own method). Starts with the refresh token, because a provider
 * should end the whole grant with it.
 * @throws OAuthFailure
 */
export async function revokeToken(
  providerClient: ProviderClient,
  tokens: { accessToken: string; refreshToken: string | null },
  signal: AbortSignal,
): Promise<void> {
  const { provider, fetch } = providerClient;
  const quirks = quirksOf(providerClient);
  const revocation =
    provider.revocation_url === null ? quirks.revocation : ({ kind: "rfc7009", url: provider.revocation_url } as const);
  if (revocation === null) return;
  try {
    if (revocation.kind === "github")
      return await revokeAtGithub(providerClient, revocation.url, tokens.accessToken, signal);
    if (revocation.kind === "bearer") {
      const headers = { authorization: `Bearer ${tokens.accessToken}` };
      await fetch(revocation.url, { method: "POST", headers, signal });
      return;
    }
    const as = { ...serverOf(provider), revocation_endpoint: revocation.url };
    for (const [hint, token] of [
      ["refresh_token", tokens.refreshToken],
      ["access_token", tokens.accessToken],
    ] as const) {
      if (token === null) continue;
      const options = { ...libraryOptions(fetch), signal, additionalParameters: { token_type_hint: hint } };
      await processRevocationResponse(
        await revocationRequest(as, clientOf(provider), authOf(providerClient), token, options),
      );
    }
  } catch (error) {
    throw failureOf(error);
  }
}

/** Revokes a token by GitHub's own method: the application authenticates as itself and names the token. */
async function revokeAtGithub(
  { provider, secret, fetch }: ProviderClient,
  url: string,
  token: string,
  signal: AbortSignal,
) {
  const headers = {
    accept: "application/vnd.github+json",
    "content-type": "application/json",
    authorization: `Basic ${Buffer.from(`${provider.client_id}:${secret ?? ""}`).toString("base64")}`,
  };
  const body = JSON.stringify({ access_token: token });
  await fetch(`${url}/${encodeURIComponent(provider.client_id)}/token`, { method: "DELETE", headers, body, signal });
}

const quirksOf = ({ provider }: ProviderClient): OAuthQuirks => oauthQuirksOf(provider);

const clientOf = ({ client_id }: ProviderRow): Client => ({ client_id });

const libraryOptions = (fetch: ProviderFetch) => ({ [customFetch]: fetch, [allowInsecureRequests]: true });

function authOf({ provider, secret }: ProviderClient): ClientAuth {
  if (provider.token_endpoint_auth_method === "none" || secret === null) return None();
  return provider.token_endpoint_auth_method === "client_secret_basic"
    ? ClientSecretBasic(secret)
    : ClientSecretPost(secret);
}

/** Returns the authorization server for the library. One that was added by hand may have no known issuer. */
function serverOf({ issuer, auth_url, token_url }: ProviderRow): AuthorizationServer {
  return { issuer: issuer ?? new URL(auth_url).origin, authorization_endpoint: auth_url, token_endpoint: token_url };
}

/**
 * Checks that the response comes from the expected server (RFC 9207). For providers without a known issuer, a named issuer
 * must at least share the provider's origin.
 * @throws OAuthFailure
 */
function checkIssuer({ issuer, names_issuer, auth_url, token_url }: ProviderRow, parameters: URLSearchParams): void {
  const [named, second] = parameters.getAll("iss");
  const isMissing = named === undefined && names_issuer;
  const isOther =
    named !== undefined && (issuer === null ? !sharesOrigin(named, [auth_url, token_url]) : named !== issuer);
  if (!isMissing && !isOther && second === undefined) return;
  const because = "The response does not come from the expected authorization server.";
  throw new OAuthFailure("refused", "issuer_mismatch", because);
}

function sharesOrigin(issuer: string, urls: readonly string[]): boolean {
  return URL.canParse(issuer) && urls.some((url) => new URL(url).origin === new URL(issuer).origin);
}

/** Returns the options of one call of the token endpoint, and access to the non-standard parts of its response. */
function capturing({ provider, fetch }: ProviderClient) {
  const quirks = oauthQuirksOf(provider);
  let answer: TokenAnswer | undefined;
  const captured: ProviderFetch = async (url, options = {}) => {
    answer = await readTokenAnswer(await fetch(url, quirks.readsJson ? asJson(options) : options), quirks);
    return answer.standard;
  };
  const additionalParameters = provider.resource === null ? {} : { resource: provider.resource };
  return { options: { ...libraryOptions(captured), additionalParameters }, answered: () => answer as TokenAnswer };
}

function asJson(options: NonNullable<Parameters<ProviderFetch>[1]>): typeof options {
  if (!(options.body instanceof URLSearchParams)) return options;
  const headers = { ...options.headers, "content-type": "application/json" };
  return { ...options, headers, body: JSON.stringify(Object.fromEntries(options.body)) };
}

/** Form of a token that fits into a header. */
const tokenForm = /^[\x21-\x7e]{1,16384}$/;

/** Maximum life of a token. A longer one from the provider is shortened to this. */
const lifeMaxMs = 10 * 365 * 86_400_000;

function issuedToken(
  issued: Pick<TokenEndpointResponse, "access_token" | "token_type" | "expires_in" | "refresh_token" | "scope">,
  { quirks, fallbackScopes, answer }: { quirks: OAuthQuirks; fallbackScopes: readonly string[]; answer: TokenAnswer },
): IssuedToken {
  const { access_token: accessToken, refresh_token: refreshed = null, expires_in: expiresInS, scope } = issued;
  const isBearer = issued.token_type.toLowerCase() === "bearer";
  if (!isBearer || !tokenForm.test(accessToken) || (refreshed !== null && !tokenForm.test(refreshed))) {
    throw new OAuthFailure("unavailable", "invalid_response", "The provider issued a token that cannot be used.");
  }
  // A missing scope means the requested scopes (RFC 6749, section 5.1). Some providers separate scopes by commas.
  if ((scope ?? fallbackScopes.join(" ")).length > oauthScopesLengthMax) {
    throw new OAuthFailure("unavailable", "invalid_response", "The provider granted more scopes than can be stored.");
  }
  const scopes = scope === undefined ? [...fallbackScopes] : scope.split(/[\s,]+/).filter((one) => one !== "");
  if (!scopes.every(isPlainText)) {
    throw new OAuthFailure("unavailable", "invalid_response", "The provider granted scopes that are not text.");
  }
  const lifeMs = expiresInS === undefined ? quirks.assumedLifeMs : Math.min(expiresInS * 1_000, lifeMaxMs);
  return {
    accessToken,
    refreshToken: refreshed,
    lifeMs,
    scopes,
    metadata: answer.extras,
    accountLabel: answer.accountLabel,
  };
}
