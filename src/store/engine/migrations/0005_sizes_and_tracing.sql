-- How large a revision runs, where its type has sizes: {"compute": "S"|"M"|"L", "database": the same}; null is S.
alter table revisions add column sizes jsonb;

create index deployments_parent on deployments (parent_deployment_id) where parent_deployment_id is not null;

-- Where the traces of a deployment go: one project for each name in a workspace. It outlives its deployment unless the
-- delete says otherwise (deployment_id null), and the next deployment of that name takes it over.
create table tracing_projects (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  name text not null,
  -- What the tracing back end calls it. One back end serves all workspaces, and its names are unique.
  project text not null,
  deployment_id uuid references deployments (id) on delete set null,
  -- wanted: to be made in the back end. ready: it is there, or there is no back end to make it in.
  status text not null check (status in ('wanted', 'ready')),
  -- Its id in the back end, where that is another than ours.
  external_id uuid,
  attempts integer not null default 0,
  retry_at timestamptz,
  last_error text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint tracing_projects_name unique (tenant_id, name),
  constraint tracing_projects_project unique (project)
);
create unique index tracing_projects_deployment on tracing_projects (deployment_id) where deployment_id is not null;
create index tracing_projects_wanted on tracing_projects (deployment_id) where status = 'wanted';
