-- Commits whose host is told how their revision goes.
create table commit_reports (
  revision_id uuid primary key references revisions (id) on delete cascade,
  deployment_id uuid not null,
  -- What the host was told last; null: nothing yet.
  reported text,
  -- The host's name for what it was told; null: there is none.
  external_id text,
  attempts integer not null default 0,
  -- After a failure.
  retry_at timestamptz,
  is_settled boolean not null default false
);
create index commit_reports_open on commit_reports (deployment_id) where not is_settled;

-- Pull requests that have, or had, a deployment of their own.
create table previews (
  parent_id uuid not null references deployments (id) on delete cascade,
  number integer not null,
  tenant_id uuid not null,
  -- null: it was deleted while the pull request stayed open; another commit makes it anew.
  deployment_id uuid unique references deployments (id) on delete set null,
  head_sha text not null,
  head_at timestamptz not null default now(),
  comment_id bigint,
  -- What the comment says; null: there is none yet.
  commented text,
  attempts integer not null default 0,
  retry_at timestamptz,
  primary key (parent_id, number)
);
