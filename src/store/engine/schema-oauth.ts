import type { ColumnType, Generated, GeneratedAlways } from "kysely";
import type { OAuthProviderType, TokenEndpointAuthMethod } from "../../contract/oauth/oauth-provider.ts";

/** The tables of the OAuth service; see `schema.ts`. */
export interface OAuthTables {
  oauth_providers: OAuthProviderTable;
  oauth_tokens: OAuthTokenTable;
  oauth_requests: OAuthRequestTable;
  oauth_token_events: OAuthTokenEventTable;
  agent_connections: AgentConnectionTable;
}

type Json<T> = ColumnType<T, string, string>;
type GeneratedJson<T> = ColumnType<T, string | undefined, string>;

interface OAuthProviderTable {
  id: string;
  organization_id: string;
  provider_id: string;
  name: string;
  client_id: string;
  secret_key_id: string | null;
  sealed_secret: Buffer | null;
  auth_url: string;
  token_url: string;
  uses_pkce: boolean;
  provider_type: OAuthProviderType | null;
  token_endpoint_auth_method: TokenEndpointAuthMethod;
  authorization_params: GeneratedJson<Record<string, string>>;
  allowed_redirect_uris: GeneratedJson<string[]>;
  default_redirect_uri: string | null;
  issuer: string | null;
  names_issuer: Generated<boolean>;
  revocation_url: string | null;
  mcp_server_url: string | null;
  resource: string | null;
  is_dynamic_client: Generated<boolean>;
  scopes_supported: Json<string[] | null> | null;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

interface OAuthTokenTable {
  id: string;
  tenant_id: string;
  provider_row_id: string;
  user_id: string | null;
  agent_id: string | null;
  data_key_id: string;
  sealed: Buffer;
  token_url: string;
  client_id: string;
  scopes: GeneratedJson<string[]>;
  account_label: string | null;
  is_default: Generated<boolean>;
  is_dead: Generated<boolean>;
  expires_at: Date | null;
  generation: Generated<number>;
  refresh_until: Date | null;
  refresh_owner: string | null;
  created_at: Generated<Date>;
  updated_at: Generated<Date>;
}

interface OAuthRequestTable {
  id: string;
  tenant_id: string;
  provider_row_id: string;
  user_id: string | null;
  agent_id: string | null;
  state_digest: Buffer;
  data_key_id: string;
  sealed: Buffer;
  token_url: string;
  client_id: string;
  scopes: Json<string[]>;
  redirect_uri: string;
  is_own_callback: boolean;
  is_default: boolean;
  replaces_token_id: string | null;
  actor: string;
  status: Generated<"pending" | "claimed" | "completed" | "failed">;
  status_since: Generated<Date>;
  claimed_by: string | null;
  failure: string | null;
  token_id: string | null;
  expires_at: Date;
  created_at: Generated<Date>;
}

interface OAuthTokenEventTable {
  id: string;
  seq: GeneratedAlways<number>;
  tenant_id: string;
  provider_id: string;
  user_id: string | null;
  agent_id: string | null;
  token_id: string | null;
  event_type: string;
  reason: string | null;
  source: string;
  account_label: string | null;
  scopes: GeneratedJson<string[]>;
  detail: string | null;
  acknowledged_at: Date | null;
  created_at: Generated<Date>;
}

interface AgentConnectionTable {
  id: string;
  tenant_id: string;
  agent_id: string;
  oauth_token_id: string;
  created_by: string;
  created_at: Generated<Date>;
}
