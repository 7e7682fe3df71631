import type { RevisionRun } from "../../src/contract/listeners/assignment.ts";
import { blankSourceConfig, blankSourceRevisionConfig } from "../../src/domain/settings.ts";
import type { RevisionRow } from "../../src/store/revisions/revisions.ts";
import type { RevisionRecord } from "./records.ts";

export const slugOf = (deploymentId: string) => `d-${deploymentId.slice(0, 8)}`;

/** The path of a revision's upload is its id. A missing revision has the settings of a new deployment. */
export function settingsOf(
  revision: RevisionRecord | undefined,
): Pick<RevisionRow, "source" | "source_config" | "source_revision_config"> {
  const { imageUri = null, minReplicas = 1, id = null } = revision ?? {};
  return {
    source: imageUri === null ? "internal_source" : "external_docker",
    source_config: { ...blankSourceConfig, resource_spec: { min_scale: minReplicas } },
    source_revision_config: {
      ...blankSourceRevisionConfig,
      image_uri: imageUri,
      source_tarball_path: imageUri === null ? id : null,
    },
  };
}

/** A server with exclusive state has one replica at most. */
export function replicasMinOf(run: RevisionRun | null): number | null {
  if (run === null) return null;
  return run.artifact.rollout === "handover" ? Math.min(1, run.min_replicas) : run.min_replicas;
}

/** Columns that only users read. */
export const noOrigin = { number: null, reason: null, made_by: null, commit_message: null, commit_author: null };
