import { randomUUID } from "node:crypto";
import type { SourceKind } from "../contract/deployment.ts";
import type { RevisionTrigger } from "../contract/revision.ts";
import { databaseTimeoutMs, resolveTimeoutMs } from "../domain/limits.ts";
import { servingUrl } from "../domain/serving-url.ts";
import type { CurrentDeployment, RevisionSettings, RuleContext } from "../domain/settings.ts";
import type { DeploymentRow } from "../store/deployments.ts";
import type { NewRevision, RevisionRow } from "../store/revisions.ts";
import type { Sealer } from "../store/seal.ts";
import { openSecrets } from "../store/secrets.ts";
import type { ApiSettings } from "./app.ts";

/** What the rules of `domain/` ask for, beside what depends on the request. */
export function ruleContext(
  settings: ApiSettings,
  found: Partial<Pick<RuleContext, "listeners" | "uploadedPaths" | "templateIds">>,
): RuleContext {
  const { mode, allowLocalSources, hasBuiltinDataPlane } = settings;
  return { mode, allowLocalSources, hasBuiltinDataPlane, listeners: [], uploadedPaths: [], templateIds: [], ...found };
}

/** A row as the rules see it. */
export function currentOf(
  row: DeploymentRow,
  facts: { latestRevisionSource: SourceKind | null; sealer: Sealer; deploymentsUrl: string },
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
    url: servingUrl(row, facts.deploymentsUrl),
  };
}

/** The row of a revision that runs these settings; with `again` it runs that revision's artifact, if there still is one. */
export function newRevision(
  settings: RevisionSettings,
  made: { secretSetId: string | null; awaitsDatabase: boolean; again?: RevisionRow; trigger?: RevisionTrigger },
): NewRevision {
  const { again } = made;
  const patienceMs = resolveTimeoutMs + (made.awaitsDatabase ? databaseTimeoutMs : 0);
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
    triggered_by: made.trigger ?? (again === undefined ? "api" : "redeploy"),
    tracked_packages: settings.sourceRevisionConfig.tracked_packages,
    deadline_at: new Date(Date.now() + patienceMs),
  };
}
