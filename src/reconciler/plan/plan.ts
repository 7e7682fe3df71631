import { shortenText } from "../../base/shorten-text.ts";
import type { Cause, DeploymentReport } from "../../contract/listeners/assignment.ts";
import type { Failure } from "../../contract/revisions/failure.ts";
import type { RevisionStatus } from "../../contract/revisions/revision.ts";
import { type Health, healthOf } from "../../domain/deployment-health.ts";
import { isBeingDeleted } from "../../domain/deployment-status.ts";
import { buildFailure, causeFailure, failure } from "../../domain/failures.ts";
import { deployTimeoutMs, listenerPollMs, unschedulableGraceMs } from "../../domain/limits.ts";
import { holdsSlot } from "../../domain/revision-status.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import type { BuildFacts, DeploymentState, RevisionFacts } from "./state.ts";
import { type Idle, isIdle, type Step } from "./step.ts";

/** Builds of a revision are started at most this often: a build that killed its server three times would kill a fourth. */
const buildAttemptsMax = 3;

/**
 * Chooses the next step of a deployment. Pure: it reads no clock, no database and no network, so a test can try it on
 * thousands of generated states, and `GET /debug/v1/deployments/{id}` can call it without acting.
 */
export function planDeployment(state: DeploymentState, now: Date): Step {
  const step = planWork(state, now);
  if (!isIdle(step)) return step;
  return planHealth(state) ?? planHost(state, now, planTracing(state, now, step));
}

/** Derives the health from what this pass read. */
export function currentHealth(state: DeploymentState): Health {
  const { status, activeRevisionId, unsettled, latest, assignment, observation } = state;
  const replicasMin = assignment?.replicasMin[activeRevisionId ?? ""] ?? 0;
  const facts = { status, activeRevisionId, latest, replicasMin, isUnderWay: unsettled.length > 0 };
  const report = observation?.report ?? null;
  // A report on an earlier assignment may have the cause of a target that was given up since.
  const isStale = observation !== null && observation.generation < (assignment?.generation ?? 0);
  return healthOf({ ...facts, report: report !== null && isStale ? { ...report, cause: null } : report });
}

/** Returns the step that records a changed health; null: the recorded one is right. */
export function planHealth(state: DeploymentState): Extract<Step, { kind: "recordHealth" }> | null {
  const health = currentHealth(state);
  return isSameHealth(health, state.health) ? null : { kind: "recordHealth", health };
}

const isSameHealth = (a: Health, b: Health) =>
  a.word === b.word && a.reason === b.reason && a.message === b.message && isSameFailure(a.failure, b.failure);

const isSameFailure = (a: Failure | null, b: Failure | null) =>
  a?.code === b?.code && a?.variables.join() === b?.variables.join();

/** Work for the code host comes last, when there is nothing else to do: a push during a build waits in the queue. */
function planHost(state: DeploymentState, now: Date, otherwise: Step): Step {
  const { host } = state;
  if (host === null || isBeingDeleted(state.status) || !isIdle(otherwise)) return otherwise;
  const { isFollowing, pollAt, reportAt } = host;
  if (reportAt !== null && reportAt <= now) return { kind: "reportToHost" };
  if (!isFollowing && pollAt !== null) return { kind: "unfollowBranch" };
  if (isFollowing && (pollAt === null || pollAt <= now)) return { kind: "inspectBranch" };
  const until = pollAt === null ? reportAt : earlier(reportAt, pollAt);
  if (until === null) return otherwise;
  if (otherwise.kind === "wait") return { ...otherwise, until: earlier(otherwise.until, until) };
  return { kind: "wait", until, because: "nothing to do until the next poll of the code host or report to it" };
}

/** The tracing project is created when there is nothing more urgent, so a backend that is away delays no deployment. */
function planTracing(state: DeploymentState, now: Date, otherwise: Idle): Step {
  const { tracing } = state;
  if (tracing === null || !tracing.isWanted || isBeingDeleted(state.status)) return otherwise;
  const { retryAt } = tracing;
  if (retryAt === null || retryAt <= now) return { kind: "createTracingProject" };
  if (otherwise.kind === "wait") return { ...otherwise, until: earlier(otherwise.until, retryAt) };
  return { kind: "wait", until: retryAt, because: "the tracing backend did not create the project; see the events" };
}

function planWork(state: DeploymentState, now: Date): Step {
  const unwantedBuild = state.builds.find((build) => build.status === "running" && !isWanted(state, build));
  if (unwantedBuild !== undefined) return { kind: "cancelBuild", revisionId: unwantedBuild.revisionId };
  if (isBeingDeleted(state.status)) return planDelete(state);
  if (state.status === "AWAITING_DATABASE") return { kind: "provision" };

  const creating = state.unsettled.find((revision) => revision.status === "CREATING");
  if (creating !== undefined) return planCreating(creating, now);
  const inProgress = state.unsettled.find((revision) => holdsSlot(revision.status));
  if (inProgress !== undefined) return planInProgress(state, inProgress, now);
  const queued = state.unsettled.filter((revision) => revision.status === "QUEUED");
  if (queued.length > 0) return planQueued(queued);
  return planSettled(state);
}

function isWanted(state: DeploymentState, build: BuildFacts): boolean {
  if (isBeingDeleted(state.status)) return false;
  return state.unsettled.some((revision) => revision.id === build.revisionId && revision.status === "BUILDING");
}

function planDelete(state: DeploymentState): Step {
  const left = state.unsettled[0];
  if (left !== undefined) return move(left, "INTERRUPTED", "deployment deleted");
  if (state.status === "AWAITING_FINAL_DELETE") {
    return state.tracing?.isDeletedToo ? { kind: "removeTracingProject" } : { kind: "deleteRow" };
  }
  if (state.assignment === null || state.isDeleteForced) return { kind: "finalize" };
  if (state.assignment.op !== "delete") return { kind: "assignDelete" };
  const { observation } = state;
  if (observation?.report.deleted && observation.generation >= state.assignment.generation) return { kind: "finalize" };
  return { kind: "wait", until: null, because: "the listener has not yet removed the replicas" };
}

function planCreating(revision: RevisionFacts, now: Date): Step {
  if (isOverdue(revision, now))
    return move(revision, "CREATE_FAILED", "deadline", overdue("resolving the source"), timedOut);
  return { kind: "resolve", revisionId: revision.id };
}

/** Runs the newest and skips the older ones: every revision carries the complete configuration (contract 5.3). */
function planQueued(queued: RevisionFacts[]): Step {
  const older = queued.slice(0, -1);
  const newest = queued.at(-1) as RevisionFacts;
  if (older.length > 0) return { kind: "skip", revisionIds: older.map(({ id }) => id), supersededBy: newest.id };
  return newest.hasArtifact
    ? move(newest, "AWAITING_DEPLOY", "the artifact exists")
    : move(newest, "AWAITING_BUILD", "no other revision is in progress");
}

function planInProgress(state: DeploymentState, revision: RevisionFacts, now: Date): Step {
  switch (revision.status) {
    case "AWAITING_BUILD":
      if (isOverdue(revision, now))
        return move(revision, "BUILD_FAILED", "deadline", overdue("a free build slot"), timedOut);
      return { kind: "build", revisionId: revision.id, attempt: 1 };
    case "BUILDING":
      return planBuilding(state, revision, now);
    case "AWAITING_DEPLOY":
      if (isOverdue(revision, now))
        return move(revision, "DEPLOY_FAILED", "deadline", overdue("the assignment"), timedOut);
      return { kind: "rollOut", revisionId: revision.id, servingRevisionId: state.activeRevisionId };
    default:
      return planDeploying(state, revision, now);
  }
}

function planBuilding(state: DeploymentState, revision: RevisionFacts, now: Date): Step {
  const build = state.builds.find(({ revisionId }) => revisionId === revision.id);
  if (build?.status === "succeeded") return { kind: "acceptBuild", revisionId: revision.id };
  if (build?.status === "failed") {
    const failure = buildFailure(build.reason);
    return move(
      revision,
      "BUILD_FAILED",
      "the build ended with an error",
      build.failure ?? "The build failed.",
      failure,
    );
  }
  if (isOverdue(revision, now)) {
    return move(
      revision,
      "BUILD_FAILED",
      "deadline",
      overdue("the build, which was killed with everything it started"),
      failure("build_timed_out"),
    );
  }
  if (build === undefined || build.status === "cancelled")
    return { kind: "build", revisionId: revision.id, attempt: 1 };
  if (!build.abandoned)
    return { kind: "wait", until: earlier(revision.deadlineAt, build.leaseUntil), because: "building" };
  if (build.attempts < buildAttemptsMax) return { kind: "build", revisionId: revision.id, attempt: build.attempts + 1 };
  const message = `The server that ran this build died ${build.attempts} times while building. Check its memory and disk, then redeploy.`;
  return move(revision, "BUILD_FAILED", "the builder died too often", message, failure("builder_failed"));
}

function planDeploying(state: DeploymentState, revision: RevisionFacts, now: Date): Step {
  const { assignment, observation } = state;
  if (assignment === null || assignment.targetRevisionId !== revision.id || !assignment.isCurrent) {
    return { kind: "rollOut", revisionId: revision.id, servingRevisionId: state.activeRevisionId };
  }
  const report = observation?.report;
  const isCurrent =
    observation !== null &&
    observation.generation >= assignment.generation &&
    report?.target_revision_id === revision.id;
  if (isCurrent && report?.target_phase === "ready") return { kind: "finishRollout", revisionId: revision.id };
  if (isCurrent && report?.target_phase === "failed") {
    return {
      kind: "failRollout",
      revisionId: revision.id,
      message: describeCause(report.cause) ?? "The replicas failed.",
      failure: failureOf(report.cause) ?? failure("exited"),
    };
  }
  const pollAt = new Date(now.getTime() + listenerPollMs);
  if (state.listener === "awaited") {
    const leftMs = (revision.deadlineAt ?? pollAt).getTime() - now.getTime();
    if (leftMs < deployTimeoutMs / 2) return { kind: "extendRollout", revisionId: revision.id };
    return { kind: "wait", until: pollAt, because: listenerIsAway };
  }
  if (isOverdue(revision, now)) return failOverdue(revision, report?.cause ?? null, state.listener === "gone");
  return (
    planStuckRollout(state, revision, isCurrent ? report : undefined, now) ?? {
      kind: "wait",
      until: earlier(revision.deadlineAt, pollAt),
      because: "the listener is starting the replicas",
    }
  );
}

function failOverdue({ id: revisionId }: RevisionFacts, cause: Cause | null, isListenerGone: boolean): Step {
  const [message, code] = isListenerGone
    ? ([listenerIsGone, "listener_gone"] as const)
    : ([overdue("healthy replicas"), "timed_out"] as const);
  return {
    kind: "failRollout",
    revisionId,
    message: describeCause(cause) ?? message,
    failure: failureOf(cause) ?? failure(code),
  };
}

/** Characters of a message of a rollout in progress. The message of its failure has all of them. */
const progressMax = 500;

/**
 * A rollout that has not failed yet: it yields to a newer revision when no node has room for it, because that revision may
 * be smaller; otherwise its message says what it waits for.
 */
function planStuckRollout(
  state: DeploymentState,
  { id: revisionId, since, message }: RevisionFacts,
  report: DeploymentReport | undefined,
  now: Date,
): Step | null {
  const cause = report?.cause ?? null;
  if (cause === null) return null;
  const isNewerQueued = state.unsettled.some(({ status }) => status === "QUEUED");
  // A pod may lack room only late in the rollout, for example after its database has started.
  const stuckSinceMs = Math.max(since.getTime(), Date.parse(report?.cause_since ?? since.toISOString()));
  const isStuck = cause.reason === "Unschedulable" && now.getTime() - stuckSinceMs >= unschedulableGraceMs;
  if (isStuck && isNewerQueued) {
    const text = `${cause.message} A newer revision takes its turn.`;
    return { kind: "failRollout", revisionId, message: text, failure: failure("no_capacity") };
  }
  const text = shortenText(sanitizeText(cause.message).trim(), progressMax);
  return text === "" || text === message ? null : { kind: "describeRollout", revisionId, message: text };
}

/** A rollout waits up to a day for a listener that is disconnected or draining. */
const listenerIsGone =
  "The rollout failed because the listener of this deployment has not been connected for a day. Start the listener, then redeploy.";
export const listenerIsAway = "the listener does not act: it is disconnected or draining";

/** With nothing in progress, the data plane should run the active revision and nothing else. */
function planSettled(state: DeploymentState): Step {
  const { assignment, activeRevisionId } = state;
  if (assignment === null) return { kind: "none" };
  const isSettled =
    assignment.op === "apply" &&
    assignment.isCurrent &&
    assignment.targetRevisionId === activeRevisionId &&
    assignment.servingRevisionId === activeRevisionId;
  return isSettled ? { kind: "none" } : { kind: "settleAssignment", revisionId: activeRevisionId };
}

/** Returns the cause with the log lines that explain it, so that a user need not search for them. */
function describeCause(cause: Cause | null): string | null {
  if (cause === null) return null;
  return cause.last_lines.length === 0 ? cause.message : `${cause.message}\n${cause.last_lines.join("\n")}`;
}

const failureOf = (cause: Cause | null) => (cause === null ? null : causeFailure(cause));
const timedOut = failure("timed_out");

const isOverdue = (revision: RevisionFacts, now: Date) => revision.deadlineAt !== null && revision.deadlineAt <= now;
const overdue = (awaited: string) => `Gave up waiting for ${awaited}: the deadline of this step has passed.`;
const earlier = (a: Date | null, b: Date) => (a !== null && a < b ? a : b);

function move(
  revision: RevisionFacts,
  to: RevisionStatus,
  because: string,
  message: string | null = null,
  failed: Failure | null = null,
): Step {
  return { kind: "move", revisionId: revision.id, from: revision.status, to, because, message, failure: failed };
}
