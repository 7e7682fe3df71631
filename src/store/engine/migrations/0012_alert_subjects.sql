-- additive
-- Alerts that concern no deployment: a server, a certificate or an API key.
alter table alerts alter column deployment_id drop not null;
-- The id of that subject, and its name for users. null: the alert concerns a deployment.
alter table alerts add column subject_id text;
alter table alerts add column subject text;
create unique index alerts_firing_subject on alerts (tenant_id, kind, subject_id) where state = 'firing' and deployment_id is null;

-- Alert rules that differ for one deployment. null: as the workspace has it.
create table deployment_alert_rules (
  deployment_id uuid not null references deployments (id) on delete cascade,
  kind text not null,
  enabled boolean,
  threshold double precision,
  updated_at timestamptz not null default now(),
  primary key (deployment_id, kind)
);

-- What each server last measured of itself. server: the id of its data directory.
create table server_facts (
  server text primary key,
  name text not null,
  measured_at timestamptz not null default now(),
  disk_size_bytes bigint not null,
  disk_free_bytes bigint not null,
  -- [{"host", "expires_at"}]: the certificates with which users reach it.
  certificates jsonb not null
);
