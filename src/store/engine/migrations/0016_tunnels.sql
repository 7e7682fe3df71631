-- additive
-- Connections that a replica of the control plane asks a listener to open. A row lives for seconds.
create table tunnels (
  id uuid primary key,
  listener_id uuid not null references listeners (id) on delete cascade,
  wanted jsonb not null,
  -- Address of the replica that waits for the connection, as other replicas reach it.
  replica_url text not null,
  expires_at timestamptz not null
);
