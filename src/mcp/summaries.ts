import type { Deployment } from "../contract/deployments/deployment.ts";
import type { Revision } from "../contract/revisions/revision.ts";

/** What a model reads of a deployment. Values of variables are left out. */
export function deploymentSummary(deployment: Deployment) {
  const { id, name, url, source, health, active_revision_id, latest_revision_id, updated_at } = deployment;
  const { repo_url, template_id } = deployment.source_config;
  return {
    ...{ id, name, url, source, repo_url, template_id },
    health: health.status,
    ...(health.message !== null && { problem: health.message, next_action: health.next_action?.text ?? null }),
    serving_revision: active_revision_id,
    newest_revision: latest_revision_id,
    updated_at,
  };
}

export function revisionSummary(revision: Revision) {
  const { id, number, status, status_message, created_at, triggered_by } = revision;
  const { repo_ref, repo_commit_sha } = revision.source_revision_config;
  return { id, number, status, status_message, repo_ref, repo_commit_sha, triggered_by, created_at };
}
