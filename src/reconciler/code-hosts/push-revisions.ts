import type { RevisionTrigger } from "../../contract/revisions/revision.ts";
import { isBeingDeleted } from "../../domain/deployment-status.ts";
import { applyPush } from "../../domain/patch.ts";
import type { RuleContext } from "../../domain/settings.ts";
import { type BranchPoll, recordBranchPoll } from "../../store/code-hosts/branch-watches.ts";
import { beginReport } from "../../store/code-hosts/commit-reports.ts";
import { currentOf, newRevision } from "../../store/deployments/deployment-settings.ts";
import { changeDeployment, type DeploymentRow, lockDeployment } from "../../store/deployments/deployments.ts";
import type { Trx } from "../../store/engine/database.ts";
import { withTrace } from "../../telemetry/traces.ts";
import type { ReconcilerDeps } from "../deps.ts";

/**
 * Makes a revision of each commit, oldest first, and writes down the look that found them, in one transaction: of two
 * servers that look, or one that dies, none makes a revision twice.
 */
export async function makePushRevisions(
  deps: ReconcilerDeps,
  { id, tenant_id: tenantId }: DeploymentRow,
  commits: readonly string[],
  look: BranchPoll,
): Promise<void> {
  const make = () =>
    deps.db.transaction(async (trx) => {
      const row = await lockDeployment(trx, tenantId, id);
      if (row === undefined || isBeingDeleted(row.status)) return;
      for (const commitSha of commits) await makeRevision(deps, trx, row, { commitSha, trigger: "push" });
      await recordBranchPoll(trx, look);
    });
  // A push asks for its revisions as a request does: their trace begins here.
  const attributes = { deployment_id: id, workspace_id: tenantId };
  await (commits.length === 0 ? make() : withTrace(deps.traces, "reconcile.push", attributes, make));
  deps.db.reached(commits.length === 0 ? "branch polled" : "push revisions created");
  if (commits.length === 0) return;
  deps.db.changes.wake();
}

/** A revision of one commit with the deployment's current settings. @returns its id. @throws ApiError */
export async function makeRevision(
  deps: ReconcilerDeps,
  trx: Trx,
  row: DeploymentRow,
  made: { commitSha: string; trigger: RevisionTrigger; ref?: string },
): Promise<string> {
  const { commitSha, trigger } = made;
  const current = currentOf(row, { latestRevisionSource: "github", sealer: deps.sealer, url: null });
  const followed = { ...current, trackedRef: made.ref ?? current.trackedRef };
  const { revision: settings, sourceRevisionConfig } = applyPush(followed, contextOf(deps));
  if (settings === null) throw new Error("a push makes a revision");
  const config = { ...settings.sourceRevisionConfig, repo_commit_sha: commitSha };
  const awaitsDatabase = row.status === "AWAITING_DATABASE";
  const facts = { now: deps.db.now(), secretSetId: row.secret_set_id, awaitsDatabase, trigger };
  const revision = newRevision({ ...settings, sourceRevisionConfig: config }, facts);
  await changeDeployment(trx, row, {
    change: { source_revision_config: sourceRevisionConfig },
    secrets: null,
    revision,
    audit: {
      actor: "system",
      action: "revision.create",
      details: { revision_id: revision.id, triggered_by: trigger, commit: commitSha },
    },
  });
  if (row.source_config.integration_id !== null) await beginReport(trx, { id: revision.id, deploymentId: row.id });
  return revision.id;
}

/** What the rules need to know where no request is. */
export function contextOf({ settings }: ReconcilerDeps): RuleContext {
  const { mode, allowLocalSources, computeType } = settings;
  const nothing = { listeners: [], uploadedPaths: [], templateIds: [] };
  return { mode, allowLocalSources, hasBuiltinDataPlane: computeType !== "none", ...nothing };
}
