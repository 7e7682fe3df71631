-- The GitHub App that was made from this server's manifest: one at most. One in the configuration comes before it.
create table github_app (
  id uuid primary key,
  is_only boolean not null default true unique check (is_only),
  app_id text not null,
  name text not null,
  -- GitHub, or an Enterprise Server.
  url text not null,
  page_url text not null,
  has_webhook boolean not null,
  -- AES-256-GCM of JSON: private key, webhook secret and client.
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  actor text not null,
  created_at timestamptz not null default now()
);

-- Links that make one, each good once, and only as long as the key of whoever asked for it is.
create table github_app_links (
  state_digest bytea primary key,
  key_id uuid not null references api_keys (id) on delete cascade,
  organization_id uuid not null,
  actor text not null,
  url text not null,
  -- null: the App is of whoever opens the link.
  account text,
  name text not null,
  is_public boolean not null,
  expires_at timestamptz not null
);
