import type { OAuthDeps } from "../../auth/oauth/deps.ts";
import { dropTokens } from "../../auth/oauth/drop-tokens.ts";
import { importToken } from "../../auth/oauth/import-token.ts";
import type { Principal } from "../../auth/principal.ts";
import { errors } from "../../contract/error.ts";
import type { OAuthToken, TokenEvent } from "../../contract/oauth/oauth-token.ts";
import type { Operation } from "../../contract/operation.ts";
import { operations } from "../../contract/operations.ts";
import { listTokenEvents, type TokenEventRow } from "../../store/oauth/oauth-events.ts";
import { findProvider } from "../../store/oauth/oauth-providers.ts";
import {
  findProvidersWithToken,
  findToken,
  labelToken,
  listTokens,
  listWorkspaceTokens,
  type TokenRow,
} from "../../store/oauth/oauth-tokens.ts";
import { type Api, type Call, type Handler, route } from "../http/route.ts";
import { userOf } from "./oauth.ts";

type UserCall = Pick<Call<Operation, Principal>, "principal" | "request">;

const ownerOf = ({ principal, request }: UserCall) => ({
  tenantId: principal.tenantId,
  userId: userOf(principal, request),
});

/** Adds the routes of the calling user's stored tokens (contract 9.2). */
export function addAuthTokenRoutes(api: Api, oauth: OAuthDeps): void {
  const { db } = oauth;

  route(api, operations.listOAuthTokens, async (call) => {
    const rows = await listTokens(db, { ...ownerOf(call), providerId: call.query.provider_id ?? null });
    return rows.map(tokenOf);
  });

  route(api, operations.deleteOAuthTokens, async (call) => {
    const { provider_id: providerId } = call.query;
    if (!(await isKnownProvider(oauth, call.principal, providerId))) throw errors.oauthProviderNotFound(providerId);
    const rows = await listTokens(db, { ...ownerOf(call), providerId });
    await dropTokens(oauth, call.principal, rows);
    return { message: `${rows.length} ${rows.length === 1 ? "token" : "tokens"} deleted.`, provider_id: providerId };
  });

  route(api, operations.hasOAuthToken, async (call) => {
    const { provider_id: providerId } = call.query;
    const found = await findProvidersWithToken(db, { ...ownerOf(call), providerIds: [providerId] });
    return { has_token: found.has(providerId) };
  });

  route(api, operations.hasOAuthTokens, async (call) => {
    const { provider_ids: providerIds } = call.body;
    const found = await findProvidersWithToken(db, { ...ownerOf(call), providerIds });
    return { has_token: Object.fromEntries(providerIds.map((id) => [id, found.has(id)])) };
  });

  route(api, operations.patchOAuthToken, async (call) => {
    const row = await ownToken(oauth, call, call.params.token_id);
    const { provider_account_label: accountLabel = null, is_default: isDefault = null } = call.body;
    await labelToken(db, row.id, { accountLabel, isDefault });
    return tokenOf(await ownToken(oauth, call, row.id));
  });

  route(api, operations.deleteOAuthToken, async (call) => {
    await dropTokens(oauth, call.principal, [await ownToken(oauth, call, call.params.token_id)]);
  });

  const importOwn: Handler<typeof operations.importOAuthToken, Principal> = async (call) => {
    const { provider_id, is_default: isDefault, ...imported } = call.body;
    const subject = { ...ownerOf(call), agentId: null };
    return {
      token_id: await importToken(oauth, call.principal, { subject, providerId: provider_id, imported, isDefault }),
    };
  };
  route(api, operations.importOAuthToken, importOwn, { userOf });

  route(api, operations.listTokenEvents, async (call) => {
    const { provider_id: providerId = null, limit } = call.query;
    return (await listTokenEvents(db, { ...ownerOf(call), providerId, limit })).map(eventOf);
  });

  addWorkspaceTokenRoutes(api, oauth);
}

/** Adds the routes for tokens of Slack bots, which belong to the whole workspace. */
function addWorkspaceTokenRoutes(api: Api, oauth: OAuthDeps): void {
  route(api, operations.hasSlackWorkspaceToken, async ({ principal }) => {
    return { has_token: (await listWorkspaceTokens(oauth.db, principal.tenantId, "slack")).length > 0 };
  });

  route(
    api,
    operations.deleteSlackWorkspaceToken,
    async ({ principal, responseRow }) => {
      const rows = await listWorkspaceTokens(oauth.db, principal.tenantId, "slack");
      const message = `${rows.length} ${rows.length === 1 ? "token" : "tokens"} deleted.`;
      await dropTokens(oauth, principal, rows, responseRow({ message }));
      return { message };
    },
    { savesResponse: true },
  );
}

/** Returns whether the provider belongs to the caller's organization or is shared by the operator. */
async function isKnownProvider(
  { db, sharedOrganizationId: shared }: OAuthDeps,
  { organizationId }: Principal,
  providerId: string,
): Promise<boolean> {
  for (const owner of shared === null ? [organizationId] : [organizationId, shared]) {
    if ((await findProvider(db, owner, providerId)) !== undefined) return true;
  }
  return false;
}

/** Returns a token of the calling user. @throws ApiError 404 for unknown tokens and those of other users. */
async function ownToken({ db }: OAuthDeps, call: UserCall, id: string): Promise<TokenRow> {
  const { tenantId, userId } = ownerOf(call);
  const row = await findToken(db, tenantId, id);
  if (row === undefined || row.user_id !== userId) throw errors.oauthTokenNotFound(id);
  return row;
}

function tokenOf(row: TokenRow): OAuthToken {
  return {
    id: row.id,
    provider_id: row.provider_id,
    provider_account_label: row.account_label,
    scopes: row.scopes,
    expires_at: row.expires_at?.toISOString() ?? null,
    is_default: row.is_default,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}

function eventOf(row: TokenEventRow): TokenEvent {
  const { id, provider_id, agent_id, event_type, reason, source, account_label, scopes, detail } = row;
  return {
    id,
    provider_id,
    agent_id,
    event_type,
    reason,
    source,
    scopes,
    detail,
    provider_account_label: account_label,
    acknowledged_at: row.acknowledged_at?.toISOString() ?? null,
    created_at: row.created_at.toISOString(),
  };
}
