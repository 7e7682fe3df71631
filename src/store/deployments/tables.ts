import type {
  DeploymentStatus,
  DeploymentTier,
  Size,
  SourceConfig,
  SourceKind,
  SourceRevisionConfig,
} from "../../contract/deployments/deployment.ts";
import type { HealthWord } from "../../contract/deployments/health.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import {
  bigint,
  boolean,
  bytea,
  integer,
  jsonbOf,
  nullable,
  table,
  text,
  textOf,
  timestamp,
  uuid,
} from "../engine/table.ts";

export const deploymentsTable = table("deployments", {
  id: uuid,
  seq: bigint,
  tenant_id: uuid,
  listener_id: uuid,
  name: text,
  slug: text,
  display_name: nullable(text),
  source: textOf<SourceKind>(),
  source_config: jsonbOf<SourceConfig>(),
  source_revision_config: jsonbOf<SourceRevisionConfig>(),
  tracked_ref: nullable(text),
  tracked_packages: nullable(jsonbOf<string[]>()),
  secret_set_id: nullable(uuid),
  secret_references: nullable(jsonbOf<{ name: string; secret_name: string; secret_key: string }[]>()),
  status: textOf<DeploymentStatus>(),
  status_since: timestamp,
  health: textOf<HealthWord>(),
  health_since: timestamp,
  health_reason: nullable(text),
  health_message: nullable(text),
  health_failure: nullable(jsonbOf<Failure>()),
  used_at: nullable(timestamp),
  latest_revision_id: nullable(uuid),
  active_revision_id: nullable(uuid),
  image_version: nullable(text),
  shareable: boolean,
  route_through_gateway: boolean,
  agent_id: nullable(uuid),
  agent_name: nullable(text),
  agent_environment: nullable(text),
  deployment_tier: nullable(textOf<DeploymentTier>()),
  compute_tier: nullable(textOf<Size>()),
  database_tier: nullable(textOf<Size>()),
  is_preview: boolean,
  parent_deployment_id: nullable(uuid),
  tracer_session_id: nullable(uuid),
  delete_tracing_project: boolean,
  force_delete: boolean,
  default_engine: nullable(textOf<"postgres">()),
  created_at: timestamp,
  updated_at: timestamp,
});

export const tagKeysTable = table("tag_keys", {
  id: uuid,
  tenant_id: uuid,
  name: text,
  description: nullable(text),
  created_at: timestamp,
});

export const tagValuesTable = table("tag_values", {
  id: uuid,
  tag_key_id: uuid,
  name: text,
  created_at: timestamp,
});

export const deploymentTagsTable = table("deployment_tags", {
  deployment_id: uuid,
  tag_value_id: uuid,
  created_at: nullable(timestamp),
  seq: nullable(bigint),
});

export const deploymentDatabasesTable = table("deployment_databases", {
  deployment_id: uuid,
  tenant_id: uuid,
  postgres: textOf<"none" | "shared" | "custom">(),
  redis: textOf<"none" | "shared" | "custom">(),
  data_key_id: uuid,
  sealed: bytea,
  created_at: timestamp,
});

export const tracingProjectsTable = table("tracing_projects", {
  id: uuid,
  tenant_id: uuid,
  name: text,
  project: text,
  deployment_id: nullable(uuid),
  status: textOf<"wanted" | "ready">(),
  external_id: nullable(uuid),
  attempts: integer,
  retry_at: nullable(timestamp),
  last_error: nullable(text),
  created_at: timestamp,
  updated_at: timestamp,
});
