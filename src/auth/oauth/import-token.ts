import { errors } from "../../contract/error.ts";
import type { ImportOAuthToken } from "../../contract/oauth/oauth-token.ts";
import { oauthMetadataLengthMax, oauthScopesLengthMax } from "../../domain/limits.ts";
import type { Trx } from "../../store/engine/database.ts";
import { type AgentConnectionRow, connectToken, deleteLooseAgentTokens } from "../../store/oauth/agent-connections.ts";
import { recordTokenEvent } from "../../store/oauth/oauth-events.ts";
import { findProvider, type ProviderRow } from "../../store/oauth/oauth-providers.ts";
import { type IssuedToken, type Subject, saveToken } from "../../store/oauth/oauth-tokens.ts";
import { audited } from "../../store/tenants/audit.ts";
import type { OAuthDeps } from "./deps.ts";

/** Token that was obtained elsewhere. */
type ImportedToken = Omit<ImportOAuthToken, "provider_id" | "is_default">;

interface Importer {
  organizationId: string;
  actor: string;
}

/**
 * Stores a token for a user and returns its id.
 * @throws ApiError 404 `oauthProviderNotFound`, 400 `invalidField`, `tooManyOAuthTokens`
 */
export async function importToken(
  deps: OAuthDeps,
  importer: Importer,
  input: { subject: Subject; providerId: string; imported: ImportedToken; isDefault: boolean },
): Promise<string> {
  const provider = await knownProvider(deps, importer, input.providerId);
  const { subject } = input;
  const token = issuedOf(input.imported, null);
  return deps.db.transaction(async (trx) => {
    const tokenId = await saveImported(trx, deps, { ...input, provider, token });
    const { organizationId, actor } = importer;
    const what = { organizationId, workspaceId: subject.tenantId, id: tokenId, name: provider.provider_id };
    const details = { user_id: subject.userId, agent_id: subject.agentId, scopes: token.scopes };
    await trx.query(audited(what, { actor, action: "oauth_token.import", details }));
    return tokenId;
  });
}

/**
 * Stores an agent's own token. The previous one is deleted if it was the agent's own and nothing else refers to it.
 * @throws ApiError 404 `oauthProviderNotFound`
 */
export async function importAgentToken(
  deps: OAuthDeps,
  importer: Importer & { tenantId: string },
  input: {
    agentId: string;
    providerId: string;
    imported: ImportedToken;
    accountLabel: string | null;
    createdBy: string;
  },
): Promise<AgentConnectionRow> {
  const provider = await knownProvider(deps, importer, input.providerId);
  const agent = { tenantId: importer.tenantId, agentId: input.agentId };
  const subject: Subject = { ...agent, userId: null };
  return deps.db.transaction(async (trx) => {
    const token = issuedOf(input.imported, input.accountLabel);
    const tokenId = await saveImported(trx, deps, { provider, subject, token, isDefault: true });
    const connection = await connectToken(trx, importer.actor, { ...agent, tokenId, createdBy: input.createdBy });
    await deleteLooseAgentTokens(trx, agent, provider.id);
    return connection;
  });
}

async function knownProvider(
  { db }: OAuthDeps,
  { organizationId }: Importer,
  providerId: string,
): Promise<ProviderRow> {
  const provider = await findProvider(db, organizationId, providerId);
  if (provider === undefined) throw errors.oauthProviderNotFound(providerId);
  return provider;
}

async function saveImported(
  trx: Trx,
  { sealer }: OAuthDeps,
  input: { provider: ProviderRow; subject: Subject; token: IssuedToken; isDefault: boolean },
): Promise<string> {
  const { provider, subject, token, isDefault } = input;
  const tokenId = await saveToken(trx, sealer, { subject, provider, token, isDefault, replacesTokenId: null });
  const { scopes, accountLabel } = token;
  const facts = { providerId: provider.provider_id, tokenId, scopes, accountLabel };
  await recordTokenEvent(trx, subject, { type: "imported", source: "import", ...facts });
  return tokenId;
}

/** @throws ApiError 400 `invalidField` for more than a token may have. */
function issuedOf(imported: ImportedToken, accountLabel: string | null): IssuedToken {
  const { access_token: accessToken, refresh_token, expires_in_seconds: lifeS = null, scopes, metadata } = imported;
  if (scopes.join(" ").length > oauthScopesLengthMax) {
    throw errors.invalidField("scopes", `must have at most ${oauthScopesLengthMax} characters.`);
  }
  if (JSON.stringify(metadata ?? {}).length > oauthMetadataLengthMax) {
    throw errors.invalidField("metadata", `must have at most ${oauthMetadataLengthMax} characters as JSON.`);
  }
  return {
    accessToken,
    refreshToken: refresh_token ?? null,
    lifeMs: lifeS === null ? null : lifeS * 1_000,
    scopes,
    metadata: metadata ?? {},
    accountLabel,
  };
}
