import type { Principal } from "../../auth/principal.ts";
import type { RevisionPath } from "../../contract/revisions/revision.ts";
import type { RollbackPreview } from "../../contract/revisions/run-again.ts";
import { changesBetween, type SecretChanges, secretChangesBetween } from "../../domain/audit.ts";
import type { RevisionSettings } from "../../domain/settings.ts";
import { findArtifact } from "../../store/builds/artifacts.ts";
import { readListenerCapabilities } from "../../store/data-plane/listener-sessions.ts";
import { currentOf } from "../../store/deployments/deployment-settings.ts";
import { findRevision, type RevisionRow, type ShownRevisionRow } from "../../store/revisions/revisions.ts";
import { openSecrets } from "../../store/secrets/secrets.ts";
import { resolveVariables } from "../../store/variables/revision-variables.ts";
import { readDeployment } from "../deployments/deployment-routes.ts";
import { ruleContext } from "../deployments/rule-context.ts";
import type { ApiDeps } from "../deps.ts";
import { decideRollback, earlierOf, storedVariables } from "./decide-rollback.ts";
import { revisionOf } from "./present-revision.ts";

/**
 * Compares what serves with what a rollback would run. Variables appear by name only.
 *
 * @throws ApiError as the rollback itself would.
 */
export async function previewRollback(
  deps: ApiDeps,
  { principal, params, isCodeOnly }: { principal: Principal; params: RevisionPath; isCodeOnly: boolean },
): Promise<RollbackPreview> {
  const { db, sealer, settings } = deps;
  const row = await readDeployment(db, principal, params.deployment_id);
  const find = (revisionId: string) =>
    findRevision(db, principal.tenantId, { deploymentId: params.deployment_id, revisionId });
  const latest = row.latest_revision_id === null ? undefined : await find(row.latest_revision_id);
  const from = row.active_revision_id === null ? latest : await find(row.active_revision_id);
  const current = currentOf(row, { latestRevisionSource: latest?.source ?? null, sealer, url: null });
  const isExternal = row.source === "external_docker" || row.source_config.listener_id !== null;
  const podRights = isExternal ? await readListenerCapabilities(db, principal.tenantId, row.listener_id) : [];
  const context = ruleContext(settings, { podRights });
  const { changed, again, stored } = await decideRollback(deps, db, {
    principal,
    params,
    current,
    context,
    isCodeOnly,
  });
  const before = from === undefined ? {} : (await storedVariables(deps, db, from)).values;
  const own = openSecrets(sealer, row, row);
  const ownAfter = stored?.ownValues ?? own;
  const after = stored?.values ?? (await resolveVariables(db, sealer, row, own))?.values ?? own;
  const fields =
    from === undefined ? {} : changesBetween(shownSettings(earlierOf(from)), shownSettings(changed.revision));
  return {
    from: from === undefined ? null : revisionOf(from),
    to: revisionOf(again as ShownRevisionRow),
    code_only: isCodeOnly,
    needs_build: await needsBuild(deps, again),
    changes: Object.entries(fields).map(([field, change]) => ({ field, ...change })),
    variables: mergeChanges(secretChangesBetween(own, ownAfter), secretChangesBetween(before, after)),
  };
}

/**
 * Merges the changes of two sets of variables: those of the deployment and those of the revision that serves. They
 * differ after a failed revision, because the deployment keeps its variables, and the rollback replaces those too. For
 * a variable in both, the change of the deployment's counts.
 */
function mergeChanges(own: SecretChanges, serving: SecretChanges): SecretChanges {
  const known = new Set([...own.added, ...own.removed, ...own.changed]);
  const merged = (kind: keyof SecretChanges) =>
    [...own[kind], ...serving[kind].filter((name) => !known.has(name))].sort();
  return { added: merged("added"), removed: merged("removed"), changed: merged("changed") };
}

/** Returns the settings of a revision by the names that the API gives them. */
function shownSettings({ source, sourceConfig, sourceRevisionConfig, secretReferences, sizes }: RevisionSettings) {
  const { framework_config_path: _alias, ...config } = sourceRevisionConfig;
  return {
    source,
    source_config: sourceConfig,
    source_revision_config: config,
    secret_references: secretReferences,
    sizes,
  };
}

async function needsBuild({ db }: ApiDeps, { artifact_id: id, source_revision_config }: RevisionRow): Promise<boolean> {
  if (source_revision_config.image_uri !== null) return false;
  return id === null || (await findArtifact(db, id)) === undefined;
}
