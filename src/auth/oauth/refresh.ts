import { setTimeout as sleep } from "node:timers/promises";
import { errors } from "../../contract/error.ts";
import { oauthMetadataLengthMax } from "../../domain/limits.ts";
import { recordTokenEvent } from "../../store/oauth/oauth-events.ts";
import type { ProviderRow } from "../../store/oauth/oauth-providers.ts";
import {
  claimRefresh,
  findToken,
  type IssuedToken,
  markDead,
  openToken,
  releaseRefresh,
  storeRefreshed,
  type TokenRow,
  type TokenSecrets,
} from "../../store/oauth/oauth-tokens.ts";
import { type OAuthDeps, providerClient } from "./deps.ts";
import { OAuthFailure } from "./failure.ts";
import { providerTimeoutMs } from "./outbound.ts";
import { storeWithRetries } from "./provider-exchanges.ts";
import { refreshToken, revokeToken } from "./token-endpoint.ts";

/** Minimum remaining life of a returned token: time for the agent to use it, and for clocks that differ. */
export const skewMs = 60_000;

/** Lease of a refresh: two calls of the token endpoint and a write. A holder that exceeds it is assumed dead. */
const leaseMs = 2 * providerTimeoutMs + 10_000;

/** Polling interval while another server refreshes a token. */
const pollIntervalMs = 250;

/** Token that can be returned. undefined: there is none, and the user has to consent again. */
export type Fresh = { row: TokenRow; secrets: TokenSecrets } | undefined;

export const isLive = ({ is_dead, life_left_ms }: TokenRow) =>
  !is_dead && (life_left_ms === null || life_left_ms > skewMs);

/** Reports whether this provider issued the token. A provider that was changed since must not see it. */
const isIssuedBy = (row: TokenRow, provider: ProviderRow) =>
  row.token_url === provider.token_url && row.client_id === provider.client_id;

/**
 * Returns a token that is valid for another minute, refreshed if necessary. Of concurrent callers, in this and other
 * servers, one refreshes the token and the others get the result.
 * @throws ApiError 502 `oauthProviderFailed` when the provider cannot be reached now; the token is kept.
 */
export async function freshToken(deps: OAuthDeps, provider: ProviderRow, row: TokenRow): Promise<Fresh> {
  if (isLive(row)) return { row, secrets: openToken(deps.sealer, row) };
  try {
    return await deps.exchanges.share(`token/${row.id}`, () => refreshInTurn(deps, provider, row));
  } catch (error) {
    if (!(error instanceof OAuthFailure)) throw error;
    throw errors.oauthProviderFailed(provider.provider_id, error.message);
  }
}

async function refreshInTurn(deps: OAuthDeps, provider: ProviderRow, { tenant_id, id }: TokenRow): Promise<Fresh> {
  const end = performance.now() + leaseMs;
  for (;;) {
    const row = await findToken(deps.db, tenant_id, id);
    if (row === undefined || row.is_dead) return undefined;
    const secrets = openToken(deps.sealer, row);
    if (isLive(row)) return { row, secrets };
    if (secrets.refreshToken === null || !isIssuedBy(row, provider)) return undefined;
    if (await claimRefresh(deps.db, row, { owner: deps.owner, leaseMs }))
      return refresh(deps, provider, { row, secrets });
    if (performance.now() >= end)
      throw new OAuthFailure("unavailable", "refresh_busy", "Another server is still refreshing the token.");
    await sleep(pollIntervalMs);
  }
}

async function refresh(
  deps: OAuthDeps,
  provider: ProviderRow,
  { row, secrets }: { row: TokenRow; secrets: TokenSecrets },
): Promise<Fresh> {
  const before = { refreshToken: secrets.refreshToken as string, scopes: row.scopes };
  let issued: IssuedToken;
  try {
    issued = await refreshToken(providerClient(deps, provider), before);
  } catch (error) {
    if (!(error instanceof OAuthFailure)) throw error;
    return endRefresh(deps, { row, secrets }, error);
  }
  const metadata = mergedMetadata(secrets.metadata, issued.metadata);
  const stored = await storeWithRetries(() => storeRefreshed(deps.db, deps.sealer, row, { ...issued, metadata }));
  if (!stored) return dropOrphan(deps, provider, row, issued);
  await recordTokenEvent(deps.db, subjectOf(row), { type: "refreshed", source: "refresh", ...factsOf(row) });
  const saved = (await findToken(deps.db, row.tenant_id, row.id)) as TokenRow | undefined;
  return saved === undefined ? undefined : { row: saved, secrets: openToken(deps.sealer, saved) };
}

/** Returns the metadata of a token after a refresh. A provider that sends other fields each time would make it grow without end. */
function mergedMetadata(before: Record<string, unknown>, issued: Record<string, unknown>): Record<string, unknown> {
  const merged = { ...before, ...issued };
  return JSON.stringify(merged).length <= oauthMetadataLengthMax ? merged : issued;
}

/** Ends a failed refresh. A refusal ends the token. After any other failure the token is kept, and used while it is valid. */
async function endRefresh(
  deps: OAuthDeps,
  { row, secrets }: { row: TokenRow; secrets: TokenSecrets },
  failure: OAuthFailure,
): Promise<Fresh> {
  const note = { source: "refresh", reason: failure.reason, detail: failure.message, ...factsOf(row) } as const;
  if (failure.kind === "refused") {
    if (await markDead(deps.db, row))
      await recordTokenEvent(deps.db, subjectOf(row), { type: "refresh_failed", ...note });
    return undefined;
  }
  await releaseRefresh(deps.db, row);
  await recordTokenEvent(deps.db, subjectOf(row), { type: "refresh_failed", ...note });
  deps.logger.warn({ token_id: row.id, provider_id: row.provider_id, reason: failure.reason }, "token refresh failed");
  if (row.life_left_ms !== null && row.life_left_ms > usableLeftMs) return { row, secrets };
  throw failure;
}

/** Minimum remaining life for using a token that could not be refreshed. */
const usableLeftMs = 10_000;

/** Handles a token that was deleted during its refresh: revokes the new one, because nothing refers to it. */
async function dropOrphan(deps: OAuthDeps, provider: ProviderRow, row: TokenRow, issued: IssuedToken): Promise<Fresh> {
  const replaced = await findToken(deps.db, row.tenant_id, row.id);
  if (replaced !== undefined && isLive(replaced)) return { row: replaced, secrets: openToken(deps.sealer, replaced) };
  await revokeToken(providerClient(deps, provider), issued, AbortSignal.timeout(providerTimeoutMs)).catch(() => {});
  return undefined;
}

const subjectOf = (row: TokenRow) => ({ tenantId: row.tenant_id, userId: row.user_id, agentId: row.agent_id });

const factsOf = (row: TokenRow) => ({
  providerId: row.provider_id,
  tokenId: row.id,
  scopes: row.scopes,
  accountLabel: row.account_label,
});
