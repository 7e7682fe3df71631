-- What a deployment was given on the operator's servers. Written before anything is made there, so that nothing is
-- made that nobody would remove.
create table deployment_databases (
  deployment_id uuid primary key references deployments (id) on delete cascade,
  tenant_id uuid not null,
  -- none: no server was configured; custom: the deployment brings its own, which is never created and never deleted.
  postgres text not null check (postgres in ('none', 'shared', 'custom')),
  redis text not null check (redis in ('none', 'shared', 'custom')),
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  created_at timestamptz not null default now()
);
