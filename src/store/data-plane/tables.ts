import type { ListenerLogLevel } from "../../contract/listeners/listener.ts";
import {
  arrayOf,
  bigint,
  boolean,
  double,
  integer,
  jsonb,
  jsonbOf,
  nullable,
  table,
  text,
  textOf,
  timestamp,
  uuid,
} from "../engine/table.ts";

export const listenersTable = table("listeners", {
  id: uuid,
  tenant_id: nullable(uuid),
  builtin: boolean,
  compute_type: text,
  compute_id: text,
  compute_config: jsonb,
  facts: jsonb,
  version: nullable(text),
  rv: bigint,
  epoch: bigint,
  session_id: nullable(uuid),
  instance_id: nullable(text),
  lease_until: nullable(timestamp),
  last_seen_at: nullable(timestamp),
  drain: boolean,
  log_level: nullable(textOf<ListenerLogLevel>()),
  labels: jsonbOf<Record<string, string>>(),
  created_at: timestamp,
  updated_at: timestamp,
});

export const assignmentsTable = table("assignments", {
  deployment_id: uuid,
  tenant_id: uuid,
  listener_id: uuid,
  rv: bigint,
  generation: bigint,
  op: textOf<"apply" | "delete">(),
  spec: jsonb,
  updated_at: timestamp,
});

export const tunnelsTable = table("tunnels", {
  id: uuid,
  listener_id: uuid,
  wanted: jsonb,
  replica_url: text,
  expires_at: timestamp,
});

export const observationsTable = table("observations", {
  deployment_id: uuid,
  listener_id: uuid,
  epoch: bigint,
  seq: bigint,
  generation: bigint,
  report: jsonb,
  observed_at: timestamp,
});

export const metricMinutesTable = table("metric_minutes", {
  deployment_id: uuid,
  at: timestamp,
  replicas: integer,
  cpu_cores: nullable(double),
  memory_mib: nullable(double),
  restarts: integer,
  requests: bigint,
  errors: bigint,
  latency_counts: arrayOf(integer),
  runs_waiting: nullable(integer),
  runs_running: nullable(integer),
  runs_failed: nullable(integer),
  runs_recovered: nullable(integer),
  input_tokens: nullable(integer),
  output_tokens: nullable(integer),
  replica_usage: nullable(jsonb),
  sampled_at: nullable(timestamp),
});
