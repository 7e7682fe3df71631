-- additive
-- Images that a listener shall build in its cluster, one per build. A new attempt replaces the one before.
create table build_orders (
  id uuid primary key,
  revision_id uuid not null unique references revisions (id) on delete cascade,
  listener_id uuid not null references listeners (id) on delete cascade,
  -- What the listener needs: tag, path of the Dockerfile, limits.
  spec jsonb not null,
  -- File of the build context, relative to the data directory.
  context_path text not null,
  expires_at timestamptz not null,
  -- Reported by the listener. null: it is not done.
  result jsonb,
  created_at timestamptz not null default now()
);
create index build_orders_open on build_orders (listener_id) where result is null;
