-- What a deployment used and answered, a row a minute while it runs; kept for a week.
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
  primary key (deployment_id, at)
);
create index metric_minutes_age on metric_minutes using brin (at);
