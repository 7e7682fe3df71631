import { setImmediate as othersWorked } from "node:timers/promises";
import { backoffMs } from "../../base/backoff.ts";
import { ApiError } from "../../contract/error.ts";
import { comparePaths } from "../../domain/path-filter.ts";
import { repositoryKey } from "../../domain/repository-key.ts";
import { resolveRef } from "../../integrations/git.ts";
import { GitFailure } from "../../integrations/git-failure.ts";
import { changedPaths } from "../../integrations/git-tree.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import { type BranchWatch, findWatch, recordBranchPoll } from "../../store/code-hosts/branch-watches.ts";
import { findGitSettings } from "../../store/code-hosts/git-settings.ts";
import { findCommitOf, hasCommitSince } from "../../store/code-hosts/pushes.ts";
import { type DeploymentRow, findDeployment } from "../../store/deployments/deployments.ts";
import type { DeploymentState } from "../plan/state.ts";
import { done, type Performed } from "../steps/performed.ts";
import type { CodeHostDeps } from "./code-host-deps.ts";
import { openRemote, type Remote } from "./git-remote.ts";
import { createPushRevisions } from "./push-revisions.ts";
import { syncPreviews } from "./sync-previews.ts";

const gitTimeoutMs = 20_000;

/** First retry delay after a host could not be reached. It doubles with each failure. */
const retryMinMs = 15_000;

/**
 * Compares the branch that a deployment follows with its last known commit, creates a revision when it has moved, and
 * brings the previews in line with the open pull requests. A webhook only makes this step due; so does the poll interval.
 */
export async function inspectBranch(
  deps: CodeHostDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Performed> {
  const row = await findDeployment(deps.db, state.tenantId, state.id);
  const followed = row && followedBy(row);
  if (row === undefined || followed === undefined) return done;
  const known = await findWatch(deps.db, state.id);
  const { repoKey, ref } = followed;
  // A new repository or branch is followed from its current commit: a change of settings is no push (contract 4.4).
  const watch = known?.repo_key === repoKey && known.ref === ref ? known : undefined;
  const base = {
    deploymentId: state.id,
    tenantId: state.tenantId,
    repoKey,
    ref,
    messageCount: known?.message_count ?? 0,
  };
  let lastSeen = watch?.commit_sha ?? null;
  let isPolled = false;
  try {
    const { commitSha, commits } = await findPushes(deps, row, { followed, watch }, signal);
    const poll = { ...base, commitSha, handled: known?.pushed ?? [], nextInMs: nextPollMs(deps), error: null };
    await createPushRevisions(deps, row, commits, poll);
    [lastSeen, isPolled] = [commitSha, true];
    // After the push, so that a host whose API is away delays no push. A failure is recorded over the poll.
    await syncPreviews(deps, row, signal);
  } catch (error) {
    if (!isUserError(error)) throw error;
    const isGone = error instanceof GitFailure && error.reason === "RefNotFound";
    const nextInMs = isPolled ? nextPollMs(deps) : retryDelayMs(deps, known?.attempts ?? 0);
    const poll = { ...base, commitSha: isGone ? null : lastSeen, handled: [], nextInMs, error: error.message };
    await recordBranchPoll(deps.db, poll);
  }
  return done;
}

/** Returns the head of the branch and the commits that need revisions, oldest first. @throws GitFailure, NoFreeSlot */
async function findPushes(
  deps: CodeHostDeps,
  row: DeploymentRow,
  { followed, watch }: { followed: Followed; watch: BranchWatch | undefined },
  signal: AbortSignal,
): Promise<{ commitSha: string; commits: string[] }> {
  const head = await readHead(deps, row, followed, signal);
  const { commitSha } = head;
  const seen = watch === undefined ? await firstSeen(deps, row, followed.ref, commitSha) : watch.commit_sha;
  const isNew = await shouldBuild(deps, row, { ...head, seen, watch }, signal);
  return { commitSha, commits: isNew ? [...olderPushes(watch, commitSha), commitSha] : [] };
}

/** Returns whether the user can fix the error, so that it is shown instead of failing the pass. */
const isUserError = (error: unknown): error is Error =>
  error instanceof GitFailure || error instanceof ApiError || error instanceof HostFailure;

interface Followed {
  repoUrl: string;
  repoKey: string;
  ref: string;
}

function followedBy({ source_config: { repo_url: repoUrl }, tracked_ref: ref }: DeploymentRow): Followed | undefined {
  const repoKey = repoUrl === null ? null : repositoryKey(repoUrl);
  return repoUrl === null || repoKey === null || ref === null ? undefined : { repoUrl, repoKey, ref };
}

/** @throws GitFailure, NoFreeSlot */
function readHead(
  deps: CodeHostDeps,
  row: DeploymentRow,
  { repoUrl, ref }: Followed,
  signal: AbortSignal,
): Promise<{ remote: Remote; commitSha: string }> {
  return deps.outward.hold(async () => {
    const repository = { tenantId: row.tenant_id, integrationId: row.source_config.integration_id, repoUrl };
    const remote = await openRemote(deps, repository, signal);
    const { commitSha } = await resolveRef({ ...remote, ref, signal, timeoutMs: gitTimeoutMs });
    return { remote, commitSha };
  }, row.tenant_id);
}

/**
 * Returns the commit of the branch before the first poll: the one that the first revision resolved. A revision older than
 * ten minutes says nothing about a branch that is followed from now on.
 */
async function firstSeen({ db }: CodeHostDeps, row: DeploymentRow, ref: string, head: string): Promise<string> {
  return (await findCommitOf(db, { deploymentId: row.id, ref, youngerThanMs: youngMs })) ?? head;
}

const youngMs = 600_000;

interface Found {
  remote: Remote;
  commitSha: string;
  /** null: the branch did not exist. */
  seen: string | null;
  watch: BranchWatch | undefined;
}

/** Returns whether the branch moved to a commit that has no revision yet, with changes in files that count. */
async function shouldBuild(
  { db, outward }: CodeHostDeps,
  row: DeploymentRow,
  { remote, commitSha, seen, watch }: Found,
  signal: AbortSignal,
): Promise<boolean> {
  if (row.source_config.build_on_push !== true) return false;
  // The creation of a branch is no push (contract 10.1).
  if (seen === null || seen === commitSha) return false;
  if (watch !== undefined && (await hasCommitSince(db, { deploymentId: row.id, commitSha, since: watch.polled_at })))
    return false;
  const settings = await findGitSettings(db, row.id);
  const filter = { include: settings?.include_paths ?? null, exclude: settings?.exclude_paths ?? null };
  if (filter.include === null && filter.exclude === null) return true;
  const range = { ...remote, from: seen, to: commitSha, signal, timeoutMs: gitTimeoutMs };
  const steps = comparePaths(await outward.hold(() => changedPaths(range), row.tenant_id), filter);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
    await othersWorked();
  }
}

/** Returns commits that were pushed before the head. They get revisions too, which the newest one supersedes. */
const olderPushes = (watch: BranchWatch | undefined, head: string): string[] =>
  (watch?.pushed ?? []).filter((commit) => commit !== head && commit !== watch?.commit_sha);

/** Returns the delay after `attempts` failures in a row, at most the poll interval. */
function retryDelayMs({ settings }: CodeHostDeps, attempts: number): number {
  return backoffMs(attempts + 1, { firstMs: retryMinMs, maxMs: settings.branchPollMs });
}

/** Adds up to a fifth, so that deployments that were created together do not poll their host together. */
const nextPollMs = ({ settings }: CodeHostDeps) => settings.branchPollMs * (1 + Math.random() / 5);
