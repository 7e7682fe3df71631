import path from "node:path";
import { sql } from "kysely";
import type { BuildRequest } from "../builds/build.ts";
import type { Artifact } from "../contract/assignment.ts";
import { awaitingBuildTimeoutMs, awaitingDeployTimeoutMs, buildDiskBytesMax, overrunMs } from "../domain/limits.ts";
import { saveArtifact } from "../store/artifacts.ts";
import type { Trx } from "../store/database.ts";
import { buildQuotaProblem } from "../store/quotas.ts";
import { moveRevision, type RevisionRow, revisionColumns, skipRevisions } from "../store/revisions.ts";
import { assign } from "./assign.ts";
import { checkDatabase, provisionDatabase } from "./databases.ts";
import type { ReconcilerDeps } from "./deps.ts";
import { finalizeDeployment, forgetDeployment } from "./finalize.ts";
import type { Step } from "./plan.ts";
import { resolveRevision, resolveSource } from "./resolve.ts";
import type { DeploymentState } from "./state.ts";
import { createTracingProject, removeTracingProject } from "./tracing.ts";

/** What performing a step said: go on at once, or come back later because something else must move first. */
export type Performed = { kind: "done" } | { kind: "later"; retryInMs: number; because: string };

const done: Performed = { kind: "done" };

/** Does one step. Every one may be repeated: a step that finds its work done changes nothing. */
export async function perform(
  deps: ReconcilerDeps,
  state: DeploymentState,
  step: Exclude<Step, { kind: "wait" | "none" }>,
  signal: AbortSignal,
): Promise<Performed> {
  const { db } = deps;
  switch (step.kind) {
    case "provision":
      return provisionDatabase(deps, state, signal);
    case "resolve":
      return resolve(deps, state, step.revisionId, signal);
    case "move":
      await moveRevision(
        db,
        { id: step.revisionId, deploymentId: state.id },
        { ...step, deadlineAt: deadlineOf(deps, step.to) },
      );
      return done;
    case "skip":
      await skipRevisions(db, step.revisionIds, step.supersededBy);
      return done;
    case "build":
      return beginBuild(deps, state, step.revisionId, signal);
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
    case "deleteRow":
      return forgetDeployment(deps, state);
    default:
      return changeAssignment(deps, state, step);
  }
}

type AssigningStep = Extract<
  Step,
  { kind: "rollOut" | "finishRollout" | "failRollout" | "settleAssignment" | "assignDelete" }
>;

/** Status of the revision and assignment of the listener move together, or not at all. */
async function changeAssignment(deps: ReconcilerDeps, state: DeploymentState, step: AssigningStep): Promise<Performed> {
  const { db, settings } = deps;
  const wish = { deploymentId: state.id, op: "apply" as const };
  await db.transaction(async (trx) => {
    switch (step.kind) {
      case "rollOut":
        if (await isBegun(trx, deps, state, step.revisionId)) {
          await assign(trx, settings, {
            ...wish,
            targetRevisionId: step.revisionId,
            servingRevisionId: step.servingRevisionId,
          });
        }
        return;
      case "finishRollout":
        if (await isActivated(trx, state, step.revisionId)) {
          await assign(trx, settings, {
            ...wish,
            targetRevisionId: step.revisionId,
            servingRevisionId: step.revisionId,
          });
        }
        return;
      case "failRollout": {
        const move = {
          from: "DEPLOYING",
          to: "DEPLOY_FAILED",
          because: "the rollout failed",
          message: step.message,
          deadlineAt: null,
        } as const;
        if (!(await moveRevision(trx, { id: step.revisionId, deploymentId: state.id }, move))) return;
        await assign(trx, settings, {
          ...wish,
          targetRevisionId: state.activeRevisionId,
          servingRevisionId: state.activeRevisionId,
        });
        return;
      }
      case "settleAssignment":
        return assign(trx, settings, {
          ...wish,
          targetRevisionId: step.revisionId,
          servingRevisionId: step.revisionId,
        });
      case "assignDelete":
        return assign(trx, settings, { ...wish, op: "delete", targetRevisionId: null, servingRevisionId: null });
    }
  });
  db.reached(reachedBy[step.kind]);
  db.changes.wake();
  return done;
}

const reachedBy = {
  rollOut: "rollout assigned",
  finishRollout: "rollout finished",
  failRollout: "rollout failed",
  settleAssignment: "assignment settled",
  assignDelete: "delete assigned",
} as const;

/** Moves to DEPLOYING unless it is there already; false when the revision is something else by now. */
async function isBegun(trx: Trx, deps: ReconcilerDeps, state: DeploymentState, revisionId: string): Promise<boolean> {
  const found = state.unsettled.find(({ id }) => id === revisionId);
  if (found?.status === "DEPLOYING") return true;
  return moveRevision(
    trx,
    { id: revisionId, deploymentId: state.id },
    {
      from: "AWAITING_DEPLOY",
      to: "DEPLOYING",
      because: "handed to the listener",
      deadlineAt: deadlineOf(deps, "DEPLOYING"),
    },
  );
}

/** DEPLOYED and active in one transaction: `active_revision_id` never points to a revision that does not serve. */
async function isActivated(trx: Trx, state: DeploymentState, revisionId: string): Promise<boolean> {
  const version = state.observation?.report.server_version ?? null;
  const isMoved = await moveRevision(
    trx,
    { id: revisionId, deploymentId: state.id },
    {
      from: "DEPLOYING",
      to: "DEPLOYED",
      because: "healthy, and traffic has moved",
      deadlineAt: null,
      set: { image_version: version },
    },
  );
  if (!isMoved) return false;
  await sql`update deployments set active_revision_id = ${revisionId}, image_version = ${version}, updated_at = now()
             where id = ${state.id}`.execute(trx.kysely);
  return true;
}

async function resolve(
  deps: ReconcilerDeps,
  state: DeploymentState,
  revisionId: string,
  signal: AbortSignal,
): Promise<Performed> {
  const { db } = deps;
  const revision = await readRevision(deps, revisionId);
  if (revision === undefined) return done;
  const refused = await checkDatabase(deps, revision, signal);
  const found =
    refused === null ? await resolveRevision(deps, revision, signal) : { ok: false as const, message: refused };
  const at = { id: revisionId, deploymentId: state.id };
  if (!found.ok) {
    await moveRevision(db, at, {
      from: "CREATING",
      to: "CREATE_FAILED",
      because: "the source cannot be used",
      message: found.message,
      deadlineAt: null,
    });
    return done;
  }
  const config = revision.source_revision_config;
  await moveRevision(db, at, {
    from: "CREATING",
    to: "QUEUED",
    because: "the source is resolved",
    deadlineAt: null,
    set: {
      artifact_id: found.artifactId,
      artifact_key: found.artifactKey,
      ...(found.commitSha === null ? {} : { source_revision_config: { ...config, repo_commit_sha: found.commitSha } }),
    },
  });
  return done;
}

async function beginBuild(
  deps: ReconcilerDeps,
  state: DeploymentState,
  revisionId: string,
  signal: AbortSignal,
): Promise<Performed> {
  const { builds, settings } = deps;
  if (builds.isRunning(revisionId)) return { kind: "later", retryInMs: 500, because: "the build is starting" };
  if (!builds.hasFreeSlot) return { kind: "later", retryInMs: 500, because: "all build slots are taken" };
  const revision = await readRevision(deps, revisionId);
  if (revision === undefined) return done;
  const at = { id: revisionId, deploymentId: state.id };
  const fail = async (because: string, message: string) => {
    await moveRevision(deps.db, at, { from: revision.status, to: "BUILD_FAILED", because, message, deadlineAt: null });
    return done;
  };
  // A build that had begun on a server that died may end.
  const refusal = revision.status === "AWAITING_BUILD" ? await buildQuotaProblem(deps.db, state.tenantId) : null;
  if (refusal !== null) return fail("no build minutes are left", refusal);
  const source = await resolveSource(deps, revision, signal);
  if (!source.ok) return fail("the source is gone", source.message);
  const request: BuildRequest = {
    buildId: revisionId,
    source: source.source,
    configPath: revision.source_revision_config.langgraph_config_path,
    installCommand: revision.source_config.install_command,
    buildCommand: revision.source_config.build_command,
    artifactsDir: path.join(settings.dataDir, "artifacts"),
    key: revision.artifact_key ?? revisionId,
    workDir: path.join(settings.dataDir, "builds", revisionId),
    cacheDir: settings.cacheDir,
    timeoutMs: settings.buildTimeoutMs,
    diskBytesMax: buildDiskBytesMax,
  };
  const deadlineAt = new Date(Date.now() + settings.buildTimeoutMs + overrunMs);
  const isBegun = await builds.begin({ ...at, tenantId: state.tenantId }, request, deadlineAt);
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
      },
    );
  });
  deps.db.reached("artifact accepted");
  return done;
}

/** Every status that is waited in has a deadline; final ones and the queue, which others' ends free, have none. */
function deadlineOf(deps: ReconcilerDeps, status: string): Date | null {
  const limits: Record<string, number> = {
    AWAITING_BUILD: awaitingBuildTimeoutMs,
    AWAITING_DEPLOY: awaitingDeployTimeoutMs,
    DEPLOYING: deps.settings.deployTimeoutMs + overrunMs,
  };
  const limit = limits[status];
  return limit === undefined ? null : new Date(Date.now() + limit);
}

async function readRevision({ db }: ReconcilerDeps, revisionId: string): Promise<RevisionRow | undefined> {
  const { rows } =
    await sql<RevisionRow>`select ${revisionColumns} from revisions r where r.id = ${revisionId}`.execute(db.kysely);
  return rows[0];
}
