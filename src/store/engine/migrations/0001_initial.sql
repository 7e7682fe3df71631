-- The schema of Pierhead, by table family. Times are UTC. Every table that a workspace owns carries its id as tenant_id.
-- "sealed" columns hold JSON encrypted with AES-256-GCM under the data key that data_key_id names.

-- Tenants: organizations, their workspaces, and the keys and people that act in them.

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
create unique index workspaces_name on workspaces (organization_id, name);

create table api_keys (
  id uuid primary key,
  organization_id uuid not null references organizations (id),
  workspace_id uuid references workspaces (id),
  listener_id uuid,
  name text not null,
  role text not null check (role in ('caller', 'reader', 'agent', 'deployer', 'listener', 'admin')),
  -- An operator's key administers the whole installation. Its workspace is only the default for requests that name none.
  is_operator boolean not null default false,
  -- Good for one exchange only: for the key of a listener.
  one_time boolean not null default false,
  prefix text not null unique,
  hash bytea not null,
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz
);
create index api_keys_page on api_keys (organization_id, created_at desc, id);

-- People who sign in. workspace_id null: a member of every workspace of the organization.
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
create index members_email on members (email);

-- Console sessions: the digest of a browser's cookie, and the API key or the member that it stands for.
create table sessions (
  token_hash bytea primary key,
  api_key_id uuid references api_keys (id) on delete cascade,
  member_email text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null,
  constraint sessions_holder check (num_nonnulls(api_key_id, member_email) = 1)
);
create index sessions_api_key on sessions (api_key_id);
create index sessions_expiry on sessions (expires_at);

-- Sign-ins in progress at the identity provider: the digest of what the browser that began one holds.
create table sign_ins (
  token_hash bytea primary key,
  expires_at timestamptz not null
);
create index sign_ins_expiry on sign_ins (expires_at);

-- A null limit, or no row, means unlimited. The row is locked while the limited objects are counted and created.
create table quotas (
  tenant_id uuid primary key references workspaces (id) on delete cascade,
  deployments_max integer check (deployments_max >= 0),
  replicas_max integer check (replicas_max >= 0),
  build_minutes_max integer check (build_minutes_max >= 0),
  updated_at timestamptz not null default now()
);

-- Build time by the month (UTC, YYYY-MM) in which a build ended. Outlives the builds themselves.
create table build_usage (
  tenant_id uuid not null references workspaces (id) on delete cascade,
  month text not null,
  build_ms bigint not null default 0,
  primary key (tenant_id, month)
);

-- tenant_id null: a change of the organization itself.
create table audit_log (
  id bigint generated always as identity primary key,
  organization_id uuid not null,
  tenant_id uuid,
  actor text not null,
  action text not null,
  deployment_id uuid,
  subject_id uuid,
  subject_name text,
  data jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create index audit_log_page on audit_log (tenant_id, id);
create index audit_log_organization on audit_log (organization_id, id);
create index audit_log_deployment on audit_log (deployment_id, id) where deployment_id is not null;

-- Responses to requests with an Idempotency-Key, sealed with a digest of the request, so that a repeated request gets the
-- same response. No foreign keys: they would cost every create a lookup, and a response may outlive its subject.
create table idempotency_keys (
  scope_id uuid not null,
  key text not null,
  data_key_id uuid not null,
  sealed bytea not null,
  created_at timestamptz not null default now(),
  primary key (scope_id, key)
) with (toast_tuple_target = 8160);
-- Sealed bytes do not compress. Those of usual length (2 KiB) stay in the row.
alter table idempotency_keys alter column sealed set storage external;
create index idempotency_keys_age on idempotency_keys using brin (created_at);

-- Secrets.

-- Data keys, wrapped by the master key.
create table data_keys (
  id uuid primary key,
  wrapped bytea not null,
  master_key_id text not null,
  created_at timestamptz not null default now(),
  retired_at timestamptz
);

-- Data planes: listeners and what they run.

-- The built-in listener has no tenant and serves every workspace. rv is raised under this row's lock in the transaction that
-- changes an assignment, so commit order equals rv order.
create table listeners (
  id uuid primary key,
  tenant_id uuid references workspaces (id),
  builtin boolean not null default false,
  compute_type text not null,
  compute_id text not null,
  compute_config jsonb not null default '{}',
  -- Reported by the listener when its newest session began: its address for agents, its features, its host.
  facts jsonb not null default '{}',
  version text,
  rv bigint not null default 0,
  epoch bigint not null default 0,
  session_id uuid,
  instance_id text,
  lease_until timestamptz,
  last_seen_at timestamptz,
  -- Requests to the listener besides its assignments: change nothing; log at another level than its own.
  drain boolean not null default false,
  log_level text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, compute_id)
);
create unique index listeners_builtin on listeners (builtin) where builtin;

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

-- The last report of a listener. A newer (epoch, seq) replaces an older one.
create table observations (
  deployment_id uuid primary key,
  listener_id uuid not null,
  epoch bigint not null,
  seq bigint not null,
  generation bigint not null,
  report jsonb not null,
  observed_at timestamptz not null default now()
);

-- Deployments.

-- All three-letter sequences of a name, each with the beginning of its workspace's id, so that a search in one workspace does
-- not read the names of another. An expression only, because not every server has pg_trgm.
create function name_parts(tenant_id uuid, name text) returns text[] language sql immutable parallel safe as $$
  select array_agg(distinct left(tenant_id::text, 8) || substr(lower(name), i, 3))
    from generate_series(1, length(name) - 2) i
$$;

-- The day (UTC) of a deployment, counted from 2000-01-01. Where many names contain a sequence, the search finds those of the
-- newest days first and skips the other days.
create function created_on(created_at timestamptz) returns int[] language sql immutable parallel safe as $$
  select array[(created_at at time zone 'UTC')::date - date '2000-01-01']
$$;

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
  -- Observed, see src/domain/deployment-health.ts.
  health text not null default 'deploying',
  health_since timestamptz not null default now(),
  health_reason text,
  health_message text,
  -- The last request that an agent of the deployment answered, to the hour.
  used_at timestamptz,
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
create index deployments_parent on deployments (parent_deployment_id) where parent_deployment_id is not null;
create index deployments_unsettled on deployments (id) where status not in ('READY', 'UNUSED');

-- The list in its orders. The page index includes the columns that the list reads of each deployment, so that rows an offset
-- skips are read from the index only (10,000 in 2 ms instead of 3.3 ms).
create index deployments_page on deployments (tenant_id, created_at desc, seq desc) include (id, status);
create index deployments_changed on deployments (tenant_id, updated_at desc, seq desc);

-- The filters of the list. Each index also has the columns of the page order, so that a page is read off the index.
create index deployments_status on deployments (tenant_id, status, created_at desc, seq desc);
create index deployments_health on deployments (tenant_id, health, created_at desc, seq desc);
create index deployments_version on deployments (tenant_id, image_version, created_at desc, seq desc);
create index deployments_type on deployments
  (tenant_id, (coalesce(source_config ->> 'deployment_type', 'prod')), created_at desc, seq desc);
create index deployments_environment on deployments (tenant_id, agent_environment, created_at desc, seq desc)
  where agent_id is not null;
create index deployments_address on deployments (tenant_id, (source_config ->> 'custom_url'))
  where source_config ->> 'custom_url' is not null;
create index deployments_name_parts on deployments
  using gin (name_parts(tenant_id, name), created_on(created_at)) with (gin_pending_list_limit = 512);

-- The deployments of one listener, which change when it goes silent or returns.
create index deployments_listener on deployments (listener_id, status);

-- Returns the sequences to search for: by the planner's statistics the rarest, which together leave ten of a million names.
-- Further sequences would not narrow the search, and reading the list of one that every name contains takes milliseconds.
-- Sequences without statistics are rare. The known ones are sorted, which finds one without comparing it with a thousand.
create function rare_parts(parts text[]) returns text[] language plpgsql stable parallel safe as $$
declare
  known text[];
  shares float4[];
  rare text[];
  remaining float8 := 1;
  one record;
begin
  select most_common_elems::text::text[], most_common_elem_freqs into known, shares from pg_stats
   where schemaname = current_schema() and tablename = 'deployments_name_parts' and attname = 'name_parts';
  for one in
    select part, case when known[place] = part then shares[place] end as share
      from unnest(parts) part, width_bucket(part, known) place order by share nulls first
  loop
    exit when one.share is not null and remaining < 0.00001;
    rare := rare || one.part;
    remaining := remaining * coalesce(one.share, 0.001);
  end loop;
  return rare;
end $$;

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

-- created_at and seq are those of the deployment, so that the list filtered by a tag is read in order. A trigger fills them.
create table deployment_tags (
  deployment_id uuid not null references deployments (id) on delete cascade,
  tag_value_id uuid not null references tag_values (id) on delete cascade,
  created_at timestamptz,
  seq bigint,
  primary key (deployment_id, tag_value_id)
);
create index deployment_tags_value on deployment_tags (tag_value_id, deployment_id);
create index deployment_tags_order on deployment_tags (tag_value_id, created_at desc, seq desc) include (deployment_id);

create function place_tag() returns trigger language plpgsql as $$
begin
  if new.seq is null then
    select d.created_at, d.seq into new.created_at, new.seq from deployments d where d.id = new.deployment_id;
  end if;
  return new;
end $$;
create trigger place_tag before insert on deployment_tags for each row execute function place_tag();

-- A set of secrets is written once and shared by the revisions that run with it.
create table secret_sets (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id),
  deployment_id uuid not null references deployments (id) on delete cascade,
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  created_at timestamptz not null default now()
);
create index secret_sets_deployment on secret_sets (deployment_id);

-- The databases of a deployment on the operator's servers. Written before anything is created there, so that nothing is
-- created that no row would remove.
create table deployment_databases (
  deployment_id uuid primary key references deployments (id) on delete cascade,
  tenant_id uuid not null,
  -- none: no server is configured. shared: a database on the operator's server. container: a server of the deployment's own,
  -- in a container beside its agents. custom: the deployment brings its own, which Pierhead never creates and never deletes.
  postgres text not null check (postgres in ('none', 'shared', 'container', 'custom')),
  redis text not null check (redis in ('none', 'shared', 'container', 'custom')),
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  created_at timestamptz not null default now()
);

-- Where the traces of a deployment go: one project for each name in a workspace. A project outlives its deployment unless the
-- delete request says otherwise (deployment_id null), and the next deployment of that name takes it over.
create table tracing_projects (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  name text not null,
  -- The name in the tracing back end. One back end serves all workspaces, and its names are unique.
  project text not null,
  deployment_id uuid references deployments (id) on delete set null,
  -- wanted: to be created in the back end. ready: it exists, or there is no back end to create it in.
  status text not null check (status in ('wanted', 'ready')),
  -- The id in the back end, where it differs from ours.
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

-- What a deployment used and answered: one row per minute while it runs, kept for a week.
create table metric_minutes (
  deployment_id uuid not null references deployments (id) on delete cascade,
  at timestamptz not null,
  replicas integer not null,
  cpu_cores double precision,
  memory_mib double precision,
  restarts integer not null,
  requests bigint not null,
  errors bigint not null,
  latency_counts integer[] not null,
  -- The last sample that was added. A listener sends a sample again when the response was lost.
  sampled_at timestamptz,
  primary key (deployment_id, at)
);
create index metric_minutes_age on metric_minutes using brin (at);

-- Revisions, and what they are built from.

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
  -- For deployment types with sizes: {"compute": "S"|"M"|"L", "database": the same}. null: S.
  sizes jsonb,
  artifact_id uuid references artifacts (id),
  artifact_key text,
  redeploy_of uuid,
  triggered_by text not null default 'api',
  image_version text,
  tracked_packages jsonb,
  -- W3C Trace Context of the request, or of the push, that created the revision.
  traceparent text,
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
create index uploads_age on uploads (created_at);

-- The reconcile queue and other shared work.

-- One row per deployment that was ever enqueued. run_at null: nothing to do. Entries merge by key, so that a burst of changes
-- is one pass.
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

-- Work that one server does at a time (housekeeping). Deployments have their leases in reconcile_queue.
create table leases (
  name text primary key,
  owner text not null,
  lease_until timestamptz not null
);

-- One row. mark moves with all deadlines and leases when the clock of the database's machine is set: a server that sees the
-- clock jump learns from it whether another server has moved them already. In milliseconds, as those servers count.
-- worked_at: the last time a server reported that it polls for work; resumed_at: the last time after a pause. Deadlines and the
-- silence of listeners do not count the time in which no server worked.
create table clock (
  mark timestamptz not null,
  worked_at timestamptz not null default now(),
  resumed_at timestamptz
);
insert into clock (mark) values (date_trunc('milliseconds', now()));

-- Logs and events. Retention finds old rows by block ranges, which cost almost nothing to write, because rows arrive in order
-- of time.

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
create index log_entries_age on log_entries using brin (logged_at);

-- The timeline that users see. deployment_id null: an event of the workspace.
create table events (
  id bigint generated always as identity primary key,
  tenant_id uuid not null,
  deployment_id uuid,
  revision_id uuid,
  kind text not null,
  data jsonb not null default '{}',
  created_at timestamptz not null default now()
);
create index events_deployment on events (deployment_id, id);
create index events_age on events using brin (created_at);

-- Webhooks.

-- types and deployment_ids null: all. sealed: the signing keys, newest first, and the whole address, because the path may be a
-- secret of the receiver; origin is its scheme and host.
create table webhooks (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  origin text not null,
  description text,
  types text[],
  deployment_ids uuid[],
  enabled boolean not null default true,
  disabled_reason text,
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  -- Events up to this number happened before the webhook was created.
  after_event bigint not null,
  -- The first failed attempt since the last successful one.
  failing_since timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index webhooks_page on webhooks (tenant_id, created_at, id);

-- The event up to which deliveries exist. Moved by compare-and-swap in the statement that creates them.
create table webhook_position (
  singleton boolean primary key default true check (singleton),
  event_id bigint not null
);

-- A message for one webhook, and the result of its last attempt. payload: the exact text that is signed and sent.
create table webhook_deliveries (
  id uuid primary key,
  seq bigint generated always as identity,
  webhook_id uuid not null references webhooks (id) on delete cascade,
  tenant_id uuid not null,
  event_id bigint,
  type text not null,
  payload text not null,
  status text not null check (status in ('pending', 'delivered', 'failed')),
  attempts integer not null default 0,
  next_attempt_at timestamptz,
  lease_owner text,
  lease_until timestamptz,
  last_attempt_at timestamptz,
  duration_ms integer,
  response_status integer,
  response_bytes integer,
  response_text text,
  error text,
  created_at timestamptz not null default now()
);
create index webhook_deliveries_page on webhook_deliveries (webhook_id, seq desc);
create index webhook_deliveries_waiting on webhook_deliveries (webhook_id, seq) where status = 'pending';
create index webhook_deliveries_due on webhook_deliveries (next_attempt_at) where status = 'pending';
create index webhook_deliveries_age on webhook_deliveries using brin (created_at);

-- The OAuth service: providers of an organization, tokens of a workspace's users, sign-ins in progress.

create table oauth_providers (
  id uuid primary key,
  organization_id uuid not null references organizations (id) on delete cascade,
  provider_id text not null,
  name text not null,
  client_id text not null,
  secret_key_id uuid references data_keys (id),
  sealed_secret bytea,
  auth_url text not null,
  token_url text not null,
  uses_pkce boolean not null,
  provider_type text,
  token_endpoint_auth_method text not null,
  authorization_params jsonb not null default '{}',
  allowed_redirect_uris jsonb not null default '[]',
  default_redirect_uri text,
  issuer text,
  -- The provider declares that its responses name their issuer (RFC 9207): one without it is refused.
  names_issuer boolean not null default false,
  revocation_url text,
  mcp_server_url text,
  -- The resource that tokens are requested for (RFC 8707).
  resource text,
  is_dynamic_client boolean not null default false,
  scopes_supported jsonb,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint oauth_providers_name unique (organization_id, provider_id)
);

-- user_id and agent_id name the owner. Both: a user's token for one agent only. user_id null: the agent's own. Both null: the
-- workspace's. sealed: access token, refresh token and further fields of the provider's response.
create table oauth_tokens (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  provider_row_id uuid not null references oauth_providers (id) on delete cascade,
  user_id text,
  agent_id text,
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  -- The issuer. The refresh token is sent nowhere else.
  token_url text not null,
  client_id text not null,
  scopes jsonb not null default '[]',
  account_label text,
  is_default boolean not null default false,
  is_dead boolean not null default false,
  expires_at timestamptz,
  -- Raised whenever the token is replaced.
  generation bigint not null default 1,
  -- The server that refreshes the token, and until when. A later start of the same installation ends what it left behind.
  refresh_until timestamptz,
  refresh_owner text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index oauth_tokens_owner on oauth_tokens (tenant_id, user_id, provider_row_id);
create index oauth_tokens_provider on oauth_tokens (provider_row_id);

-- One sign-in of one user. sealed: state and PKCE verifier. state_digest finds the row, once.
create table oauth_requests (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  provider_row_id uuid not null references oauth_providers (id) on delete cascade,
  user_id text,
  agent_id text,
  state_digest bytea not null unique,
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  token_url text not null,
  client_id text not null,
  scopes jsonb not null,
  redirect_uri text not null,
  -- true: the provider sends the code to this server. false: to the application, which hands it in.
  is_own_callback boolean not null,
  is_default boolean not null,
  -- The token that this sign-in renews. null: it creates a new one.
  replaces_token_id uuid references oauth_tokens (id) on delete set null,
  actor text not null,
  status text not null default 'pending' check (status in ('pending', 'claimed', 'completed', 'failed')),
  status_since timestamptz not null default now(),
  -- The server that finishes the sign-in.
  claimed_by text,
  failure text,
  token_id uuid references oauth_tokens (id) on delete set null,
  expires_at timestamptz not null,
  created_at timestamptz not null default now()
);
create index oauth_requests_open on oauth_requests (tenant_id, provider_row_id, user_id) where status = 'pending';
create index oauth_requests_age on oauth_requests (expires_at);

create table oauth_token_events (
  id uuid primary key,
  seq bigint generated always as identity,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  provider_id text not null,
  user_id text,
  agent_id text,
  token_id uuid,
  event_type text not null,
  reason text,
  source text not null,
  account_label text,
  scopes jsonb not null default '[]',
  detail text,
  acknowledged_at timestamptz,
  created_at timestamptz not null default now()
);
create index oauth_token_events_page on oauth_token_events (tenant_id, user_id, seq desc);
create index oauth_token_events_age on oauth_token_events (created_at);

create table agent_connections (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  agent_id text not null,
  oauth_token_id uuid not null references oauth_tokens (id) on delete cascade,
  created_by text not null,
  created_at timestamptz not null default now(),
  constraint agent_connections_token unique (tenant_id, agent_id, oauth_token_id)
);
create index agent_connections_of_token on agent_connections (oauth_token_id);

-- Code hosts.

-- What a workspace reads repositories with: an installation of the GitHub App, or a stored credential.
create table integrations (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  host text not null check (host in ('github', 'gitlab', 'gitea', 'bitbucket', 'git')),
  name text not null,
  -- The installation of the GitHub App. Its credential is created when it is used and stored nowhere.
  installation_id bigint,
  -- The credential is used for addresses below this one only.
  url text not null,
  username text,
  -- Which secrets are sealed: token, ssh_key.
  has_token boolean not null default false,
  has_ssh_key boolean not null default false,
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  unique (tenant_id, installation_id)
);
create index integrations_page on integrations (tenant_id, created_at, id);
create index integrations_installation on integrations (installation_id) where installation_id is not null;

-- Links to the host's page for installing the GitHub App. Each is good once and identifies the person who returns.
create table installation_links (
  state_digest bytea primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  organization_id uuid not null,
  actor text not null,
  return_to text,
  created_at timestamptz not null default now(),
  expires_at timestamptz not null
);

-- The GitHub App that was created from this server's manifest: at most one. An App in the configuration takes precedence.
create table github_app (
  id uuid primary key,
  is_only boolean not null default true unique check (is_only),
  app_id text not null,
  name text not null,
  -- GitHub, or an Enterprise Server.
  url text not null,
  page_url text not null,
  has_webhook boolean not null,
  -- Private key, webhook secret and client.
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  actor text not null,
  created_at timestamptz not null default now()
);

-- Links that create a GitHub App. Each is good once, and only as long as the API key that requested it exists.
create table github_app_links (
  state_digest bytea primary key,
  key_id uuid not null references api_keys (id) on delete cascade,
  organization_id uuid not null,
  actor text not null,
  url text not null,
  -- null: the App belongs to the person who opens the link.
  account text,
  name text not null,
  is_public boolean not null,
  expires_at timestamptz not null
);

-- Installations that a person who signed in at GitHub may choose from. Each row is good once.
create table picker_sessions (
  id_digest bytea primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  organization_id uuid not null,
  installs jsonb not null,
  return_to text,
  expires_at timestamptz not null
);

-- The branch that a deployment follows: its last known commit, and when it is polled next. A poll compares commits, so that a
-- lost or repeated message of the host changes nothing.
create table branch_watches (
  deployment_id uuid primary key references deployments (id) on delete cascade,
  tenant_id uuid not null,
  -- Repository and branch of the commit. When the deployment names another one, the watch starts over.
  repo_key text not null,
  ref text not null,
  -- null: the branch did not exist.
  commit_sha text,
  -- Commits that the host reported since the last poll, oldest first.
  pushed text[] not null default '{}',
  -- Grows with each message. A poll that began before the newest message is followed by another.
  told bigint not null default 0,
  look_at timestamptz not null,
  looked_at timestamptz not null default now(),
  attempts integer not null default 0,
  last_error text
);
create index branch_watches_repository on branch_watches (repo_key, ref);

-- Digests of the code hosts' messages, by id and by content, so that none is processed twice.
create table host_deliveries (
  digest bytea primary key,
  received_at timestamptz not null default now()
);
create index host_deliveries_age on host_deliveries using brin (received_at);

-- How a deployment reacts to pushes and pull requests, in addition to its source_config.
create table git_settings (
  deployment_id uuid primary key references deployments (id) on delete cascade,
  tenant_id uuid not null,
  -- .gitignore patterns. null: include all paths, exclude none.
  include_paths text[],
  exclude_paths text[],
  -- null: pull requests get no previews.
  preview jsonb,
  updated_at timestamptz not null default now()
);

-- Commits whose host receives the status of their revision.
create table commit_reports (
  revision_id uuid primary key references revisions (id) on delete cascade,
  deployment_id uuid not null,
  -- The last status that was reported. null: none yet.
  reported text,
  -- The host's name for the report. null: there is none.
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
  -- null: it was deleted while the pull request stayed open. The next commit creates it again.
  deployment_id uuid unique references deployments (id) on delete set null,
  head_sha text not null,
  head_at timestamptz not null default now(),
  comment_id bigint,
  -- The text of the comment. null: there is none yet.
  commented text,
  attempts integer not null default 0,
  retry_at timestamptz,
  primary key (parent_id, number)
);
