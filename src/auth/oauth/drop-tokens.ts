import { recordTokenEvent } from "../../store/oauth/oauth-events.ts";
import { findProviderRow } from "../../store/oauth/oauth-providers.ts";
import { deleteToken, openToken, type TokenRow } from "../../store/oauth/oauth-tokens.ts";
import { audited } from "../../store/tenants/audit.ts";
import { insertedResponse, type SealedResponse } from "../../store/tenants/idempotency-keys.ts";
import { type OAuthDeps, providerClient } from "./deps.ts";
import { OAuthFailure } from "./failure.ts";
import { revokeToken } from "./token-endpoint.ts";

/** Timeout of all revocations of one request. An unavailable provider must not prevent a deletion. */
const revocationTimeoutMs = 5_000;

/** Maximum parallel revocations. Each is a connection, and a provider may have tens of thousands of tokens. */
const revocationsMax = 256;

/** Deletes tokens. Tries to revoke each at its provider first, and deletes it whatever the provider answers. */
export async function dropTokens(
  deps: OAuthDeps,
  by: { organizationId: string; actor: string },
  rows: TokenRow[],
  response: SealedResponse | null = null,
): Promise<void> {
  await revokeTokens(deps, [rows]);
  await deps.db.transaction(async (trx) => {
    for (const row of rows) {
      if (!(await deleteToken(trx, row.id))) continue;
      const { provider_id: providerId, account_label: accountLabel, scopes } = row;
      const subject = { tenantId: row.tenant_id, userId: row.user_id, agentId: row.agent_id };
      const facts = { providerId, tokenId: row.id, scopes, accountLabel };
      await recordTokenEvent(trx, subject, { type: "deleted", source: "delete", ...facts });
      const what = { organizationId: by.organizationId, workspaceId: row.tenant_id, id: row.id, name: providerId };
      const details = { user_id: row.user_id, agent_id: row.agent_id };
      await trx.query(audited(what, { actor: by.actor, action: "oauth_token.delete", details }));
    }
    if (response !== null) await trx.query(insertedResponse(response));
  });
}

/**
 * Revokes tokens, except dead ones. Never fails: failed revocations are logged.
 * @param pages read as they are needed. None is read after the timeout.
 */
export async function revokeTokens(deps: OAuthDeps, pages: AsyncIterable<TokenRow[]> | TokenRow[][]): Promise<void> {
  const signal = AbortSignal.timeout(revocationTimeoutMs);
  const providers = new Map<string, ReturnType<typeof findProviderRow>>();
  for await (const rows of pages) {
    const left = rows.filter(({ is_dead }) => !is_dead).values();
    const lane = async () => {
      for (const row of left) {
        const provider = providers.get(row.provider_row_id) ?? findProviderRow(deps.db, row.provider_row_id);
        providers.set(row.provider_row_id, provider);
        await revokeIssued(deps, row, provider, signal);
      }
    };
    await Promise.all(Array.from({ length: revocationsMax }, lane));
    if (signal.aborted) return;
  }
}

async function revokeIssued(
  deps: OAuthDeps,
  row: TokenRow,
  found: ReturnType<typeof findProviderRow>,
  signal: AbortSignal,
): Promise<void> {
  try {
    const provider = await found;
    if (provider === undefined || provider.token_url !== row.token_url || provider.client_id !== row.client_id) return;
    await revokeToken(providerClient(deps, provider), openToken(deps.sealer, row), signal);
  } catch (error) {
    const reason = error instanceof OAuthFailure ? error.reason : "internal_error";
    deps.logger.warn({ token_id: row.id, provider_id: row.provider_id, reason }, "token revocation failed");
  }
}
