import type { RevisionReason } from "../../contract/revisions/revision.ts";
import { isBeingDeleted } from "../../domain/deployment-status.ts";
import { applyPush } from "../../domain/patch.ts";
import type { RuleContext } from "../../domain/settings.ts";
import { type BranchPoll, recordBranchPoll } from "../../store/code-hosts/branch-watches.ts";
import { beginReport } from "../../store/code-hosts/commit-reports.ts";
import { currentOf, newRevision } from "../../store/deployments/deployment-settings.ts";
import { changeDeployment, type DeploymentRow, lockDeployment } from "../../store/deployments/deployments.ts";
import type { Trx } from "../../store/engine/database.ts";
import { openSecrets } from "../../store/secrets/secrets.ts";
import { pinVariables, recordVariables } from "../../store/variables/revision-variables.ts";
import { withTrace } from "../../telemetry/traces.ts";
import type { CodeHostDeps } from "./code-host-deps.ts";

/**
 * Creates a revision for each commit, oldest first, and records the poll that found them in the same transaction. No
 * revision is created twice when two servers poll at once or a server dies.
 */
export async function createPushRevisions(
  deps: CodeHostDeps,
  { id, tenant_id: tenantId }: DeploymentRow,
  commits: readonly string[],
  poll: BranchPoll,
): Promise<void> {
  const create = () =>
    deps.db.transaction(async (trx) => {
      const row = await lockDeployment(trx, tenantId, id);
      if (row === undefined || isBeingDeleted(row.status)) return;
      for (const commitSha of commits) await createCommitRevision(deps, trx, row, { commitSha, reason: "push" });
      await recordBranchPoll(trx, poll);
    });
  // A push requests its revisions as an API call does, so their trace begins here.
  const attributes = { deployment_id: id, workspace_id: tenantId };
  await (commits.length === 0 ? create() : withTrace(deps.traces, "reconcile.push", attributes, create));
  deps.db.reached(commits.length === 0 ? "branch polled" : "push revisions created");
  if (commits.length === 0) return;
  deps.db.changes.wake();
}

/** Creates a revision of one commit with the deployment's current settings, and returns its id. @throws ApiError */
export async function createCommitRevision(
  deps: CodeHostDeps,
  trx: Trx,
  row: DeploymentRow,
  commit: { commitSha: string; reason: Extract<RevisionReason, "push" | "pull_request">; ref?: string },
): Promise<string> {
  const { commitSha, reason } = commit;
  const current = currentOf(row, { latestRevisionSource: "github", sealer: deps.sealer, url: null });
  const followed = { ...current, trackedRef: commit.ref ?? current.trackedRef };
  const { revision: settings, sourceRevisionConfig } = applyPush(followed, ruleContextOf(deps));
  if (settings === null) throw new Error("a push must create a revision");
  const config = { ...settings.sourceRevisionConfig, repo_commit_sha: commitSha };
  const awaitsDatabase = row.status === "AWAITING_DATABASE";
  const own = { setId: row.secret_set_id, values: () => openSecrets(deps.sealer, row, row) };
  const variables = await pinVariables(trx, deps.sealer, row, own);
  const facts = { now: deps.db.now(), secretSetId: variables.setId, awaitsDatabase };
  const origin = { reason, actor: "system" };
  const revision = newRevision({ ...settings, sourceRevisionConfig: config }, { ...facts, origin });
  await changeDeployment(trx, row, {
    change: { source_revision_config: sourceRevisionConfig },
    secrets: null,
    revision,
    audit: {
      actor: "system",
      action: "revision.create",
      details: { revision_id: revision.id, triggered_by: reason, commit: commitSha },
    },
  });
  await recordVariables(trx, revision.id, variables);
  if (row.source_config.integration_id !== null) await beginReport(trx, { id: revision.id, deploymentId: row.id });
  return revision.id;
}

/** Returns the context of the settings rules for changes that no request makes. */
export function ruleContextOf({ settings }: CodeHostDeps): RuleContext {
  const { mode, allowLocalSources, computeType } = settings;
  const empty = { listeners: [], podRights: [], uploadedPaths: [], templateIds: [] };
  // Such changes choose no address.
  return { mode, ownHost: null, allowLocalSources, hasBuiltinDataPlane: computeType !== "none", ...empty };
}
