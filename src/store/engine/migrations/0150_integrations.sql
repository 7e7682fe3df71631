-- What a workspace may read repositories with: an installation of the GitHub App, or a stored credential.
create table integrations (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  host text not null check (host in ('github', 'gitlab', 'gitea', 'bitbucket', 'git')),
  name text not null,
  -- Of the GitHub App; the credential is minted at the moment of use and stored nowhere.
  installation_id bigint,
  -- Below this address the credential is used, and nowhere else.
  url text not null,
  username text,
  -- Names of what is sealed: token, ssh_key.
  has_token boolean not null default false,
  has_ssh_key boolean not null default false,
  -- AES-256-GCM of JSON.
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, installation_id)
);
create index integrations_page on integrations (tenant_id, created_at, id);
create index integrations_installation on integrations (installation_id) where installation_id is not null;

-- Links to the host's page for installing the GitHub App, each good once: who comes back is known by it.
create table installation_links (
  state_digest bytea primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  organization_id uuid not null,
  actor text not null,
  return_to text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);
