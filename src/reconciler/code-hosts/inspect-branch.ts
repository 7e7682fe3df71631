import { ApiError } from "../../contract/error.ts";
import { isRelevantChange } from "../../domain/path-filter.ts";
import { repositoryKey } from "../../domain/repository-key.ts";
import { resolveRef } from "../../integrations/git.ts";
import { GitFailure } from "../../integrations/git-failure.ts";
import { changedPaths } from "../../integrations/git-tree.ts";
import { HostFailure } from "../../integrations/host-failure.ts";
import { type BranchWatch, findWatch, recordBranchPoll } from "../../store/code-hosts/branch-watches.ts";
import { findGitSettings } from "../../store/code-hosts/git-settings.ts";
import { findCommitOf, hasCommitSince } from "../../store/code-hosts/pushes.ts";
import { type DeploymentRow, findDeployment } from "../../store/deployments/deployments.ts";
import type { ReconcilerDeps } from "../deps.ts";
import type { DeploymentState } from "../plan/state.ts";
import type { Performed } from "../steps/perform.ts";
import { type Remote, remoteOf } from "./git-remote.ts";
import { makePushRevisions } from "./push-revisions.ts";
import { lookAtPulls } from "./sync-previews.ts";

const done: Performed = { kind: "done" };
const gitTimeoutMs = 20_000;

/** A host that was away is asked again after this long, doubled with each time. */
const retryMinMs = 15_000;

/**
 * Compares the branch a deployment follows with what was last seen of it, and makes a revision of its head when that has
 * moved. Nobody says that it moved: a message of the host makes the look due, and so does the time when none came.
 */
export async function lookAtBranch(
  deps: ReconcilerDeps,
  state: DeploymentState,
  signal: AbortSignal,
): Promise<Performed> {
  const row = await findDeployment(deps.db, state.tenantId, state.id);
  const followed = row && followedBy(row);
  if (row === undefined || followed === undefined) return done;
  const known = await findWatch(deps.db, state.id);
  const { repoKey, ref } = followed;
  // Another repository or branch is followed from where it stands: a change of settings is no push (contract 4.4).
  const watch = known?.repo_key === repoKey && known.ref === ref ? known : undefined;
  const base = { deploymentId: state.id, tenantId: state.tenantId, repoKey, ref, told: known?.told ?? 0 };
  let lastSeen = watch?.commit_sha ?? null;
  let isLooked = false;
  try {
    const { commitSha, commits } = await findPushes(deps, row, { followed, watch }, signal);
    const look = { ...base, commitSha, handled: known?.pushed ?? [], nextInMs: nextIn(deps), error: null };
    await makePushRevisions(deps, row, commits, look);
    [lastSeen, isLooked] = [commitSha, true];
    // Afterwards, and written down again if it fails: a host's API that is away holds up no push.
    await lookAtPulls(deps, row, signal);
  } catch (error) {
    if (!isTold(error)) throw error;
    const isGone = error instanceof GitFailure && error.reason === "RefNotFound";
    const nextInMs = isLooked ? nextIn(deps) : retryIn(deps, known?.attempts ?? 0);
    const look = { ...base, commitSha: isGone ? null : lastSeen, handled: [], nextInMs, error: error.message };
    await recordBranchPoll(deps.db, look);
  }
  return done;
}

/** Where the branch stands, and the commits that are to have revisions, oldest first. @throws GitFailure, NoPlace */
async function findPushes(
  deps: ReconcilerDeps,
  row: DeploymentRow,
  { followed, watch }: { followed: Followed; watch: BranchWatch | undefined },
  signal: AbortSignal,
): Promise<{ commitSha: string; commits: string[] }> {
  const head = await readHead(deps, row, followed, signal);
  const { commitSha } = head;
  const seen = watch === undefined ? await firstSeen(deps, row, followed.ref, commitSha) : watch.commit_sha;
  const isNew = await isToBuild(deps, row, { ...head, seen, watch }, signal);
  return { commitSha, commits: isNew ? [...olderPushes(watch, commitSha), commitSha] : [] };
}

/** What a user can do something about; everything else is a fault. */
const isTold = (error: unknown): error is Error =>
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

/** @throws GitFailure, NoPlace */
function readHead(
  deps: ReconcilerDeps,
  row: DeploymentRow,
  { repoUrl, ref }: Followed,
  signal: AbortSignal,
): Promise<{ remote: Remote; commitSha: string }> {
  return deps.outward.hold(async () => {
    const asked = { tenantId: row.tenant_id, integrationId: row.source_config.integration_id, repoUrl };
    const remote = await remoteOf(deps, asked, signal);
    const { commitSha } = await resolveRef({ ...remote, ref, signal, timeoutMs: gitTimeoutMs });
    return { remote, commitSha };
  });
}

/**
 * Where the branch stood before the first look: where the first revision found it. One that was made long ago says
 * nothing about a branch that is followed from now on.
 */
async function firstSeen({ db }: ReconcilerDeps, row: DeploymentRow, ref: string, head: string): Promise<string> {
  return (await findCommitOf(db, { deploymentId: row.id, ref, youngerThanMs: youngMs })) ?? head;
}

const youngMs = 600_000;

interface Found {
  remote: Remote;
  commitSha: string;
  /** null: there was no such branch. */
  seen: string | null;
  watch: BranchWatch | undefined;
}

/** Has the branch moved, to something that was not deployed otherwise, and in files that count? */
async function isToBuild(
  { db, outward }: ReconcilerDeps,
  row: DeploymentRow,
  { remote, commitSha, seen, watch }: Found,
  signal: AbortSignal,
): Promise<boolean> {
  if (row.source_config.build_on_push !== true) return false;
  // A branch that comes into being is no push (contract 10.1).
  if (seen === null || seen === commitSha) return false;
  if (watch !== undefined && (await hasCommitSince(db, { deploymentId: row.id, commitSha, since: watch.looked_at })))
    return false;
  const settings = await findGitSettings(db, row.id);
  const filter = { include: settings?.include_paths ?? null, exclude: settings?.exclude_paths ?? null };
  if (filter.include === null && filter.exclude === null) return true;
  const asked = { ...remote, from: seen, to: commitSha, signal, timeoutMs: gitTimeoutMs };
  return isRelevantChange(await outward.hold(() => changedPaths(asked)), filter);
}

/** Commits that were pushed on the way: they get revisions that the newest one supersedes, so that none is missed. */
const olderPushes = (watch: BranchWatch | undefined, head: string): string[] =>
  (watch?.pushed ?? []).filter((commit) => commit !== head && commit !== watch?.commit_sha);

/** Longer with each time that the host was away. */
function retryIn({ settings }: ReconcilerDeps, attempts: number): number {
  return Math.min(retryMinMs * 2 ** Math.min(attempts, 10), settings.branchPollMs);
}

/** Spread over a fifth, so that those who began together do not ask their host together. */
const nextIn = ({ settings }: ReconcilerDeps) => settings.branchPollMs * (1 + Math.random() / 5);
