import type { Revision } from "../../contract/revisions/revision.ts";
import type { RevisionRow } from "../../store/revisions/revisions.ts";

/** Returns the wire shape of a revision (contract 2.5). */
export function revisionOf(row: RevisionRow): Revision {
  return {
    id: row.id,
    deployment_id: row.deployment_id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    status: row.status,
    status_message: row.status_message,
    source: row.source,
    source_revision_config: row.source_revision_config,
    image_version: row.image_version,
    triggered_by: row.triggered_by,
    rollout: row.rollout,
    artifact_digest: row.artifact_digest,
    builder_version: row.builder_version,
  };
}
