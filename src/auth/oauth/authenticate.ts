import { errors } from "../../contract/error.ts";
import type { Authenticate, Authenticated } from "../../contract/oauth/oauth-token.ts";
import { coversScopes, oauthQuirksOf } from "../../domain/oauth-quirks.ts";
import { findProvider, type ProviderRow } from "../../store/oauth/oauth-providers.ts";
import { findUsableTokens, type Subject, type TokenRow } from "../../store/oauth/oauth-tokens.ts";
import { type OAuthCaller, type OAuthDeps, ownUserId } from "./deps.ts";
import { type Fresh, freshToken } from "./refresh.ts";
import { startRequest } from "./start-request.ts";

/**
 * Returns a usable token, or starts a sign-in (contract 9.3).
 * @throws ApiError 404 for an unknown provider or token, 403 for a user that the caller may not act for, 400 for a redirect
 *   URI that is not allowed, 502 when a token cannot be refreshed now.
 */
export async function authenticate(deps: OAuthDeps, caller: OAuthCaller, asked: Authenticate): Promise<Authenticated> {
  const provider = await chosenProvider(deps, caller, asked);
  const subject = subjectOf(caller, asked);
  const candidates = await candidatesFor(deps, { provider, subject, asked });
  const fitting = candidates.filter((row) => coversScopes(row.scopes, asked.scopes, oauthQuirksOf(provider)));
  const found = asked.force_new ? undefined : await firstFresh(deps, provider, fitting);
  if (found !== undefined) return completed(found, subject.userId);
  const status = statusWithout(fitting, subject, asked);
  const answer = { ...nothing, status, user_id: subject.userId };
  if (asked.check_only) return answer;
  const renewed = asked.force_new ? undefined : renewedToken(candidates, subject, fitting);
  const { url, authId } = await startRequest(deps, caller, { provider, subject, asked, renewed });
  return { ...answer, url, auth_id: authId };
}

async function chosenProvider(deps: OAuthDeps, caller: OAuthCaller, asked: Authenticate): Promise<ProviderRow> {
  const { sharedOrganizationId: shared } = deps;
  const organizations = asked.use_agent_builder_public_oauth && shared !== null ? [shared] : [];
  for (const organizationId of [...organizations, caller.organizationId]) {
    const found = await findProvider(deps.db, organizationId, asked.provider);
    if (found !== undefined) return found;
  }
  throw errors.oauthProviderNotFound(asked.provider);
}

/**
 * Returns the owner of the token. An agent that names no user requests its own token. Every other caller requests a user's
 * token, which may be the key's own user.
 * @throws ApiError 403 for another user than the only one that the caller may act for.
 */
export function subjectOf(
  caller: OAuthCaller,
  asked: Pick<Authenticate, "user_id" | "ls_user_id" | "agent_id">,
): Subject {
  const userId = asked.user_id ?? asked.ls_user_id ?? caller.namedUserId;
  const agentId = asked.agent_id ?? null;
  if (caller.onlyUserId !== null && userId !== caller.onlyUserId) throw errors.forbidden();
  return { tenantId: caller.tenantId, userId: userId ?? (agentId === null ? ownUserId(caller) : null), agentId };
}

/** @throws ApiError 404 when `token_id` is not one of the subject's tokens at this provider. */
async function candidatesFor(
  deps: OAuthDeps,
  { provider, subject, asked }: { provider: ProviderRow; subject: Subject; asked: Authenticate },
): Promise<TokenRow[]> {
  const usable = await findUsableTokens(deps.db, subject, provider.id);
  if (asked.token_id == null) return usable;
  const chosen = usable.find(({ id }) => id === asked.token_id);
  if (chosen === undefined) throw errors.oauthTokenNotFound(asked.token_id);
  return [chosen];
}

/** Returns the first token that is valid or can be refreshed. Only trying shows whether a token can be refreshed. */
async function firstFresh(deps: OAuthDeps, provider: ProviderRow, rows: readonly TokenRow[]): Promise<Fresh> {
  for (const row of rows) {
    const found = await freshToken(deps, provider, row);
    if (found !== undefined) return found;
  }
  return undefined;
}

function statusWithout(
  fitting: readonly TokenRow[],
  { userId }: Subject,
  asked: Authenticate,
): Authenticated["status"] {
  if (fitting.length > 0 && !asked.force_new) return "token_expired";
  return asked.check_only || userId === null ? "connection_required" : "pending";
}

/** Returns the subject's own token that a new consent replaces: one that fits but is dead, otherwise one with too few scopes. */
function renewedToken(
  candidates: readonly TokenRow[],
  { userId, agentId }: Subject,
  fitting: readonly TokenRow[],
): TokenRow | undefined {
  const own = candidates.filter((row) => row.user_id === userId && row.agent_id === agentId);
  return own.find((row) => fitting.includes(row)) ?? own[0];
}

const nothing = { url: null, auth_id: null, token: null, metadata: null, expires_at: null };

/** Returns the response that carries a token. */
export function completed({ row, secrets }: NonNullable<Fresh>, userId: string | null): Authenticated {
  const expires_at = row.expires_at?.toISOString() ?? null;
  const metadata = { ...secrets.metadata, scopes: row.scopes, expires_at, token_id: row.id };
  return { status: "completed", ...nothing, token: secrets.accessToken, user_id: userId, metadata, expires_at };
}
