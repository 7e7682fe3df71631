import type { SourceConfig, SourceKind, SourceRevisionConfig } from "../../contract/deployments/deployment.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import type { RevisionReason, RevisionStatus, RevisionTrigger } from "../../contract/revisions/revision.ts";
import type { Sizes } from "../../domain/tiers.ts";
import { bigint, integer, jsonbOf, nullable, table, text, textOf, timestamp, uuid } from "../engine/table.ts";

export const revisionsTable = table("revisions", {
  id: uuid,
  seq: bigint,
  tenant_id: uuid,
  deployment_id: uuid,
  status: textOf<RevisionStatus>(),
  status_message: nullable(text),
  failure: nullable(jsonbOf<Failure>()),
  status_since: timestamp,
  deadline_at: nullable(timestamp),
  source: textOf<SourceKind>(),
  source_config: jsonbOf<SourceConfig>(),
  source_revision_config: jsonbOf<SourceRevisionConfig>(),
  secret_set_id: nullable(uuid),
  secret_references: nullable(jsonbOf<{ name: string; secret_name: string; secret_key: string }[]>()),
  sizes: nullable(jsonbOf<Sizes>()),
  artifact_id: nullable(uuid),
  artifact_key: nullable(text),
  redeploy_of: nullable(uuid),
  triggered_by: textOf<RevisionTrigger>(),
  image_version: nullable(text),
  tracked_packages: nullable(jsonbOf<string[]>()),
  traceparent: nullable(text),
  number: nullable(integer),
  reason: nullable(textOf<RevisionReason>()),
  made_by: nullable(text),
  commit_message: nullable(text),
  commit_author: nullable(text),
  created_at: timestamp,
  updated_at: timestamp,
});
