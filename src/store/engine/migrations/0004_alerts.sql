-- additive
-- Alert rules that a workspace has changed; the others follow the defaults of the program. threshold null: the default.
create table alert_rules (
  tenant_id uuid not null references workspaces (id) on delete cascade,
  kind text not null,
  enabled boolean not null,
  threshold double precision,
  updated_at timestamptz not null default now(),
  primary key (tenant_id, kind)
);

-- No notification about a deployment before this time.
create table alert_mutes (
  deployment_id uuid primary key references deployments (id) on delete cascade,
  until timestamptz not null
);

-- One row from the moment a rule fires for a deployment until it no longer holds, and for some time after.
create table alerts (
  id uuid primary key,
  tenant_id uuid not null,
  deployment_id uuid not null references deployments (id) on delete cascade,
  kind text not null,
  state text not null check (state in ('firing', 'resolved')),
  message text not null,
  -- Whether alert.firing was written. A mute delays it until the mute ends. alert.resolved is written only after it.
  notified boolean not null,
  since timestamptz not null default now(),
  resolved_at timestamptz
);
create unique index alerts_firing on alerts (deployment_id, kind) where state = 'firing';
create index alerts_page on alerts (tenant_id, since desc, id);
-- For the deletion of a deployment, and of old alerts.
create index alerts_deployment on alerts (deployment_id);
create index alerts_age on alerts (resolved_at) where resolved_at is not null;
