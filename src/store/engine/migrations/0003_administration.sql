-- Who administers what, what a workspace may use, and who changed what.

-- An operator's key administers the whole installation; its workspace is only the one it acts in when none is named.
alter table api_keys add column is_operator boolean not null default false;
create index api_keys_page on api_keys (organization_id, created_at desc, id);

create unique index workspaces_name on workspaces (organization_id, name);

-- People, for those who sign in. workspace_id null: a member of every workspace of the organization.
create table members (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  workspace_id uuid references workspaces (id) on delete cascade,
  email text not null,
  name text,
  role text not null check (role in ('reader', 'deployer', 'admin')),
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create unique index members_of_workspace on members (workspace_id, email) where workspace_id is not null;
create unique index members_of_organization on members (organization_id, email) where workspace_id is null;

create table tag_keys (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  name text not null,
  description text,
  created_at timestamptz not null default now(),
  constraint tag_keys_name unique (tenant_id, name)
);

create table tag_values (
  id uuid primary key,
  tag_key_id uuid not null references tag_keys (id) on delete cascade,
  name text not null,
  created_at timestamptz not null default now(),
  constraint tag_values_name unique (tag_key_id, name)
);

create table deployment_tags (
  deployment_id uuid not null references deployments (id) on delete cascade,
  tag_value_id uuid not null references tag_values (id) on delete cascade,
  primary key (deployment_id, tag_value_id)
);
create index deployment_tags_value on deployment_tags (tag_value_id, deployment_id);

-- null, and no row at all: unlimited. Its row is locked while what it limits is counted and made.
create table quotas (
  tenant_id uuid primary key references workspaces (id) on delete cascade,
  deployments_max integer check (deployments_max >= 0),
  replicas_max integer check (replicas_max >= 0),
  build_minutes_max integer check (build_minutes_max >= 0),
  updated_at timestamptz not null default now()
);

-- What ended builds took, by the month (UTC, YYYY-MM) in which they ended; outlives the builds themselves.
create table build_usage (
  tenant_id uuid not null references workspaces (id) on delete cascade,
  month text not null,
  build_ms bigint not null default 0,
  primary key (tenant_id, month)
);

-- tenant_id null: a change of the organization itself.
alter table audit_log
  add column organization_id uuid,
  add column subject_id uuid,
  add column subject_name text,
  alter column tenant_id drop not null;
update audit_log a set organization_id = w.organization_id, subject_id = a.deployment_id,
       data = case a.action when 'deployment.delete' then jsonb_build_object('details', a.data)
                            when 'deployment.create' then jsonb_build_object('details', a.data)
                            else jsonb_build_object('details', jsonb_build_object('after', a.data)) end
  from workspaces w where w.id = a.tenant_id;
alter table audit_log alter column organization_id set not null;
create index audit_log_organization on audit_log (organization_id, id);
create index audit_log_deployment on audit_log (deployment_id, id) where deployment_id is not null;
