import { bigint, integer, jsonb, nullable, table, text, textOf, timestamp, uuid } from "../engine/table.ts";

export const artifactsTable = table("artifacts", {
  id: uuid,
  tenant_id: uuid,
  key: text,
  manifest: jsonb,
  created_at: timestamp,
  last_used_at: timestamp,
  listener_id: nullable(uuid),
});

export const buildsTable = table("builds", {
  revision_id: uuid,
  deployment_id: uuid,
  status: textOf<"running" | "succeeded" | "failed" | "cancelled">(),
  owner: text,
  lease_until: timestamp,
  pid: nullable(integer),
  pid_started: nullable(text),
  attempts: integer,
  result: nullable(jsonb),
  started_at: timestamp,
  finished_at: nullable(timestamp),
});

export const buildOrdersTable = table("build_orders", {
  id: uuid,
  revision_id: uuid,
  listener_id: uuid,
  spec: jsonb,
  context_path: text,
  expires_at: timestamp,
  result: nullable(jsonb),
  created_at: timestamp,
});

export const imageRemovalsTable = table("image_removals", {
  listener_id: uuid,
  repository: text,
  reference: text,
  created_at: timestamp,
  next_at: timestamp,
  lease_id: nullable(uuid),
  leased_until: nullable(timestamp),
});

export const uploadsTable = table("uploads", {
  id: uuid,
  tenant_id: uuid,
  deployment_id: uuid,
  object_path: text,
  sha256: nullable(text),
  size_bytes: nullable(bigint),
  expires_at: timestamp,
  finished_at: nullable(timestamp),
  created_at: timestamp,
});
