import { randomUUID } from "node:crypto";
import { ApiError } from "../../contract/error.ts";
import { isBeingDeleted } from "../../domain/deployment-status.ts";
import { deploymentNameLengthMax } from "../../domain/limits.ts";
import { slugOf } from "../../domain/names.ts";
import { applyPush } from "../../domain/patch.ts";
import { type OpenPull, type PreviewStep, planPreviews } from "../../domain/preview-plan.ts";
import { listOpenPulls, repositoryPath } from "../../integrations/github-pulls.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import { beginReport } from "../../store/code-hosts/commit-reports.ts";
import { findGitSettings } from "../../store/code-hosts/git-settings.ts";
import {
  dropPreview,
  findPreviewByName,
  findPreviewComment,
  listPreviews,
  recordPreview,
} from "../../store/code-hosts/previews.ts";
import { createDeployment } from "../../store/deployments/create-deployment.ts";
import { currentOf, newRevision } from "../../store/deployments/deployment-settings.ts";
import {
  type DeploymentRow,
  findDeployment,
  lockDeployment,
  requestDelete,
} from "../../store/deployments/deployments.ts";
import { enqueueAndWake } from "../../store/queue/enqueue.ts";
import { openSecrets, sealSecrets } from "../../store/secrets/secrets.ts";
import { copyGroups, sharedVariables } from "../../store/variables/revision-variables.ts";
import { describeError } from "../../telemetry/log.ts";
import { withTrace } from "../../telemetry/traces.ts";
import type { CodeHostDeps } from "./code-host-deps.ts";
import { previewComment } from "./preview-comment.ts";
import { createCommitRevision, ruleContextOf } from "./push-revisions.ts";
import { appApi, writeComment } from "./report.ts";

/**
 * Creates, updates and removes previews of a deployment until they match the open pull requests into its branch.
 * @throws HostFailure, ApiError when a change failed; the next poll retries it
 */
export async function syncPreviews(deps: CodeHostDeps, parent: DeploymentRow, signal: AbortSignal): Promise<void> {
  const { preview = null } = (await findGitSettings(deps.db, parent.id)) ?? {};
  const settings = preview?.enabled ? preview : null;
  const known = await listPreviews(deps.db, parent.id);
  if (settings === null && known.length === 0) return;
  const pulls =
    settings === null ? [] : await deps.outward.hold(() => openPulls(deps, parent, signal), parent.tenant_id);
  let problem: unknown;
  for (const step of planPreviews(pulls, known, settings, deps.db.now())) {
    try {
      await performPreviewStep(deps, parent, step, signal);
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // A quota, for example. The other previews need not wait for it.
      problem = error;
    }
  }
  if (problem !== undefined) throw problem;
}

async function openPulls(deps: CodeHostDeps, parent: DeploymentRow, signal: AbortSignal): Promise<OpenPull[]> {
  const { integration_id: id, repo_url: repoUrl } = parent.source_config;
  const open = id === null ? undefined : await deps.store.openIntegration({ tenantId: parent.tenant_id, id });
  const installationId = open?.row.installation_id ?? null;
  if (installationId === null || repoUrl === null) throw new HostFailure("refused", "Previews need the GitHub App.");
  const api = await appApi(deps, { installationId, repoUrl, permissions: { pull_requests: "read" } }, signal);
  return listOpenPulls(api, repositoryPath(repoUrl), parent.tracked_ref ?? "", signal);
}

async function performPreviewStep(
  deps: CodeHostDeps,
  parent: DeploymentRow,
  step: PreviewStep,
  signal: AbortSignal,
): Promise<void> {
  const ids = { deployment_id: parent.id, workspace_id: parent.tenant_id };
  switch (step.kind) {
    case "create":
      return withTrace(deps.traces, "reconcile.preview", ids, () => create(deps, parent, step.pull));
    case "update":
      return withTrace(deps.traces, "reconcile.preview", ids, () => update(deps, parent, step));
    case "remove":
      return remove(deps, parent, step, signal);
  }
}

/** Creates the preview: an ordinary deployment with the current settings and secrets of its parent. */
async function create(deps: CodeHostDeps, parent: DeploymentRow, pull: OpenPull): Promise<void> {
  const suffix = `-pr-${pull.number}`;
  const name = parent.name.slice(0, deploymentNameLengthMax - suffix.length) + suffix;
  const deploymentId =
    (await findPreviewByName(deps.db, parent.id, name)) ?? (await createChild(deps, parent, { name, pull }));
  if (deploymentId === undefined) return;
  const { number, headSha } = pull;
  await recordPreview(deps.db, { parentId: parent.id, number, tenantId: parent.tenant_id, deploymentId, headSha });
  // Earlier passes of the preview did not know its pull request, so they reported nothing.
  await enqueueAndWake(deps.db, deploymentId);
}

/** Creates a deployment and returns its id; undefined when the parent is being deleted by now. */
async function createChild(
  deps: CodeHostDeps,
  parent: DeploymentRow,
  { name, pull }: { name: string; pull: OpenPull },
): Promise<string | undefined> {
  const id = randomUUID();
  const owner = { id, tenant_id: parent.tenant_id };
  const current = currentOf(parent, { latestRevisionSource: "github", sealer: deps.sealer, url: null });
  const settings = applyPush({ ...current, trackedRef: pull.headRef }, ruleContextOf(deps)).revision;
  if (settings === null) throw new Error("a push must create a revision");
  const sourceConfig = { ...settings.sourceConfig, build_on_push: false };
  const sourceRevisionConfig = { ...settings.sourceRevisionConfig, repo_commit_sha: pull.headSha };
  const values = openSecrets(deps.sealer, parent, parent);
  const secrets = Object.keys(values).length === 0 ? null : sealSecrets(deps.sealer, values, owner);
  const shared = await sharedVariables(deps.db, deps.sealer, parent, { values, owner });
  const slug = slugOf(name, id);
  const revision = newRevision(
    { ...settings, sourceConfig, sourceRevisionConfig },
    {
      now: deps.db.now(),
      secretSetId: (shared?.set ?? secrets)?.id ?? null,
      awaitsDatabase: true,
      origin: { reason: "pull_request", actor: "system" },
    },
  );
  const deployment = {
    ...owner,
    name,
    slug,
    source: parent.source,
    listener_id: parent.listener_id,
    agents_url: parent.agents_url,
    source_config: sourceConfig,
    source_revision_config: { ...settings.sourceRevisionConfig, repo_commit_sha: null },
    tracked_ref: pull.headRef,
    secret_references: parent.secret_references,
    shareable: parent.shareable,
    route_through_gateway: parent.route_through_gateway,
    agent_id: null,
    agent_environment: null,
    secrets,
    revision,
    tracing: { otherName: slug, isWanted: deps.tracing !== null },
    actor: "system",
    parent_deployment_id: parent.id,
  };
  return deps.db.atomically(async () => {
    // The lock orders this with a delete of the parent: the delete comes first, or finds the preview when it ends.
    const locked = await deps.db.transaction((trx) => lockDeployment(trx, parent.tenant_id, parent.id));
    if (locked === undefined || isBeingDeleted(locked.status)) return undefined;
    await createDeployment(deps.db, deployment);
    if (shared !== null) {
      await copyGroups(deps.db, {
        parentId: parent.id,
        owner,
        revisionId: revision.id,
        ownSetId: secrets?.id ?? null,
        shared,
      });
    }
    await beginReport(deps.db, { id: revision.id, deploymentId: id });
    return id;
  });
}

async function update(
  deps: CodeHostDeps,
  parent: DeploymentRow,
  { pull, deploymentId }: { pull: OpenPull; deploymentId: string },
): Promise<void> {
  const { number, headSha, headRef } = pull;
  const { tenant_id: tenantId } = parent;
  await deps.db.transaction(async (trx) => {
    const row = await lockDeployment(trx, tenantId, deploymentId);
    if (row === undefined) return;
    await createCommitRevision(deps, trx, row, { commitSha: headSha, reason: "pull_request", ref: headRef });
    await recordPreview(trx, { parentId: parent.id, number, tenantId, deploymentId, headSha });
  });
  deps.db.changes.wake();
}

async function remove(
  deps: CodeHostDeps,
  parent: DeploymentRow,
  { number, deploymentId, isClosed }: { number: number; deploymentId: string | null; isClosed: boolean },
  signal: AbortSignal,
): Promise<void> {
  if (deploymentId !== null) {
    await reportDeleted(deps, parent, deploymentId, signal);
    const options = { deleteTracingProject: true, force: false, actor: "system" };
    await requestDelete(deps.db, parent.tenant_id, deploymentId, options);
  }
  await dropPreview(deps.db, { parentId: parent.id, number, isClosed });
}

/** Updates the comment to say that the preview was deleted. A host that is away does not keep a preview alive. */
async function reportDeleted(
  deps: CodeHostDeps,
  parent: DeploymentRow,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  const row = await findDeployment(deps.db, parent.tenant_id, id);
  const comment = await findPreviewComment(deps.db, id);
  if (row === undefined || comment === undefined || comment.commentId === null) return;
  const text = previewComment({ name: row.name, stage: "deleted", headSha: comment.headSha, url: "", link: "" });
  try {
    await deps.outward.hold(() => writeComment(deps, parent, comment, text, signal), parent.tenant_id);
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error;
    deps.logger.info(
      { deployment_id: id, error: describeError(error) },
      "updating the comment of a deleted preview failed",
    );
  }
}
