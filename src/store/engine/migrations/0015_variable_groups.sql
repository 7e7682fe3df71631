-- additive
-- Variables that several deployments of a workspace share. sealed: a JSON map from name to {"value", "is_secret"}.
create table variable_groups (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  name text not null,
  version integer not null default 1,
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, name)
);

-- Groups of a deployment. At a name in several of them, the highest position wins.
create table deployment_variable_groups (
  deployment_id uuid not null references deployments (id) on delete cascade,
  group_id uuid not null references variable_groups (id),
  position integer not null,
  primary key (deployment_id, group_id)
);
create index deployment_variable_groups_group on deployment_variable_groups (group_id);

-- What a revision got from groups. Its secret_set_id then names a set with the variables of the groups and of the deployment.
create table revision_variables (
  revision_id uuid primary key references revisions (id) on delete cascade,
  -- The variables of the deployment alone. null: it had none.
  own_secret_set_id uuid,
  -- [{"id", "name", "version"}]
  groups jsonb not null
);
