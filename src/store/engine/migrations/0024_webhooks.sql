-- Where a workspace wants to be told of events. types and deployment_ids null: of all.
create table webhooks (
  id uuid primary key,
  tenant_id uuid not null references workspaces (id) on delete cascade,
  url text not null,
  description text,
  types text[],
  deployment_ids uuid[],
  enabled boolean not null default true,
  disabled_reason text,
  -- Signing keys, newest first; sealed = AES-256-GCM of JSON.
  data_key_id uuid not null references data_keys (id),
  sealed bytea not null,
  -- Events up to this number happened before it was made.
  after_event bigint not null,
  -- The first attempt that failed since one succeeded.
  failing_since timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);
create index webhooks_page on webhooks (tenant_id, created_at, id);

-- Up to which event deliveries were made. Moved by compare-and-swap in the statement that makes them.
create table webhook_position (
  singleton boolean primary key default true check (singleton),
  event_id bigint not null
);

-- A message for one webhook, and how its last attempt went. payload: the very text that is signed and sent.
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
  response_text text,
  error text,
  created_at timestamptz not null default now()
);
create index webhook_deliveries_page on webhook_deliveries (webhook_id, seq desc);
create index webhook_deliveries_waiting on webhook_deliveries (webhook_id, seq) where status = 'pending';
create index webhook_deliveries_due on webhook_deliveries (next_attempt_at) where status = 'pending';
create index webhook_deliveries_age on webhook_deliveries using brin (created_at);
