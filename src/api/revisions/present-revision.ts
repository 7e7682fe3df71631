import type { Revision, RevisionMaker } from "../../contract/revisions/revision.ts";
import { withDeploymentName } from "../../domain/deployment-health.ts";
import type { ListedRevisionRow } from "../../store/revisions/revisions.ts";

/** Returns the wire shape of a revision (contract 2.5). */
export function revisionOf(row: ListedRevisionRow): Revision {
  return {
    id: row.id,
    deployment_id: row.deployment_id,
    created_at: row.created_at.toISOString(),
    updated_at: row.updated_at.toISOString(),
    status: row.status,
    status_message: withDeploymentName(row.status_message, row.deployment_name),
    failure: row.failure,
    source: row.source,
    source_revision_config: row.source_revision_config,
    image_version: row.image_version,
    triggered_by: row.triggered_by,
    rollout: row.rollout,
    engine: row.engine,
    engine_because: row.engine_because,
    artifact_digest: row.artifact_digest,
    builder_version: row.builder_version,
    number: row.number,
    reason: row.reason,
    made_by: makerOf(row),
    based_on: row.redeploy_of === null ? null : { id: row.redeploy_of, number: row.redeploy_of_number },
    commit: row.commit_message === null ? null : { message: row.commit_message, author: row.commit_author },
  };
}

function makerOf({ made_by: actor, made_by_name: name }: ListedRevisionRow): RevisionMaker | null {
  if (actor === null) return null;
  const kind = actor.split(":", 1)[0];
  return { kind: kind === "key" || kind === "member" ? kind : "system", name };
}
