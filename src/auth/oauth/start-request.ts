import { randomUUID } from "node:crypto";
import { calculatePKCECodeChallenge, generateRandomCodeVerifier, generateRandomState } from "oauth4webapi";
import { errors } from "../../contract/error.ts";
import type { Authenticate } from "../../contract/oauth/oauth-token.ts";
import { oauthQuirksOf } from "../../domain/oauth-quirks.ts";
import type { ProviderRow } from "../../store/oauth/oauth-providers.ts";
import {
  findSameRequest,
  insertAuthRequest,
  openRequest,
  type RequestSecrets,
} from "../../store/oauth/oauth-requests.ts";
import { findTokensInExcess, type Subject, type TokenRow } from "../../store/oauth/oauth-tokens.ts";
import type { OAuthCaller, OAuthDeps } from "./deps.ts";

/** Time that a user has to consent. */
const requestLifeMs = 10 * 60_000;

/** A pending request is reused while this much of its life is left, so that two equal calls return one URL. */
const requestReuseMs = requestLifeMs / 2;

/**
 * Starts a sign-in, or returns the pending one for exactly the same request.
 * @throws ApiError 400 `redirectUriNotAllowed`, `tooManyOAuthTokens`
 */
export async function startRequest(
  deps: OAuthDeps,
  caller: OAuthCaller,
  input: { provider: ProviderRow; subject: Subject; asked: Authenticate; renewed: TokenRow | undefined },
): Promise<{ url: string; authId: string }> {
  const { provider, subject, asked, renewed } = input;
  const own = deps.callbackUrl(provider);
  const redirectUri = chosenRedirectUri(provider, asked.redirect_uri ?? null, own);
  // Scopes of the replaced token are requested again, because a new grant must not reduce the old one.
  const scopes = [...new Set([...asked.scopes, ...(renewed?.scopes ?? []), ...oauthQuirksOf(provider).silentScopes])];
  const request = {
    subject,
    provider,
    redirectUri,
    scopes: scopes.toSorted(),
    isOwnCallback: redirectUri === own,
    isDefault: asked.is_default,
    replacesTokenId: renewed?.id ?? null,
    actor: caller.actor,
  };
  const same = asked.force_new ? undefined : await findSameRequest(deps.db, request, requestReuseMs);
  if (same !== undefined) {
    const secrets = openRequest(deps.sealer, same);
    return { authId: same.id, url: await authorizationUrl(provider, request, secrets) };
  }
  // Fails now rather than after the user has consented.
  if (renewed === undefined) await findTokensInExcess(deps.db, deps.sealer, subject, provider.id);
  const id = randomUUID();
  const secrets = { state: generateRandomState(), verifier: provider.uses_pkce ? generateRandomCodeVerifier() : null };
  const made = { ...request, id, lifeMs: requestLifeMs };
  await insertAuthRequest(deps.db, deps.sealer, made, secrets);
  return { authId: id, url: await authorizationUrl(provider, request, secrets) };
}

/** Compares redirect URIs character by character: another prefix, port or slash is another address (RFC 9700, section 2.1). */
function chosenRedirectUri(provider: ProviderRow, asked: string | null, own: string): string {
  if (asked === null) return provider.default_redirect_uri ?? own;
  if (asked === own || provider.allowed_redirect_uris.includes(asked)) return asked;
  throw errors.redirectUriNotAllowed(provider.provider_id);
}

async function authorizationUrl(
  provider: ProviderRow,
  { scopes, redirectUri }: { scopes: readonly string[]; redirectUri: string },
  { state, verifier }: RequestSecrets,
): Promise<string> {
  const { scopeParameter, scopeSeparator } = oauthQuirksOf(provider);
  const url = new URL(provider.auth_url);
  const parameters = {
    ...provider.authorization_params,
    response_type: "code",
    client_id: provider.client_id,
    redirect_uri: redirectUri,
    state,
    ...(scopes.length > 0 && { [scopeParameter]: scopes.join(scopeSeparator) }),
    ...(verifier !== null && {
      code_challenge: await calculatePKCECodeChallenge(verifier),
      code_challenge_method: "S256",
    }),
    ...(provider.resource !== null && { resource: provider.resource }),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}
