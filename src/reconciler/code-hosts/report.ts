import { backoffMs } from "../../base/backoff.ts";
import {
  type CommitState,
  isFinalReport,
  nextCommitState,
  previewCommentKey,
  previewStageOf,
} from "../../domain/commit-report.ts";
import { withDeploymentName } from "../../domain/deployment-health.ts";
import { backOffMaxMs } from "../../domain/limits.ts";
import { maskValues } from "../../domain/mask-values.ts";
import { servingUrl } from "../../domain/serving-url.ts";
import { type CommitStatus, putCheckRun, putCommitStatus } from "../../integrations/commit-status.ts";
import type { TokenPermissions } from "../../integrations/github-app.ts";
import { putComment, repositoryPath } from "../../integrations/github-pulls.ts";
import type { HostApi } from "../../integrations/host-call.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import { type CommitReport, failReport, openReports, settleReport } from "../../store/code-hosts/commit-reports.ts";
import {
  failComment,
  findPreviewComment,
  type PreviewComment,
  settleComment,
} from "../../store/code-hosts/previews.ts";
import { findDeploymentDatabase } from "../../store/deployments/deployment-databases.ts";
import { type DeploymentRow, findDeployment } from "../../store/deployments/deployments.ts";
import { readLogEntries } from "../../store/logs/log-entries.ts";
import { openSecrets } from "../../store/secrets/secrets.ts";
import { describeError } from "../../telemetry/log.ts";
import type { DeploymentState } from "../plan/state.ts";
import { done, type Performed } from "../steps/performed.ts";
import type { CodeHostDeps } from "./code-host-deps.ts";
import { previewComment } from "./preview-comment.ts";

/** First retry delay for a host that is away. It doubles with each failure, up to 5 min; the last of 12 retries is 40 min later. */
const retryMinMs = 10_000;
const attemptsMax = 12;

/**
 * Reports the status of revisions to the code host of their commits, and the address of a preview to its pull request. A
 * host that is away delays nothing else.
 */
export async function reportToHost(
  deps: CodeHostDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Performed> {
  const row = await findDeployment(deps.db, state.tenantId, state.id);
  if (row === undefined) return done;
  for (const report of await openReports(deps.db, state.id)) await reportRevision(deps, row, report, signal);
  const comment = row.is_preview ? await findPreviewComment(deps.db, state.id) : undefined;
  if (comment !== undefined) await updateComment(deps, row, comment, signal);
  return done;
}

async function reportRevision(
  deps: CodeHostDeps,
  row: DeploymentRow,
  report: CommitReport,
  signal: AbortSignal,
): Promise<void> {
  const { db, logger } = deps;
  const newState = nextCommitState(report.status, report.reported);
  const isSettled = isFinalReport(report.status);
  if (newState === null) {
    if (isSettled) await settleReport(db, report.revision_id, { state: null, externalId: null, isSettled });
    return;
  }
  try {
    const externalId = await deps.outward.hold(() => send(deps, row, { report, newState }, signal), row.tenant_id);
    await settleReport(db, report.revision_id, { state: newState, externalId, isSettled });
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error;
    logger.info({ deployment_id: row.id, error: describeError(error) }, "reporting a revision to the code host failed");
    await failReport(db, report.revision_id, { retryAt: retryAt(db.now(), error, report.attempts) });
  }
}

/** @returns the host's id of the report; null when it has none. @throws HostFailure */
async function send(
  deps: CodeHostDeps,
  row: DeploymentRow,
  { report, newState }: { report: CommitReport; newState: CommitState },
  signal: AbortSignal,
): Promise<string | null> {
  const { integration_id: id, repo_url: repoUrl } = row.source_config;
  const open = id === null ? undefined : await deps.store.openIntegration({ tenantId: row.tenant_id, id });
  if (open === undefined || repoUrl === null)
    throw new HostFailure("refused", "The deployment has no integration to report with.");
  const { host, installation_id: installationId } = open.row;
  const status: CommitStatus = {
    repoUrl,
    commitSha: report.commit_sha,
    name: row.name,
    state: newState,
    link: linkOf(deps, row),
    title: titles[newState],
    text: await textOf(deps, row, report, newState),
  };
  if (installationId !== null) {
    const api = await appApi(deps, { installationId, repoUrl, permissions: { checks: "write" } }, signal);
    return putCheckRun(api, status, report.external_id, signal);
  }
  const { token } = open.secrets;
  if (token !== null && URL.canParse(repoUrl) && new URL(repoUrl).origin === new URL(open.row.url).origin) {
    const { allowPrivateNetwork } = deps.settings;
    await putCommitStatus({ host, token, allowPrivateNetwork }, status, signal);
  }
  return null;
}

const titles: Record<CommitState, string> = {
  in_progress: "Being built and deployed",
  success: "Deployed",
  failure: "Not deployed",
  cancelled: "Interrupted",
  skipped: "Superseded by a newer commit",
};

/** Returns the address of the deployment in the console. */
const linkOf = ({ settings }: CodeHostDeps, { id, tenant_id }: DeploymentRow) =>
  `${settings.controlPlaneUrl}/o/${tenant_id}/host/deployments/${id}`;

/** Log lines in a report. */
const tailLines = 40;

/** Code hosts refuse longer texts. */
const reportBytesMax = 64 * 1024;

/** Returns the text of a report: for a failure its cause and the end of the log, both without the deployment's secrets. */
async function textOf(
  deps: CodeHostDeps,
  row: DeploymentRow,
  report: CommitReport,
  newState: CommitState,
): Promise<string> {
  const link = `[${row.name}](${linkOf(deps, row)})`;
  if (newState !== "failure") return `${link}: ${titles[newState]}.`;
  const kind = report.status === "DEPLOY_FAILED" ? "deploy" : "build";
  const all = { afterId: null, levelMin: null, query: null, startAt: null, endAt: null } as const;
  const log = {
    deploymentId: row.id,
    revisionId: report.revision_id,
    kind,
    order: "desc",
    limit: tailLines,
  } as const;
  const { rows } = await readLogEntries(deps.db, { ...log, ...all }, reportBytesMax);
  const lines = rows.map(({ message }) => message).reverse();
  const text = [withDeploymentName(report.status_message, row.name) ?? "", "", ...lines].join("\n");
  const masked = maskValues(text, await secretsOf(deps, row, report)).replaceAll("```", "'''");
  return `${link}: ${report.status}.\n\n\`\`\`\n${masked}\n\`\`\``;
}

/** Returns what the revision ran with, also from variable groups and before a later change, and the deployment's own secrets as they are now. */
async function secretsOf(
  { db, sealer, store }: CodeHostDeps,
  row: DeploymentRow,
  { secret_set_id: setId }: CommitReport,
): Promise<string[]> {
  const pinned = setId === null ? {} : await store.readSecrets(row.id, setId);
  const database = await findDeploymentDatabase(db, sealer, { id: row.id, tenantId: row.tenant_id });
  const password = database === undefined ? [] : [database.password];
  return [...Object.values(openSecrets(sealer, row, row)), ...Object.values(pinned), ...password];
}

async function updateComment(
  deps: CodeHostDeps,
  row: DeploymentRow,
  comment: PreviewComment,
  signal: AbortSignal,
): Promise<void> {
  const { db, logger } = deps;
  const commented = previewCommentKey(comment.latestStatus, comment.headSha);
  if (commented === comment.commented) return;
  const text = previewComment({
    name: row.name,
    stage: previewStageOf(comment.latestStatus),
    headSha: comment.headSha,
    url: servingUrl(row, deps.settings.deploymentsUrl),
    link: linkOf(deps, row),
  });
  try {
    const commentId = await deps.outward.hold(() => writeComment(deps, row, comment, text, signal), row.tenant_id);
    await settleComment(db, row.id, { commented, commentId });
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error;
    logger.info(
      { deployment_id: row.id, error: describeError(error) },
      "updating the preview comment of a pull request failed",
    );
    await failComment(db, row.id, { retryAt: retryAt(db.now(), error, comment.attempts), commented });
  }
}

/** Writes the comment of a preview and returns its id; null when someone deleted it by hand. @throws HostFailure */
export async function writeComment(
  deps: CodeHostDeps,
  row: DeploymentRow,
  { number, commentId: id }: { number: number; commentId: number | null },
  text: string,
  signal: AbortSignal,
): Promise<number | null> {
  const { integration_id: integrationId, repo_url: repoUrl } = row.source_config;
  const integration = { tenantId: row.tenant_id, id: integrationId ?? "" };
  const open = integrationId === null ? undefined : await deps.store.openIntegration(integration);
  const installationId = open?.row.installation_id ?? null;
  if (installationId === null || repoUrl === null) throw new HostFailure("refused", "Previews need the GitHub App.");
  const api = await appApi(deps, { installationId, repoUrl, permissions: { pull_requests: "write" } }, signal);
  return putComment(api, { repository: repositoryPath(repoUrl), number, id }, text, signal);
}

/** Returns the App's API with a token for one repository and one set of permissions. @throws HostFailure */
export async function appApi(
  { github: apps }: CodeHostDeps,
  scope: {
    installationId: number;
    repoUrl: string;
    permissions: TokenPermissions;
  },
  signal: AbortSignal,
): Promise<HostApi> {
  const github = await apps.current();
  if (github === null) throw new HostFailure("refused", "This server no longer has a GitHub App.");
  const repository = decodeURIComponent(repositoryPath(scope.repoUrl).split("/").at(-1) ?? "");
  const token = await github.mintToken(scope.installationId, { repository, permissions: scope.permissions }, signal);
  return github.apiWith(token);
}

/** Returns when to retry; null: never, because a retry cannot help or too many failed. */
function retryAt(now: Date, { reason, retryAfterMs }: HostFailure, attempts: number): Date | null {
  const isFinal = reason === "refused" || reason === "missing" || attempts >= attemptsMax;
  return isFinal
    ? null
    : new Date(
        now.getTime() + Math.max(retryAfterMs, backoffMs(attempts + 1, { firstMs: retryMinMs, maxMs: backOffMaxMs })),
      );
}
