-- additive
-- No notification about a server, a certificate or an API key before this time.
create table subject_mutes (
  tenant_id uuid not null references workspaces (id) on delete cascade,
  subject_id text not null,
  until timestamptz not null,
  primary key (tenant_id, subject_id)
);
