import { randomUUID } from "node:crypto";
import type { OAuthDeps } from "../../auth/oauth/deps.ts";
import { discoverMcpProvider } from "../../auth/oauth/discover-mcp.ts";
import { revokeTokens } from "../../auth/oauth/drop-tokens.ts";
import { lacksPkce } from "../../auth/oauth/pkce-support.ts";
import { changedProviderSettings, checkProviderId, newProviderSettings } from "../../auth/oauth/provider-settings.ts";
import { reaches } from "../../auth/permissions.ts";
import type { Principal } from "../../auth/principal.ts";
import { SlotQueues } from "../../base/slot-queues.ts";
import { errors } from "../../contract/error.ts";
import type { DiscoverMcpProvider, OAuthProvider } from "../../contract/oauth/oauth-provider.ts";
import { operations } from "../../contract/operations.ts";
import { oauthPresets } from "../../domain/oauth-presets.ts";
import type { Db } from "../../store/engine/database.ts";
import {
  changeProvider,
  deleteProvider,
  draftProvider,
  findProvider,
  insertProvider,
  listProviders,
  type ProviderRow,
} from "../../store/oauth/oauth-providers.ts";
import { tokensOfProvider } from "../../store/oauth/oauth-tokens.ts";
import { listWorkspaces } from "../../store/tenants/tenants.ts";
import type { ApiDeps } from "../deps.ts";
import { queueLimits } from "../http/request-turns.ts";
import { type Api, route } from "../http/route.ts";
import { callbackUrlOf } from "./callback-url.ts";

/** Discoveries of one workspace at the same time. Each makes up to six calls of servers that the workspace chose. */
const discoveriesMax = 2;

/** Adds the routes of an organization's OAuth providers (contract 9.1, 9.2). */
export function addAuthProviderRoutes(api: Api, oauth: OAuthDeps): void {
  const { db, sealer, settings } = api.deps;
  const shown = (row: ProviderRow) => providerOf(row, callbackUrlOf(row, settings));

  route(api, operations.listOAuthProviders, async ({ principal }) => {
    return (await listProviders(db, principal.organizationId)).map(shown);
  });

  route(api, operations.listPlatformProviders, () => []);

  route(api, operations.listOAuthPresets, () => [...oauthPresets]);

  route(api, operations.createOAuthProvider, async ({ principal, body }) => {
    const fields = newProviderSettings(body, { ...settings, lacksPkce: await endsPkce(oauth, body) });
    const row = draftProvider(sealer, principal.organizationId, {
      id: randomUUID(),
      providerId: body.provider_id,
      fields: { ...fields, ...notDiscovered },
      secret: body.client_secret ?? null,
    });
    return shown(await insertProvider(db, principal, row, null));
  });

  addDiscoveryRoute(api, oauth, shown);

  route(api, operations.getOAuthProvider, async ({ principal, params }) => {
    const row = await findProvider(db, principal.organizationId, params.provider_id);
    if (row === undefined) throw errors.oauthProviderNotFound(params.provider_id);
    return shown(row);
  });

  route(api, operations.patchOAuthProvider, async ({ principal, params, body }) => {
    await checkReach(db, principal);
    const { allowPrivateNetwork } = settings;
    const known = await findProvider(db, principal.organizationId, params.provider_id);
    const lacksPkce = await endsPkce(oauth, { ...body, issuer: body.issuer ?? known?.issuer });
    const row = await changeProvider(db, sealer, principal, params.provider_id, {
      secret: body.client_secret ?? null,
      change: (before, { hasTokens }) =>
        changedProviderSettings(fieldsOf(before), body, {
          ...{ allowPrivateNetwork, lacksPkce, hasTokens },
          hasSecret: before.sealed_secret !== null,
        }),
    });
    return shown(row);
  });

  route(
    api,
    operations.deleteOAuthProvider,
    async ({ principal, params, responseRow }) => {
      await checkReach(db, principal);
      const row = await findProvider(db, principal.organizationId, params.provider_id);
      if (row === undefined) throw errors.oauthProviderNotFound(params.provider_id);
      const response = { message: `OAuth provider '${row.provider_id}' deleted.` };
      await revokeTokens(oauth, tokensOfProvider(db, row.id));
      await deleteProvider(db, principal, row, responseRow(response));
      return response;
    },
    { savesResponse: true },
  );
}

function addDiscoveryRoute(api: Api, oauth: OAuthDeps, shown: (row: ProviderRow) => OAuthProvider): void {
  const discoveries = new SlotQueues({ ...queueLimits, slots: discoveriesMax });
  route(
    api,
    operations.discoverMcpProvider,
    async ({ principal, body, signal, responseRow }) => {
      const discover = () => discoveredProvider(api.deps, oauth, principal.organizationId, body);
      const row = await discoveries.run(principal.tenantId, discover, { signal });
      await insertProvider(api.deps.db, principal, row, responseRow(shown(row)));
      return shown(row);
    },
    { savesResponse: true },
  );
}

/** Returns whether a request may turn PKCE off: the metadata of the provider's issuer must say that it is not supported. */
async function endsPkce(
  { fetch }: OAuthDeps,
  { uses_pkce: asked, issuer }: { uses_pkce?: boolean | null; issuer?: string | null | undefined },
): Promise<boolean> {
  return asked === false && issuer != null && URL.canParse(issuer) && (await lacksPkce(fetch, issuer));
}

/**
 * Rejects changes of a provider by keys that reach less than the organization, because a change decides where the codes
 * of every workspace are sent, and a deletion drops the tokens of all of them. An organization with one workspace is
 * exempt.
 * @throws ApiError 403 `scopeMissing`
 */
async function checkReach(db: Db, { organizationId, scope }: Principal): Promise<void> {
  if (reaches(scope, "organization")) return;
  const reach = { organizationId, workspaceId: null };
  const workspaces = await listWorkspaces(db, reach, { organizationId }, { limit: 2, offset: 0 });
  if (workspaces.length > 1) throw errors.scopeMissing("organization");
}

/**
 * Queries the MCP server and its authorization server, and registers a client there. Writes nothing to the database.
 */
async function discoveredProvider(
  { db, sealer, settings }: ApiDeps,
  { fetch }: OAuthDeps,
  organizationId: string,
  body: DiscoverMcpProvider,
) {
  const { provider_id: providerId, name, mcp_server_url: mcpServerUrl } = body;
  checkProviderId(providerId);
  // Check the name before registering a client there.
  if ((await findProvider(db, organizationId, providerId)) !== undefined) throw errors.oauthProviderTaken(providerId);
  const id = randomUUID();
  const redirectUri = callbackUrlOf(
    { id, provider_id: providerId, is_dynamic_client: true, has_own_callback: false },
    settings,
  );
  const { allowPrivateNetwork } = settings;
  const found = await discoverMcpProvider(fetch, {
    name,
    mcpServerUrl,
    redirectUri,
    allowPrivateNetwork,
  });
  const fields = { ...found.settings, ...found.discovered };
  return draftProvider(sealer, organizationId, { id, providerId, fields, secret: found.secret });
}

const notDiscovered = {
  names_issuer: false,
  mcp_server_url: null,
  resource: null,
  is_dynamic_client: false,
  scopes_supported: null,
};

function fieldsOf(row: ProviderRow) {
  const { name, client_id, auth_url, token_url, uses_pkce, provider_type, token_endpoint_auth_method } = row;
  const { authorization_params, allowed_redirect_uris, default_redirect_uri, issuer, revocation_url } = row;
  return {
    name,
    client_id,
    auth_url,
    token_url,
    uses_pkce,
    provider_type,
    token_endpoint_auth_method,
    authorization_params,
    allowed_redirect_uris,
    default_redirect_uri,
    issuer,
    revocation_url,
  };
}

function providerOf(row: ProviderRow, redirectUri: string): OAuthProvider {
  return {
    id: row.id,
    organization_id: row.organization_id,
    provider_id: row.provider_id,
    ...fieldsOf(row),
    code_challenge_method: row.uses_pkce ? "S256" : null,
    mcp_server_url: row.mcp_server_url,
    is_dynamic_client: row.is_dynamic_client,
    scopes_supported: row.scopes_supported,
    redirect_uri: redirectUri,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
  };
}
