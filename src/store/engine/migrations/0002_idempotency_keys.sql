-- A create that is sent again under its key answers with the deployment it made the first time.
create table idempotency_keys (
  tenant_id uuid not null references workspaces (id),
  key text not null,
  request_hash bytea not null,
  deployment_id uuid not null references deployments (id) on delete cascade,
  created_at timestamptz not null default now(),
  primary key (tenant_id, key)
);
create index idempotency_keys_deployment on idempotency_keys (deployment_id);
