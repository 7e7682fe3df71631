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
import { type OAuthQuirks, oauthQuirksOf } from "../../domain/oauth-quirks.ts";
import type { ProviderRow } from "../../store/oauth/oauth-providers.ts";
import type { IssuedToken } from "../../store/oauth/oauth-tokens.ts";
import { failureOf, OAuthFailure } from "./failure.ts";
import type { ProviderFetch } from "./outbound.ts";
import { readTokenAnswer, type TokenAnswer } from "./token-answer.ts";

/** A provider with what is needed to speak with it. */
export interface Dialogue {
  provider: ProviderRow;
  /** null: a public client. */
  secret: string | null;
  fetch: ProviderFetch;
}

/** What came back to the redirect URI (RFC 6749, section 4.1.2). */
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
 * Turns the answer of the authorization endpoint into a token.
 * @throws OAuthFailure: the answer is an error, comes from another issuer, or the code is not taken.
 */
export async function exchangeCode(dialogue: Dialogue, response: AuthorizationResponse): Promise<Exchanged> {
  try {
    checkIssuer(dialogue.provider, response.parameters);
    // Checked above; the library would compare with an issuer that a provider added by hand has not told.
    const parameters = new URLSearchParams([...response.parameters].filter(([name]) => name !== "iss"));
    const as = serverOf(dialogue.provider);
    const client = clientOf(dialogue.provider);
    const checked = validateAuthResponse(as, client, parameters, response.state);
    const { options, told } = listening(dialogue);
    const { redirectUri, verifier } = response;
    const codeVerifier = verifier ?? nopkce;
    const answer = await authorizationCodeGrantRequest(
      ...([as, client, authOf(dialogue), checked, redirectUri, codeVerifier, options] as const),
    );
    const issued = await processAuthorizationCodeResponse(as, client, answer);
    const context = { quirks: quirksOf(dialogue), fallbackScopes: response.askedScopes, told: told() };
    const { workspaceToken: other } = told();
    return {
      token: issuedToken(issued, context),
      workspaceToken: other === null ? null : issuedToken(other as unknown as typeof issued, context),
    };
  } catch (error) {
    throw failureOf(error);
  }
}

/**
 * Gets a new access token (RFC 6749, section 6). A provider that rotates gives a new refresh token too; else the one
 * before stays good.
 * @throws OAuthFailure
 */
export async function refreshToken(
  dialogue: Dialogue,
  before: { refreshToken: string; scopes: readonly string[] },
): Promise<IssuedToken> {
  try {
    const as = serverOf(dialogue.provider);
    const client = clientOf(dialogue.provider);
    const { options, told } = listening(dialogue);
    const answer = await refreshTokenGrantRequest(as, client, authOf(dialogue), before.refreshToken, options);
    const issued = await processRefreshTokenResponse(as, client, answer);
    const context = { quirks: quirksOf(dialogue), fallbackScopes: before.scopes, told: told() };
    const token = issuedToken(issued, context);
    return { ...token, refreshToken: token.refreshToken ?? before.refreshToken };
  } catch (error) {
    throw failureOf(error);
  }
}

/**
 * Tells the provider that a token is of no more use (RFC 7009, or what the service has instead). The refresh token first:
 * a provider should end the whole grant with it.
 * @throws OAuthFailure
 */
export async function revokeToken(
  dialogue: Dialogue,
  tokens: { accessToken: string; refreshToken: string | null },
  signal: AbortSignal,
): Promise<void> {
  const { provider, fetch } = dialogue;
  const quirks = quirksOf(dialogue);
  const revocation =
    provider.revocation_url === null ? quirks.revocation : ({ kind: "rfc7009", url: provider.revocation_url } as const);
  if (revocation === null) return;
  try {
    if (revocation.kind === "github") return await revokeAtGithub(dialogue, revocation.url, tokens.accessToken, signal);
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
        await revocationRequest(as, clientOf(provider), authOf(dialogue), token, options),
      );
    }
  } catch (error) {
    throw failureOf(error);
  }
}

/** GitHub's own way: the application, as itself, names the token. */
async function revokeAtGithub({ provider, secret, fetch }: Dialogue, url: string, token: string, signal: AbortSignal) {
  const headers = {
    accept: "application/vnd.github+json",
    "content-type": "application/json",
    authorization: `Basic ${Buffer.from(`${provider.client_id}:${secret ?? ""}`).toString("base64")}`,
  };
  const body = JSON.stringify({ access_token: token });
  await fetch(`${url}/${encodeURIComponent(provider.client_id)}/token`, { method: "DELETE", headers, body, signal });
}

const quirksOf = ({ provider }: Dialogue): OAuthQuirks => oauthQuirksOf(provider);

const clientOf = ({ client_id }: ProviderRow): Client => ({ client_id });

const libraryOptions = (fetch: ProviderFetch) => ({ [customFetch]: fetch, [allowInsecureRequests]: true });

function authOf({ provider, secret }: Dialogue): ClientAuth {
  if (provider.token_endpoint_auth_method === "none" || secret === null) return None();
  return provider.token_endpoint_auth_method === "client_secret_basic"
    ? ClientSecretBasic(secret)
    : ClientSecretPost(secret);
}

/** The authorization server as the library wants it; one that was added by hand may have told no issuer. */
function serverOf({ issuer, auth_url, token_url }: ProviderRow): AuthorizationServer {
  return { issuer: issuer ?? new URL(auth_url).origin, authorization_endpoint: auth_url, token_endpoint: token_url };
}

/**
 * Did the server answer that was asked (RFC 9207)? For providers without a known issuer, one that is told must at least
 * live where the provider does.
 * @throws OAuthFailure
 */
function checkIssuer({ issuer, names_issuer, auth_url, token_url }: ProviderRow, parameters: URLSearchParams): void {
  const [told, second] = parameters.getAll("iss");
  const isMissing = told === undefined && names_issuer;
  const isOther = told !== undefined && (issuer === null ? !livesAt(told, [auth_url, token_url]) : told !== issuer);
  if (!isMissing && !isOther && second === undefined) return;
  const because = "The answer does not come from the authorization server that was asked.";
  throw new OAuthFailure("refused", "issuer_mismatch", because);
}

function livesAt(issuer: string, urls: readonly string[]): boolean {
  return URL.canParse(issuer) && urls.some((url) => new URL(url).origin === new URL(issuer).origin);
}

/** Options of one call of the token endpoint, and what its answer told beside the standard. */
function listening({ provider, fetch }: Dialogue) {
  const quirks = oauthQuirksOf(provider);
  let told: TokenAnswer | undefined;
  const heard: ProviderFetch = async (url, options = {}) => {
    told = await readTokenAnswer(await fetch(url, quirks.readsJson ? asJson(options) : options), quirks);
    return told.standard;
  };
  const additionalParameters = provider.resource === null ? {} : { resource: provider.resource };
  return { options: { ...libraryOptions(heard), additionalParameters }, told: () => told as TokenAnswer };
}

function asJson(options: NonNullable<Parameters<ProviderFetch>[1]>): typeof options {
  if (!(options.body instanceof URLSearchParams)) return options;
  const headers = { ...options.headers, "content-type": "application/json" };
  return { ...options, headers, body: JSON.stringify(Object.fromEntries(options.body)) };
}

/** A token nobody can send in a header, or of a kind that needs more than a header, is none. */
const tokenForm = /^[\x21-\x7e]{1,16384}$/;

/** No clock is trusted further than this: what lives longer is asked for again. */
const lifeMaxMs = 10 * 365 * 86_400_000;

function issuedToken(
  issued: Pick<TokenEndpointResponse, "access_token" | "token_type" | "expires_in" | "refresh_token" | "scope">,
  { quirks, fallbackScopes, told }: { quirks: OAuthQuirks; fallbackScopes: readonly string[]; told: TokenAnswer },
): IssuedToken {
  const { access_token: accessToken, refresh_token: refreshed = null, expires_in: expiresInS, scope } = issued;
  const isBearer = issued.token_type.toLowerCase() === "bearer";
  if (!isBearer || !tokenForm.test(accessToken) || (refreshed !== null && !tokenForm.test(refreshed))) {
    throw new OAuthFailure("unavailable", "invalid_response", "The provider gave a token that cannot be used.");
  }
  const lifeMs = expiresInS === undefined ? quirks.assumedLifeMs : Math.min(expiresInS * 1_000, lifeMaxMs);
  return {
    accessToken,
    refreshToken: refreshed,
    lifeMs,
    // A provider that says nothing gave what was asked for (RFC 6749, section 5.1). Some separate by commas.
    scopes: scope === undefined ? [...fallbackScopes] : scope.split(/[\s,]+/).filter((one) => one !== ""),
    metadata: told.extras,
    accountLabel: told.accountLabel,
  };
}
