import type { OAuthProviderType, TokenEndpointAuthMethod } from "../../contract/oauth/oauth-provider.ts";
import { bigint, boolean, bytea, jsonbOf, nullable, table, text, textOf, timestamp, uuid } from "../engine/table.ts";

export const oauthProvidersTable = table("oauth_providers", {
  id: uuid,
  organization_id: uuid,
  provider_id: text,
  name: text,
  client_id: text,
  secret_key_id: nullable(uuid),
  sealed_secret: nullable(bytea),
  auth_url: text,
  token_url: text,
  uses_pkce: boolean,
  provider_type: nullable(textOf<OAuthProviderType>()),
  token_endpoint_auth_method: textOf<TokenEndpointAuthMethod>(),
  authorization_params: jsonbOf<Record<string, string>>(),
  allowed_redirect_uris: jsonbOf<string[]>(),
  default_redirect_uri: nullable(text),
  issuer: nullable(text),
  names_issuer: boolean,
  revocation_url: nullable(text),
  mcp_server_url: nullable(text),
  /** The resource that tokens are requested for (RFC 8707). */
  resource: nullable(text),
  is_dynamic_client: boolean,
  scopes_supported: nullable(jsonbOf<string[]>()),
  /** Whether its redirect URI has the id of the row, because a provider of another organization has its name. */
  has_own_callback: boolean,
  created_at: timestamp,
  updated_at: timestamp,
});

export const oauthTokensTable = table("oauth_tokens", {
  id: uuid,
  tenant_id: uuid,
  provider_row_id: uuid,
  user_id: nullable(text),
  agent_id: nullable(text),
  data_key_id: uuid,
  sealed: bytea,
  /** Issuer and client of the token: its refresh token is sent nowhere else. */
  token_url: text,
  client_id: text,
  scopes: jsonbOf<string[]>(),
  account_label: nullable(text),
  is_default: boolean,
  /** The provider rejects it for good: only a new consent helps. */
  is_dead: boolean,
  expires_at: nullable(timestamp),
  generation: bigint,
  refresh_until: nullable(timestamp),
  refresh_owner: nullable(text),
  created_at: timestamp,
  updated_at: timestamp,
});

export const oauthRequestsTable = table("oauth_requests", {
  id: uuid,
  tenant_id: uuid,
  provider_row_id: uuid,
  user_id: nullable(text),
  agent_id: nullable(text),
  state_digest: bytea,
  data_key_id: uuid,
  sealed: bytea,
  /** Of the provider when the sign-in started: the response belongs to that configuration. */
  token_url: text,
  client_id: text,
  scopes: jsonbOf<string[]>(),
  redirect_uri: text,
  is_own_callback: boolean,
  is_default: boolean,
  replaces_token_id: nullable(uuid),
  actor: text,
  status: textOf<"pending" | "claimed" | "completed" | "failed">(),
  status_since: timestamp,
  claimed_by: nullable(text),
  failure: nullable(text),
  token_id: nullable(uuid),
  expires_at: timestamp,
  created_at: timestamp,
});

export const oauthTokenEventsTable = table("oauth_token_events", {
  id: uuid,
  seq: bigint,
  tenant_id: uuid,
  provider_id: text,
  user_id: nullable(text),
  agent_id: nullable(text),
  token_id: nullable(uuid),
  event_type: text,
  reason: nullable(text),
  source: text,
  account_label: nullable(text),
  scopes: jsonbOf<string[]>(),
  detail: nullable(text),
  acknowledged_at: nullable(timestamp),
  created_at: timestamp,
});

export const agentConnectionsTable = table("agent_connections", {
  id: uuid,
  tenant_id: uuid,
  agent_id: text,
  oauth_token_id: uuid,
  created_by: text,
  created_at: timestamp,
});
