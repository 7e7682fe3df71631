import { randomUUID } from "node:crypto";
import type { SourceKind } from "../../contract/deployments/deployment.ts";
import type { RevisionReason, RevisionTrigger } from "../../contract/revisions/revision.ts";
import { databaseTimeoutMs, resolveTimeoutMs } from "../../domain/limits.ts";
import type { CurrentDeployment, RevisionSettings } from "../../domain/settings.ts";
import { activeSpan } from "../../telemetry/traces.ts";
import type { NewRevision, RevisionRow } from "../revisions/revisions.ts";
import type { Sealer } from "../secrets/seal.ts";
import { openSecrets } from "../secrets/secrets.ts";
import type { DeploymentRow } from "./deployments.ts";

/** Converts a row to the form that the domain rules use. */
export function currentOf(
  row: DeploymentRow,
  facts: { latestRevisionSource: SourceKind | null; sealer: Sealer; url: string | null },
): CurrentDeployment {
  return {
    id: row.id,
    name: row.name,
    status: row.status,
    source: row.source,
    sourceConfig: row.source_config,
    sourceRevisionConfig: row.source_revision_config,
    trackedRef: row.tracked_ref,
    secretNames: Object.keys(openSecrets(facts.sealer, row, row)),
    secretReferences: row.secret_references,
    tiers: { deployment: row.deployment_tier, compute: row.compute_tier, database: row.database_tier },
    latestRevisionSource: facts.latestRevisionSource,
    url: facts.url,
  };
}

/** Who or what makes a revision, and why. */
export interface RevisionOrigin {
  reason: RevisionReason;
  /** Actor of the audit log. */
  actor: string;
}

/** The contract's words for the reasons that it knows; the others are `redeploy` with an earlier revision, else `api`. */
const triggers: Partial<Record<RevisionReason, RevisionTrigger>> = {
  push: "push",
  pull_request: "pull_request",
  size: "tier",
  system: "system",
};

/** Returns the row of a revision that runs these settings. With `again` it runs that revision's artifact, if it still exists. */
export function newRevision(
  settings: RevisionSettings,
  made: {
    now: Date;
    secretSetId: string | null;
    awaitsDatabase: boolean;
    again?: RevisionRow;
    origin: RevisionOrigin;
  },
): NewRevision {
  const { again, origin } = made;
  const timeoutMs = resolveTimeoutMs + (made.awaitsDatabase ? databaseTimeoutMs : 0);
  return {
    id: randomUUID(),
    source: settings.source,
    source_config: settings.sourceConfig,
    source_revision_config: settings.sourceRevisionConfig,
    secret_set_id: made.secretSetId,
    secret_references: settings.secretReferences,
    artifact_id: again?.artifact_id ?? null,
    artifact_key: again?.artifact_key ?? null,
    redeploy_of: again?.id ?? null,
    sizes: settings.sizes,
    triggered_by: triggers[origin.reason] ?? (again === undefined ? "api" : "redeploy"),
    tracked_packages: settings.sourceRevisionConfig.tracked_packages,
    deadline_at: new Date(made.now.getTime() + timeoutMs),
    traceparent: activeSpan()?.traceparent ?? null,
    reason: origin.reason,
    made_by: origin.actor,
    commit_message: again?.commit_message ?? null,
    commit_author: again?.commit_author ?? null,
  };
}
