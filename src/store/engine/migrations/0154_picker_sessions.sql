-- Installations that somebody who has signed in at GitHub can use, for him to choose one of; each is good once.
create table picker_sessions (
  id_digest bytea primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  organization_id uuid not null,
  installs jsonb not null,
  return_to text,
  expires_at timestamptz not null
);
