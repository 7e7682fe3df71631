import { errors } from "../contract/error.ts";
import type { RevisionStatus } from "../contract/revisions/revision.ts";
import { isBeingDeleted } from "./deployment-status.ts";
import { settingsToKeep } from "./merge.ts";
import { isFinal } from "./revision-status.ts";
import type { ChangedDeployment, CurrentDeployment, RevisionSettings } from "./settings.ts";
import { sizesOf } from "./tiers.ts";

/** The revision that a redeploy names. */
export interface NamedRevision extends Pick<RevisionSettings, "source" | "sourceConfig" | "sourceRevisionConfig"> {
  id: string;
  status: RevisionStatus;
}

/**
 * Returns a new revision that runs an earlier one's code with today's secrets, resources and commands (contract 5.4). The
 * repository stays that of the named revision, because its commit is there if its artifact is gone.
 *
 * @throws ApiError 400 while the named revision is in progress or the deployment is being deleted.
 */
export function redeploySettings(
  named: NamedRevision,
  current: CurrentDeployment,
): ChangedDeployment & { revision: RevisionSettings } {
  if (isBeingDeleted(current.status)) throw errors.beingDeleted(current.id);
  if (!isFinal(named.status)) throw errors.revisionInProgress(named.id, named.status);
  const { source, sourceRevisionConfig } = named;
  const { sourceConfig, secretReferences, trackedRef, tiers } = current;
  return {
    sourceConfig,
    sourceRevisionConfig: settingsToKeep(current.source, current.sourceRevisionConfig, {
      source,
      config: sourceRevisionConfig,
    }),
    trackedRef,
    secretReferences,
    tiers,
    secrets: null,
    revision: {
      source,
      sourceConfig: { ...sourceConfig, repo_url: named.sourceConfig.repo_url },
      sourceRevisionConfig,
      secretReferences,
      sizes: sizesOf(sourceConfig.deployment_type, tiers),
    },
  };
}
