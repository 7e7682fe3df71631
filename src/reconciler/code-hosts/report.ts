import {
  type CommitState,
  isFinalReport,
  nextCommitState,
  previewCommentKey,
  previewStageOf,
} from "../../domain/commit-report.ts";
import { backOffMaxMs } from "../../domain/limits.ts";
import { servingUrl } from "../../domain/serving-url.ts";
import { type CommitStatus, putCheckRun, putCommitStatus } from "../../integrations/commit-status.ts";
import type { TokenPermissions } from "../../integrations/github-app.ts";
import { putComment, repositoryPath } from "../../integrations/github-pulls.ts";
import type { HostApi } from "../../integrations/host-call.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import { type CommitReport, failReport, openReports, settleReport } from "../../store/code-hosts/commit-reports.ts";
import { openIntegration } from "../../store/code-hosts/integrations.ts";
import {
  failComment,
  findPreviewComment,
  type PreviewComment,
  settleComment,
} from "../../store/code-hosts/previews.ts";
import { type DeploymentRow, findDeployment } from "../../store/deployments/deployments.ts";
import { readLogEntries } from "../../store/logs/log-entries.ts";
import { openSecrets } from "../../store/secrets/secrets.ts";
import { describeError } from "../../telemetry/log.ts";
import type { ReconcilerDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import type { Performed } from "../steps/perform.ts";
import { previewComment } from "./preview-comment.ts";

const done: Performed = { kind: "done" };

/** A host that is away is told again 10 s later, doubled with each time; after a day nobody wants to know. */
const retryMinMs = 10_000;
const attemptsMax = 12;

/** Tells the code host how revisions of its commits go, and where a preview answers. A host that is away delays nothing. */
export async function tellHost(deps: ReconcilerDeps, state: DeploymentState, signal: AbortSignal): Promise<Performed> {
  const row = await findDeployment(deps.db, state.tenantId, state.id);
  if (row === undefined) return done;
  for (const report of await openReports(deps.db, state.id)) await tellReport(deps, row, report, signal);
  const comment = row.is_preview ? await findPreviewComment(deps.db, state.id) : undefined;
  if (comment !== undefined) await tellComment(deps, row, comment, signal);
  return done;
}

async function tellReport(
  deps: ReconcilerDeps,
  row: DeploymentRow,
  report: CommitReport,
  signal: AbortSignal,
): Promise<void> {
  const { db, logger } = deps;
  const news = nextCommitState(report.status, report.reported);
  const isSettled = isFinalReport(report.status);
  if (news === null) {
    if (isSettled) await settleReport(db, report.revision_id, { state: null, externalId: null, isSettled });
    return;
  }
  try {
    const externalId = await deps.outward.hold(() => send(deps, row, { report, news }, signal));
    await settleReport(db, report.revision_id, { state: news, externalId, isSettled });
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error;
    logger.info({ deployment_id: row.id, error: describeError(error) }, "the code host was not told of a revision");
    await failReport(db, report.revision_id, { retryAt: retryAt(db.now(), error, report.attempts) });
  }
}

/** @returns the host's name for it, if it has one. @throws HostFailure */
async function send(
  deps: ReconcilerDeps,
  row: DeploymentRow,
  { report, news }: { report: CommitReport; news: CommitState },
  signal: AbortSignal,
): Promise<string | null> {
  const { integration_id: id, repo_url: repoUrl } = row.source_config;
  const open = id === null ? undefined : await openIntegration(deps.db, deps.sealer, { tenantId: row.tenant_id, id });
  if (open === undefined || repoUrl === null)
    throw new HostFailure("refused", "There is no integration to tell it with.");
  const { host, installation_id: installationId } = open.row;
  const status: CommitStatus = {
    ...{ repoUrl, commitSha: report.commit_sha, name: row.name, state: news },
    link: linkOf(deps, row),
    title: titles[news],
    text: await textOf(deps, row, report, news),
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

/** Page of the deployment in the console. */
const linkOf = ({ settings }: ReconcilerDeps, { id, tenant_id }: DeploymentRow) =>
  `${settings.controlPlaneUrl}/o/${tenant_id}/host/deployments/${id}`;

/** Lines of a log that a host is shown. */
const tailLines = 40;

/** What happened, with the end of the log that says why; the deployment's own secrets are left out of both. */
async function textOf(
  deps: ReconcilerDeps,
  row: DeploymentRow,
  report: CommitReport,
  news: CommitState,
): Promise<string> {
  const link = `[${row.name}](${linkOf(deps, row)})`;
  if (news !== "failure") return `${link}: ${titles[news]}.`;
  const kind = report.status === "DEPLOY_FAILED" ? "deploy" : "build";
  const all = { afterId: null, levelMin: null, query: null, startAt: null, endAt: null } as const;
  const place = {
    deploymentId: row.id,
    revisionId: report.revision_id,
    kind,
    order: "desc",
    limit: tailLines,
  } as const;
  const lines = (await readLogEntries(deps.db, { ...place, ...all })).map(({ message }) => message).reverse();
  const secrets = Object.values(openSecrets(deps.sealer, row, row)).filter((value) => value.length >= secretLengthMin);
  const said = [report.status_message ?? "", "", ...lines].join("\n").replaceAll("```", "'''");
  const text = secrets.reduce((masked, secret) => masked.replaceAll(secret, "***"), said);
  return `${link}: ${report.status}.\n\n\`\`\`\n${text}\n\`\`\``;
}

/** Shorter values are words that logs are full of, and no secrets. */
const secretLengthMin = 6;

async function tellComment(
  deps: ReconcilerDeps,
  row: DeploymentRow,
  comment: PreviewComment,
  signal: AbortSignal,
): Promise<void> {
  const { db, logger } = deps;
  const commented = previewCommentKey(comment.latestStatus, comment.headSha);
  if (commented === comment.commented) return;
  const text = previewComment({
    ...{ name: row.name, stage: previewStageOf(comment.latestStatus), headSha: comment.headSha },
    ...{ url: servingUrl(row, deps.settings.deploymentsUrl), link: linkOf(deps, row) },
  });
  try {
    const commentId = await deps.outward.hold(() => writeComment(deps, row, comment, text, signal));
    await settleComment(db, row.id, { commented, commentId });
  } catch (error) {
    if (!(error instanceof HostFailure)) throw error;
    logger.info({ deployment_id: row.id, error: describeError(error) }, "a pull request was not told of its preview");
    await failComment(db, row.id, { retryAt: retryAt(db.now(), error, comment.attempts), commented });
  }
}

/** @returns the comment's id; null: it was deleted by hand. @throws HostFailure */
export async function writeComment(
  deps: ReconcilerDeps,
  row: DeploymentRow,
  { number, commentId: id }: { number: number; commentId: number | null },
  text: string,
  signal: AbortSignal,
): Promise<number | null> {
  const { integration_id: integrationId, repo_url: repoUrl } = row.source_config;
  const of = { tenantId: row.tenant_id, id: integrationId ?? "" };
  const open = integrationId === null ? undefined : await openIntegration(deps.db, deps.sealer, of);
  const installationId = open?.row.installation_id ?? null;
  if (installationId === null || repoUrl === null) throw new HostFailure("refused", "Previews need the GitHub App.");
  const api = await appApi(deps, { installationId, repoUrl, permissions: { pull_requests: "write" } }, signal);
  return putComment(api, { repository: repositoryPath(repoUrl), number, id }, text, signal);
}

/** The App's API with a token for one repository and one purpose. @throws HostFailure */
export async function appApi(
  { github: apps }: ReconcilerDeps,
  asked: {
    installationId: number;
    repoUrl: string;
    permissions: TokenPermissions;
  },
  signal: AbortSignal,
): Promise<HostApi> {
  const github = await apps.current();
  if (github === null) throw new HostFailure("refused", "This server has no GitHub App any more.");
  const repository = decodeURIComponent(repositoryPath(asked.repoUrl).split("/").at(-1) ?? "");
  const token = await github.mintToken(asked.installationId, { repository, permissions: asked.permissions }, signal);
  return github.apiWith(token);
}

/** null: not again. */
function retryAt(now: Date, { reason, retryAfterMs }: HostFailure, attempts: number): Date | null {
  const isHopeless = reason === "refused" || reason === "missing" || attempts >= attemptsMax;
  return isHopeless
    ? null
    : new Date(now.getTime() + Math.max(retryAfterMs, Math.min(retryMinMs * 2 ** attempts, backOffMaxMs)));
}
