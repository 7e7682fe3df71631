-- additive
-- The key or the member that allowed a command line to get this key. The key ends with them. null: an administrator created it.
alter table api_keys add column parent_id uuid;
alter table api_keys add column member_id uuid;
create index api_keys_parent on api_keys (parent_id) where parent_id is not null;
create index api_keys_member on api_keys (member_id) where member_id is not null;

-- Command lines that wait for a person to allow them in the console. The columns after status say what the key will be.
create table device_logins (
  id uuid primary key,
  device_hash bytea not null unique,
  user_code text not null unique,
  client_name text not null,
  address text not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  status text not null default 'pending' check (status in ('pending', 'allowed', 'refused')),
  actor text,
  parent_id uuid,
  member_id uuid,
  organization_id uuid references organizations (id) on delete cascade,
  workspace_id uuid references workspaces (id) on delete cascade,
  role text,
  is_operator boolean,
  key_expires_at timestamptz
);
create index device_logins_expiry on device_logins (expires_at);
