-- Desired and observed state. Times are UTC; every table that a tenant owns carries tenant_id (the workspace).

create table organizations (
  id uuid primary key,
  name text not null,
  plan text not null check (plan in ('cloud', 'self_hosted_enterprise')),
  created_at timestamptz not null default now()
);

create table workspaces (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  name text not null,
  deployments_enabled boolean not null default true,
  created_at timestamptz not null default now()
);

create table api_keys (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  workspace_id uuid references workspaces (id),
  listener_id uuid,
  name text not null,
  role text not null check (role in ('reader', 'deployer', 'listener', 'admin')),
  prefix text not null unique,
  hash bytea not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);

-- One row per data plane. The built-in listener has no tenant and serves every workspace.
-- rv is raised under this row's lock in the transaction that changes an assignment: commit order = rv order.
create table listeners (
  id uuid primary key,
  tenant_id uuid references workspaces (id),
  builtin boolean not null default false,
  compute_type text not null,
  compute_id text not null,
  compute_config jsonb not null default '{}',
  version text,
  rv bigint not null default 0,
  epoch bigint not null default 0,
  session_id uuid,
  instance_id text,
  lease_until timestamptz,
  last_seen_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, compute_id)
);
create unique index listeners_builtin on listeners (builtin) where builtin;

-- Data keys wrapped by the master key; secrets and tokens are sealed under one of them.
create table data_keys (
  id uuid primary key,
  wrapped bytea not null,
  master_key_id text not null,
  created_at timestamptz not null default now(),
  retired_at timestamptz
);

create table deployments (
  id uuid primary key,
  seq bigint generated always as identity,
  tenant_id uuid not null references workspaces (id),
  listener_id uuid not null references listeners (id),
  name text not null,
  slug text not null unique,
  display_name text,
  source text not null,
  source_config jsonb not null,
  source_revision_config jsonb not null,
  tracked_ref text,
  tracked_packages jsonb,
  secret_set_id uuid,
  secret_references jsonb,
  status text not null,
  status_since timestamptz not null default now(),
  latest_revision_id uuid,
  active_revision_id uuid,
  image_version text,
  shareable boolean not null default false,
  route_through_gateway boolean not null default false,
  agent_id uuid,
  agent_environment text,
  deployment_tier text,
  compute_tier text,
  database_tier text,
  is_preview boolean not null default false,
  parent_deployment_id uuid,
  tracer_session_id uuid,
  delete_tracing_project boolean not null default false,
  force_delete boolean not null default false,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, name)
);
create unique index deployments_agent on deployments (tenant_id, agent_id, agent_environment) where agent_id is not null;
create index deployments_page on deployments (tenant_id, created_at desc, seq desc);
create index deployments_status on deployments (tenant_id, status, created_at desc, seq desc);
create index deployments_unsettled on deployments (id) where status not in ('READY', 'UNUSED');

-- A set of secrets is written once and shared by the revisions that run with it. sealed = AES-256-GCM of a JSON map.
create table secret_sets (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id),
  deployment_id uuid not null references deployments (id) on delete cascade,
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  created_at timestamptz not null default now()
);
create index secret_sets_deployment on secret_sets (deployment_id);

create table artifacts (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id),
  key text not null,
  manifest jsonb not null,
  created_at timestamptz not null default now(),
  last_used_at timestamptz not null default now(),
  unique (tenant_id, key)
);

create table revisions (
  id uuid primary key,
  seq bigint generated always as identity,
  tenant_id uuid not null references workspaces (id),
  deployment_id uuid not null references deployments (id) on delete cascade,
  status text not null,
  status_message text,
  status_since timestamptz not null default now(),
  deadline_at timestamptz,
  source text not null,
  source_config jsonb not null,
  source_revision_config jsonb not null,
  secret_set_id uuid,
  secret_references jsonb,
  artifact_id uuid references artifacts (id),
  artifact_key text,
  redeploy_of uuid,
  triggered_by text not null default 'api',
  image_version text,
  tracked_packages jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index revisions_page on revisions (deployment_id, seq desc);
create index revisions_artifact on revisions (artifact_id);
create index revisions_unsettled on revisions (deployment_id, seq)
  where status in ('CREATING', 'QUEUED', 'AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'UNKNOWN');

create table builds (
  revision_id uuid primary key references revisions (id) on delete cascade,
  deployment_id uuid not null,
  status text not null check (status in ('running', 'succeeded', 'failed', 'cancelled')),
  owner text not null,
  lease_until timestamptz not null,
  pid integer,
  pid_started text,
  attempts integer not null default 1,
  result jsonb,
  started_at timestamptz not null default now(),
  finished_at timestamptz
);
create index builds_running on builds (lease_until) where status = 'running';

create table uploads (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id),
  deployment_id uuid not null references deployments (id) on delete cascade,
  object_path text not null unique,
  sha256 text,
  size_bytes bigint,
  expires_at timestamptz not null,
  finished_at timestamptz,
  created_at timestamptz not null default now()
);
create index uploads_deployment on uploads (deployment_id);

-- What should run, for one listener. State, not a log: one row per deployment with its last rv.
create table assignments (
  deployment_id uuid primary key,
  tenant_id uuid not null,
  listener_id uuid not null references listeners (id),
  rv bigint not null,
  generation bigint not null,
  op text not null check (op in ('apply', 'delete')),
  spec jsonb not null,
  updated_at timestamptz not null default now()
);
create unique index assignments_page on assignments (listener_id, rv);

-- What a listener last reported. A newer (epoch, seq) replaces an older one.
create table observations (
  deployment_id uuid primary key,
  listener_id uuid not null,
  epoch bigint not null,
  seq bigint not null,
  generation bigint not null,
  report jsonb not null,
  observed_at timestamptz not null default now()
);

-- "Look at this deployment": no payload. The number is the cursor of those who follow.
create table deployment_changes (
  id bigint generated always as identity primary key,
  tenant_id uuid not null,
  deployment_id uuid not null,
  created_at timestamptz not null default now()
);

-- One row per deployment that was ever looked at; run_at null = nothing to do. Merged by key, so a storm of changes is one pass.
create table reconcile_queue (
  deployment_id uuid primary key,
  run_at timestamptz,
  generation bigint not null default 1,
  attempts integer not null default 0,
  lease_owner text,
  lease_until timestamptz,
  outcomes jsonb not null default '[]'
);
create index reconcile_queue_due on reconcile_queue (run_at) where run_at is not null;
create index reconcile_queue_leased on reconcile_queue (lease_until) where lease_owner is not null;

-- Rights that one server has at a time (housekeeping); deployments have theirs in reconcile_queue.
create table leases (
  name text primary key,
  owner text not null,
  lease_until timestamptz not null
);

create table log_entries (
  id bigint generated always as identity primary key,
  tenant_id uuid not null,
  deployment_id uuid not null references deployments (id) on delete cascade,
  revision_id uuid not null,
  kind text not null check (kind in ('build', 'deploy')),
  replica_id text,
  stream text not null,
  level smallint not null,
  logged_at timestamptz not null,
  message text not null,
  line_key text
);
create index log_entries_revision on log_entries (revision_id, kind, id);
create index log_entries_deployment on log_entries (deployment_id, kind, id);
create unique index log_entries_line on log_entries (deployment_id, line_key) where line_key is not null;

-- The timeline users see.
create table events (
  id bigint generated always as identity primary key,
  tenant_id uuid not null,
  deployment_id uuid not null,
  revision_id uuid,
  kind text not null,
  data jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create index events_deployment on events (deployment_id, id);

create table audit_log (
  id bigint generated always as identity primary key,
  tenant_id uuid not null,
  actor text not null,
  action text not null,
  deployment_id uuid,
  data jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create index audit_log_page on audit_log (tenant_id, id);
