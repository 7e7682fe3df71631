-- The OAuth service: providers of an organization, tokens kept for users of a workspace, sign-ins under way.

alter table api_keys drop constraint api_keys_role_check;
alter table api_keys add constraint api_keys_role_check check (role in ('reader', 'agent', 'deployer', 'listener', 'admin'));

create table oauth_providers (
  id uuid primary key,
  organization_id uuid not null references organizations (id) on delete cascade,
  provider_id text not null,
  name text not null,
  client_id text not null,
  secret_key_id uuid references data_keys (id),
  sealed_secret bytea,
  auth_url text not null,
  token_url text not null,
  uses_pkce boolean not null,
  provider_type text,
  token_endpoint_auth_method text not null,
  authorization_params jsonb not null default '{}',
  allowed_redirect_uris jsonb not null default '[]',
  default_redirect_uri text,
  issuer text,
  -- The provider says that its answers name their issuer (RFC 9207): one that does not is refused.
  names_issuer boolean not null default false,
  revocation_url text,
  mcp_server_url text,
  -- What tokens are asked for (RFC 8707).
  resource text,
  is_dynamic_client boolean not null default false,
  scopes_supported jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint oauth_providers_name unique (organization_id, provider_id)
);

-- Whose: user_id and agent_id say it. Both: a user's token for one agent alone. user_id null: the agent's own; both null:
-- the workspace's. sealed = AES-256-GCM of access token, refresh token and what else the provider said.
-- token_url, client_id: who issued it; its refresh token goes nowhere else.
-- generation: raised whenever the token is replaced; refresh_until: somebody is refreshing it.
create table oauth_tokens (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  provider_row_id uuid not null references oauth_providers (id) on delete cascade,
  user_id text,
  agent_id text,
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  token_url text not null,
  client_id text not null,
  scopes jsonb not null default '[]',
  account_label text,
  is_default boolean not null default false,
  is_dead boolean not null default false,
  expires_at timestamptz,
  generation bigint not null default 1,
  refresh_until timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index oauth_tokens_owner on oauth_tokens (tenant_id, user_id, provider_row_id);
create index oauth_tokens_provider on oauth_tokens (provider_row_id);

-- One sign-in of one user. sealed = AES-256-GCM of state and PKCE verifier; state_digest finds the row, once.
create table oauth_requests (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  provider_row_id uuid not null references oauth_providers (id) on delete cascade,
  user_id text,
  agent_id text,
  state_digest bytea not null unique,
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  token_url text not null,
  client_id text not null,
  scopes jsonb not null,
  redirect_uri text not null,
  -- true: the code comes to this server; false: to the application, which hands it in.
  is_own_callback boolean not null,
  is_default boolean not null,
  -- The token that this sign-in renews; null: it makes a new one.
  replaces_token_id uuid references oauth_tokens (id) on delete set null,
  actor text not null,
  status text not null default 'pending' check (status in ('pending', 'claimed', 'completed', 'failed')),
  status_since timestamptz not null default now(),
  failure text,
  token_id uuid references oauth_tokens (id) on delete set null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now()
);
create index oauth_requests_open on oauth_requests (tenant_id, provider_row_id, user_id) where status = 'pending';
create index oauth_requests_age on oauth_requests (expires_at);

create table oauth_token_events (
  id uuid primary key,
  seq bigint generated always as identity,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  provider_id text not null,
  user_id text,
  agent_id text,
  token_id uuid,
  event_type text not null,
  reason text,
  source text not null,
  account_label text,
  scopes jsonb not null default '[]',
  detail text,
  acknowledged_at timestamptz,
  created_at timestamptz not null default now()
);
create index oauth_token_events_page on oauth_token_events (tenant_id, user_id, seq desc);
create index oauth_token_events_age on oauth_token_events (created_at);

create table agent_connections (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  agent_id text not null,
  oauth_token_id uuid not null references oauth_tokens (id) on delete cascade,
  created_by text not null,
  created_at timestamptz not null default now(),
  constraint agent_connections_token unique (tenant_id, agent_id, oauth_token_id)
);
create index agent_connections_of_token on agent_connections (oauth_token_id);
