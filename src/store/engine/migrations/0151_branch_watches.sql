-- What was last seen of the branch a deployment follows, and when it is looked at next. A look compares: it is never told
-- what to do, so that a lost or repeated message changes nothing.
create table branch_watches (
  deployment_id uuid primary key references deployments (id) on delete cascade,
  tenant_id uuid not null,
  -- Repository and branch that the commit is of; another one in the deployment begins anew.
  repo_key text not null,
  ref text not null,
  -- null: there was no such branch.
  commit_sha text,
  -- Commits that the host told of since the last look, oldest first.
  pushed text[] not null default '{}',
  -- Grows with each message; a look that it outran is followed by another.
  told bigint not null default 0,
  look_at timestamptz not null,
  looked_at timestamptz not null default now(),
  attempts integer not null default 0,
  last_error text
);
create index branch_watches_repository on branch_watches (repo_key, ref);

-- Digests of messages of code hosts, by id and by content: none counts twice.
create table host_deliveries (
  digest bytea primary key,
  received_at timestamptz not null default now()
);
create index host_deliveries_age on host_deliveries using brin (received_at);

-- What a deployment does with pushes and pull requests, beside what its source_config says.
create table git_settings (
  deployment_id uuid primary key references deployments (id) on delete cascade,
  tenant_id uuid not null,
  -- Patterns of .gitignore; null: all, and none.
  include_paths text[],
  exclude_paths text[],
  -- null: pull requests are left alone.
  preview jsonb,
  updated_at timestamptz not null default now()
);
