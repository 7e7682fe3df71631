import { setTimeout as sleep } from "node:timers/promises";
import { errors } from "../../contract/error.ts";
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
import { dialogueWith, type OAuthDeps } from "./deps.ts";
import { OAuthFailure } from "./failure.ts";
import { providerTimeoutMs } from "./outbound.ts";
import { refreshToken, revokeToken } from "./token-endpoint.ts";
import { storeFirmly } from "./underway.ts";

/** A token given out lives this much longer at least: time for the agent to use it, and for clocks that differ. */
export const skewMs = 60_000;

/** One call of the token endpoint and one write, twice: who holds the right longer than this is gone. */
const leaseMs = 2 * providerTimeoutMs + 10_000;

/** Pause between two looks at a token that another server refreshes. */
const lookIntervalMs = 250;

/** A token ready to be given out; undefined: there is none any more, the user has to consent again. */
export type Fresh = { row: TokenRow; secrets: TokenSecrets } | undefined;

export const isLive = ({ is_dead, life_left_ms }: TokenRow) =>
  !is_dead && (life_left_ms === null || life_left_ms > skewMs);

/** Only to the one that issued it: a provider that was changed since never sees it. */
const isIssuedBy = (row: TokenRow, provider: ProviderRow) =>
  row.token_url === provider.token_url && row.client_id === provider.client_id;

/**
 * A token that is good for another minute: as it is, or refreshed. Of all who ask at the same time, here and on other
 * servers, one refreshes and the others get what it got.
 * @throws ApiError 502 `oauthProviderFailed` when the provider cannot be asked now; the token is kept.
 */
export async function freshToken(deps: OAuthDeps, provider: ProviderRow, row: TokenRow): Promise<Fresh> {
  if (isLive(row)) return { row, secrets: openToken(deps.sealer, row) };
  try {
    return await deps.underway.share(`token/${row.id}`, () => refreshInTurn(deps, provider, row));
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
      throw new OAuthFailure("unavailable", "refresh_busy", "Another server is still refreshing it.");
    await sleep(lookIntervalMs);
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
    issued = await refreshToken(dialogueWith(deps, provider), before);
  } catch (error) {
    if (!(error instanceof OAuthFailure)) throw error;
    return endRefresh(deps, { row, secrets }, error);
  }
  const metadata = { ...secrets.metadata, ...issued.metadata };
  const stored = await storeFirmly(() => storeRefreshed(deps.db, deps.sealer, row, { ...issued, metadata }));
  if (!stored) return dropOrphan(deps, provider, row, issued);
  await recordTokenEvent(deps.db, subjectOf(row), { type: "refreshed", source: "refresh", ...factsOf(row) });
  const kept = (await findToken(deps.db, row.tenant_id, row.id)) as TokenRow | undefined;
  return kept === undefined ? undefined : { row: kept, secrets: openToken(deps.sealer, kept) };
}

/** A refusal ends the token; a fault does not, and while the token itself is good it still serves. */
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
  deps.logger.warn(
    { token_id: row.id, provider_id: row.provider_id, reason: failure.reason },
    "a token could not be refreshed",
  );
  if (row.life_left_ms !== null && row.life_left_ms > usableLeftMs) return { row, secrets };
  throw failure;
}

/** What an agent needs at least to use a token that could not be refreshed. */
const usableLeftMs = 10_000;

/** Deleted while it was refreshed: nobody must be left with a token that nobody knows of. */
async function dropOrphan(deps: OAuthDeps, provider: ProviderRow, row: TokenRow, issued: IssuedToken): Promise<Fresh> {
  const replaced = await findToken(deps.db, row.tenant_id, row.id);
  if (replaced !== undefined && isLive(replaced)) return { row: replaced, secrets: openToken(deps.sealer, replaced) };
  await revokeToken(dialogueWith(deps, provider), issued, AbortSignal.timeout(providerTimeoutMs)).catch(() => {});
  return undefined;
}

const subjectOf = (row: TokenRow) => ({ tenantId: row.tenant_id, userId: row.user_id, agentId: row.agent_id });

const factsOf = (row: TokenRow) => ({
  providerId: row.provider_id,
  tokenId: row.id,
  scopes: row.scopes,
  accountLabel: row.account_label,
});
