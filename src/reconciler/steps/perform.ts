import path from "node:path";
import { sql } from "kysely";
import type { BuildRequest } from "../../builds/build.ts";
import { workDirOf } from "../../builds/worker/start-build.ts";
import type { Artifact } from "../../contract/listeners/assignment.ts";
import { parseImageReference } from "../../domain/image-reference.ts";
import {
  awaitingBuildTimeoutMs,
  awaitingDeployTimeoutMs,
  buildDiskBytesMax,
  deadlineMarginMs,
  listenerPollMs,
} from "../../domain/limits.ts";
import { saveArtifact } from "../../store/builds/artifacts.ts";
import { deleteWatch } from "../../store/code-hosts/branch-watches.ts";
import { writeAssignment } from "../../store/data-plane/assignments.ts";
import {
  moveRevision,
  postponeDeadline,
  type RevisionMove,
  readRevision,
  skipRevisions,
} from "../../store/revisions/revisions.ts";
import { buildQuotaProblem } from "../../store/tenants/quotas.ts";
import { lookAtBranch } from "../code-hosts/inspect-branch.ts";
import { tellHost } from "../code-hosts/report.ts";
import type { ReconcilerDeps } from "../deps.ts";
import { inStep, noteMove } from "../loop/pass-span.ts";
import { listenerIsAway, type Step } from "../plan/plan.ts";
import type { DeploymentState } from "../plan/state.ts";
import { NoPlace } from "../slots.ts";
import { type AssignmentWish, assignmentOf } from "./assignment.ts";
import { checkDatabase, provisionDatabase } from "./databases.ts";
import { finalizeDeployment, forgetDeployment } from "./delete-deployment.ts";
import { keepWaiting } from "./extend-deadlines.ts";
import { resolveRevision, resolveSource } from "./resolve.ts";
import { afterAssignment, afterMove } from "./state-after.ts";
import { createTracingProject, removeTracingProject } from "./tracing-projects.ts";

/**
 * What performing a step said: go on at once, or come back later because something else must move first. `state` is what
 * this step made of the state it was given, where that is known without reading it again.
 */
export type Performed =
  | { kind: "done"; state?: DeploymentState }
  | { kind: "later"; retryInMs: number; because: string };

const done: Performed = { kind: "done" };

type Action = Exclude<Step, { kind: "wait" | "none" }>;

/** Does one step. Every one may be repeated: a step that finds its work done changes nothing. */
export async function perform(
  deps: ReconcilerDeps,
  state: DeploymentState,
  step: Action,
  signal: AbortSignal,
): Promise<Performed> {
  try {
    return await inStep(deps.traces, state, step, () => performStep(deps, state, step, signal));
  } catch (error) {
    if (!(error instanceof NoPlace)) throw error;
    await keepWaiting(deps, state, error.retryInMs);
    return { kind: "later", retryInMs: error.retryInMs, because: "many calls to other servers are under way" };
  }
}

async function performStep(
  deps: ReconcilerDeps,
  state: DeploymentState,
  step: Action,
  signal: AbortSignal,
): Promise<Performed> {
  const { db } = deps;
  switch (step.kind) {
    case "provision":
      return provisionDatabase(deps, state, signal);
    case "resolve":
      return resolve(deps, state, step.revisionId, signal);
    case "move":
      return move(deps, state, step);
    case "skip":
      await skipRevisions(db, step.revisionIds, step.supersededBy);
      return done;
    case "build":
      return beginBuild(deps, state, step.revisionId, signal);
    case "giveTime":
      return giveTime(deps, step.revisionId);
    case "cancelBuild":
      await deps.builds.cancel(step.revisionId);
      return { kind: "later", retryInMs: 250, because: "the build is being killed" };
    case "acceptBuild":
      return acceptBuild(deps, state, step.revisionId);
    case "finalize":
      return finalizeDeployment(deps, state, signal);
    case "createTracingProject":
      return createTracingProject(deps, state, signal);
    case "removeTracingProject":
      return removeTracingProject(deps, state, signal);
    case "lookAtBranch":
      return lookAtBranch(deps, state, signal);
    case "tellHost":
      return tellHost(deps, state, signal);
    case "forgetBranch":
      await deleteWatch(db, state.id);
      return done;
    case "deleteRow":
      return forgetDeployment(deps, state, signal);
    default:
      return changeAssignment(deps, state, step);
  }
}

type Move = Omit<RevisionMove, "deadlineAt" | "byPass"> & { revisionId: string };

/** Moves a revision, with what its deadline is then. Lost to somebody faster: everything is read again. */
async function move(deps: ReconcilerDeps, state: DeploymentState, { revisionId, ...step }: Move): Promise<Performed> {
  const deadlineAt = deadlineOf(deps, step.to);
  const at = { id: revisionId, deploymentId: state.id };
  const isMoved = await moveRevision(deps.db, at, { ...step, deadlineAt, byPass: true });
  if (!isMoved) return done;
  noteMove(step);
  const { artifact_id: artifactId } = step.set ?? {};
  const known = artifactId === undefined ? {} : { hasArtifact: artifactId !== null };
  return { kind: "done", state: afterMove(state, revisionId, { status: step.to, deadlineAt, ...known }) };
}

/** From when its listener acts again a rollout may take what it always may, or nearly. */
async function giveTime(deps: ReconcilerDeps, revisionId: string): Promise<Performed> {
  const until = deadlineOf(deps, "DEPLOYING") as Date;
  await postponeDeadline(deps.db, { id: revisionId, status: "DEPLOYING" }, until);
  return { kind: "later", retryInMs: listenerPollMs, because: listenerIsAway };
}

type AssigningStep = Extract<
  Step,
  { kind: "rollOut" | "finishRollout" | "failRollout" | "settleAssignment" | "assignDelete" }
>;

/** Status of the revision and assignment of the listener move together, or not at all. */
async function changeAssignment(deps: ReconcilerDeps, state: DeploymentState, step: AssigningStep): Promise<Performed> {
  const performed = await assigning(deps, state, step);
  deps.db.reached(reachedBy[step.kind]);
  deps.db.changes.wake();
  return performed;
}

const reachedBy = {
  rollOut: "rollout assigned",
  finishRollout: "rollout finished",
  failRollout: "rollout failed",
  settleAssignment: "assignment settled",
  assignDelete: "delete assigned",
} as const;

async function assigning(deps: ReconcilerDeps, state: DeploymentState, step: AssigningStep): Promise<Performed> {
  if (step.kind === "finishRollout") return finishRollout(deps, state, step.revisionId);
  const { activeRevisionId } = state;
  const wish = wishOf(step, activeRevisionId);
  const assignment = await assignmentOf(deps, { deploymentId: state.id, ...wish });
  if (assignment === undefined) return done;
  if (step.kind === "failRollout") {
    const { revisionId, message } = step;
    const failed = { from: "DEPLOYING", to: "DEPLOY_FAILED", because: "the rollout failed", message } as const;
    return afterAssignment(await move(deps, state, { revisionId, ...failed, assignment }), wish);
  }
  const found = state.unsettled.find(({ id }) => step.kind === "rollOut" && id === step.revisionId);
  if (found?.status === "AWAITING_DEPLOY") {
    const begun = { from: "AWAITING_DEPLOY", to: "DEPLOYING", because: "handed to the listener" } as const;
    return afterAssignment(await move(deps, state, { revisionId: found.id, ...begun, assignment }), wish);
  }
  if (!(await writeAssignment(deps.db, { ...assignment, seen: state.assignment?.generation ?? 0 }))) return done;
  return afterAssignment({ kind: "done", state }, wish);
}

function wishOf(
  step: Exclude<AssigningStep, { kind: "finishRollout" }>,
  activeRevisionId: string | null,
): Omit<AssignmentWish, "deploymentId"> {
  switch (step.kind) {
    case "rollOut":
      return { op: "apply", targetRevisionId: step.revisionId, servingRevisionId: step.servingRevisionId };
    case "failRollout":
      return { op: "apply", targetRevisionId: activeRevisionId, servingRevisionId: activeRevisionId };
    case "settleAssignment":
      return { op: "apply", targetRevisionId: step.revisionId, servingRevisionId: step.revisionId };
    case "assignDelete":
      return { op: "delete", targetRevisionId: null, servingRevisionId: null };
  }
}

/** DEPLOYED and active in one statement, and what was the target is what serves. */
async function finishRollout(deps: ReconcilerDeps, state: DeploymentState, revisionId: string): Promise<Performed> {
  const performed = await move(deps, state, {
    revisionId,
    from: "DEPLOYING",
    to: "DEPLOYED",
    because: "healthy, and traffic has moved",
    set: { image_version: state.observation?.report.server_version ?? null },
    assignment: "proven",
  });
  const wish = { op: "apply", targetRevisionId: revisionId, servingRevisionId: revisionId } as const;
  const after = afterAssignment(performed, wish);
  return "state" in after && after.state
    ? { ...after, state: { ...after.state, activeRevisionId: revisionId } }
    : after;
}

async function resolve(
  deps: ReconcilerDeps,
  state: DeploymentState,
  revisionId: string,
  signal: AbortSignal,
): Promise<Performed> {
  const revision = await readRevision(deps.db, revisionId);
  if (revision === undefined) return done;
  const refused = await checkDatabase(deps, revision, signal);
  if (refused !== null) {
    const { message, retryInMs } = refused;
    if (retryInMs !== null) return { kind: "later", retryInMs, because: message };
    const because = "the database cannot be used";
    return move(deps, state, { revisionId, from: "CREATING", to: "CREATE_FAILED", because, message });
  }
  const found = await resolveRevision(deps, revision, signal);
  if (!found.ok) {
    const { message } = found;
    const because = "the source cannot be used";
    return move(deps, state, { revisionId, from: "CREATING", to: "CREATE_FAILED", because, message });
  }
  const config = revision.source_revision_config;
  return move(deps, state, {
    revisionId,
    from: "CREATING",
    to: "QUEUED",
    because: "the source is resolved",
    set: {
      artifact_id: found.artifactId,
      artifact_key: found.artifactKey,
      // Until its server says one, which not every server does, and none in a cluster (contract 13.27).
      image_version: config.image_uri === null ? null : (parseImageReference(config.image_uri)?.tag ?? null),
      ...(found.commitSha === null ? {} : { source_revision_config: { ...config, repo_commit_sha: found.commitSha } }),
    },
  });
}

async function beginBuild(
  deps: ReconcilerDeps,
  state: DeploymentState,
  revisionId: string,
  signal: AbortSignal,
): Promise<Performed> {
  const { builds, settings } = deps;
  if (builds.isRunning(revisionId)) return { kind: "later", retryInMs: 500, because: "the build is starting" };
  if (!builds.hasFreeSlot) {
    const retryInMs = builds.stagger.nextInMs();
    await keepWaiting(deps, state, retryInMs);
    return { kind: "later", retryInMs, because: "all build slots are taken" };
  }
  const revision = await readRevision(deps.db, revisionId);
  if (revision === undefined) return done;
  const fail = (because: string, message: string) =>
    move(deps, state, { revisionId, from: revision.status, to: "BUILD_FAILED", because, message });
  // A build that had begun on a server that died may end.
  const refusal = revision.status === "AWAITING_BUILD" ? await buildQuotaProblem(deps.db, state.tenantId) : null;
  if (refusal !== null) return fail("no build minutes are left", refusal);
  const source = await resolveSource(deps, revision, { isFetched: true }, signal);
  if (!source.ok) return fail("the source is gone", source.message);
  const request: BuildRequest = {
    buildId: revisionId,
    source: source.source,
    target: settings.buildTarget,
    configPath: revision.source_revision_config.langgraph_config_path,
    installCommand: revision.source_config.install_command,
    buildCommand: revision.source_config.build_command,
    artifactsDir: path.join(settings.dataDir, "artifacts"),
    key: revision.artifact_key ?? revisionId,
    workDir: workDirOf(path.join(settings.dataDir, "builds"), revisionId),
    cacheDir: settings.cacheDir,
    timeoutMs: settings.buildTimeoutMs,
    diskBytesMax: buildDiskBytesMax,
  };
  const deadlineAt = new Date(deps.db.now().getTime() + settings.buildTimeoutMs + deadlineMarginMs);
  const of = { id: revisionId, deploymentId: state.id, tenantId: state.tenantId };
  const isBegun = await builds.begin(of, request, deadlineAt);
  return isBegun ? done : { kind: "later", retryInMs: 500, because: "another server builds it" };
}

async function acceptBuild(deps: ReconcilerDeps, state: DeploymentState, revisionId: string): Promise<Performed> {
  const { rows } = await sql<{ artifact: Artifact; artifact_key: string }>`
    select b.result -> 'artifact' as artifact, r.artifact_key from builds b join revisions r on r.id = b.revision_id
     where b.revision_id = ${revisionId} and b.status = 'succeeded'`.execute(deps.db.kysely);
  const built = rows[0];
  if (built === undefined) return done;
  await deps.db.transaction(async (trx) => {
    const artifactId = await saveArtifact(trx, state.tenantId, built.artifact_key, built.artifact);
    await moveRevision(
      trx,
      { id: revisionId, deploymentId: state.id },
      {
        from: "BUILDING",
        to: "AWAITING_DEPLOY",
        because: "the artifact is ready",
        deadlineAt: deadlineOf(deps, "AWAITING_DEPLOY"),
        set: { artifact_id: artifactId },
        byPass: true,
      },
    );
  });
  deps.db.reached("artifact accepted");
  deps.db.changes.wakeWatchers();
  return done;
}

/** Every status that is waited in has a deadline; final ones and the queue, which others' ends free, have none. */
function deadlineOf(deps: ReconcilerDeps, status: string): Date | null {
  const limits: Record<string, number> = {
    AWAITING_BUILD: awaitingBuildTimeoutMs,
    AWAITING_DEPLOY: awaitingDeployTimeoutMs,
    DEPLOYING: deps.settings.deployTimeoutMs + deadlineMarginMs,
  };
  const limit = limits[status];
  return limit === undefined ? null : new Date(deps.db.now().getTime() + limit);
}
