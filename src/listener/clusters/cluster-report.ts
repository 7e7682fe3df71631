import type { ClusterStatus, RolloutProblem, Workload } from "../../compute/cluster.ts";
import { wantsQueue } from "../../compute/kubernetes/render/render-pods.ts";
import type { Assignment, Cause, ReplicaExitReport, RevisionRun } from "../../contract/listeners/assignment.ts";
import { engines } from "../../domain/engines.ts";
import { describeError } from "../../telemetry/log.ts";
import { admissionOf } from "../admission.ts";
import { asksForDatabase, givenVariables } from "../session/secrets.ts";
import type { Snapshot } from "../session/snapshot.ts";
import type { Drift } from "./drift.ts";

export const causeOf = (reason: string, message: string): Cause => ({
  ...{ reason, message },
  ...{ exit_code: null, signal: null, last_lines: [] },
});

export const notForClusters: RolloutProblem = {
  weight: "now",
  cause: causeOf(
    "StartError",
    "This listener runs a cluster, but the deployment is made for another kind of compute. Deploy an image to it.",
  ),
};

/** Returns why the cluster refused a workload, or null for any other error. */
export function refusalOf(error: unknown): RolloutProblem | null {
  const { name } = error as Error;
  if (name === "UnusableWorkload") return { weight: "now", cause: causeOf("StartError", describeError(error)) };
  // People raise quotas and change policies, so this is waited for like an image that cannot be pulled.
  if (name === "ForbiddenWorkload") return { weight: "grace", cause: causeOf("Forbidden", describeError(error)) };
  return null;
}

/** Progress of a deployment in the cluster. */
interface Progress {
  failed: { revisionId: string; cause: Cause } | null;
  isReady: boolean;
  isAsleep: boolean;
  drift: Pick<Drift, "held" | "isContested">;
  replicas: { crashStreak: number; lastExit: ReplicaExitReport | null };
}

export function workloadOf(
  assignment: Assignment,
  run: RevisionRun,
  secrets: Record<string, string>,
  { epoch, listener_id: listenerId }: { epoch: number; listener_id: string },
): Workload {
  const { artifact } = run;
  if (artifact.kind !== "image") throw new Error("a cluster runs only images, and this revision has none");
  return {
    ...{ deploymentId: assignment.deployment_id, tenantId: assignment.tenant_id, slug: assignment.slug },
    ...{ listenerId, generation: assignment.generation, epoch, revisionId: run.revision_id },
    isServing: run.revision_id === assignment.serving?.revision_id,
    admission: admissionOf(run, assignment),
    maySleep: mayEverSleep(run),
    ...{ asksForDatabase: asksForDatabase(artifact), startsAlone: artifact.starts_alone === true },
    isFirst: assignment.serving === null,
    ...{ image: artifact.uri, healthPath: artifact.health_path, engine: artifact.engine, env: run.env },
    secrets: givenVariables(secrets, run),
    ...{ startTimeoutMs: run.start_timeout_ms, drainTimeoutMs: run.drain_timeout_ms },
    cluster: run.cluster as NonNullable<RevisionRun["cluster"]>,
  };
}

/**
 * Whether a revision may have no replica while nothing calls it. One with a queue of its own stays awake: asleep, it would run
 * neither crons nor what is waiting.
 */
export const mayEverSleep = ({ artifact, cluster, min_replicas: least }: RevisionRun): boolean =>
  least === 0 &&
  cluster != null &&
  !wantsQueue(cluster, artifact.engine) &&
  !engines[artifact.engine ?? "own"].hasQueue;

export function snapshotOf({ deployment_id, generation, target, serving, op }: Assignment): Snapshot {
  return {
    ...{ deployment_id, generation, target_revision_id: op === "delete" ? null : (target?.revision_id ?? null) },
    ...{ target_phase: "none" as const, serving_revision_id: serving?.revision_id ?? null },
    ...{ asleep: false, deleted: false, server_version: null, cause: null, replicas: [] },
  };
}

function driftOf({ drift: { held, isContested } }: Progress): Cause | null {
  if (isContested)
    return causeOf("Drifted", "Another client keeps changing the objects, so Pierhead leaves them alone for now.");
  if (held === null) return null;
  const words = held.length === 0 ? "The deployment is paused in the cluster." : `Changed by hand: ${held.join("; ")}.`;
  return causeOf("Drifted", words);
}

/** Returns the report of a deployment that nothing serves and whose first revision failed or was withdrawn. */
export function stoppedReportOf(
  { failed }: Pick<Progress, "failed">,
  assignment: Assignment,
  state: ClusterStatus,
): Snapshot {
  const hasFailed = failed !== null && failed.revisionId === assignment.target?.revision_id;
  return {
    ...snapshotOf(assignment),
    ...(hasFailed ? { target_phase: "failed" as const, cause: failed.cause } : {}),
    replicas: state.replicas.map(({ deployment_id: _, ...replica }) => replica),
  };
}

/** Returns the report of a deployment from the state of its objects. */
export function reportOf(member: Progress, assignment: Assignment, goal: RevisionRun, state: ClusterStatus): Snapshot {
  const { target, serving } = assignment;
  const { failed, isReady } = member;
  const hasFailed = failed !== null && failed.revisionId === target?.revision_id;
  const isTarget = goal.revision_id === target?.revision_id;
  // A replica that an autoscaler adds to a revision that serves takes its time, and that is no problem.
  const isRollingOut = isTarget && target?.revision_id !== serving?.revision_id;
  const problem = state.problems.find(({ weight }) => isRollingOut || weight !== "wait");
  const phase = hasFailed ? "failed" : isReady && isTarget ? "ready" : "starting";
  return {
    ...snapshotOf(assignment),
    target_phase: target === null ? "none" : phase,
    asleep: member.isAsleep,
    serving_revision_id: isReady ? goal.revision_id : (serving?.revision_id ?? null),
    // A revision that rolls out is judged by its rollout.
    crash_streak: goal.revision_id === serving?.revision_id ? member.replicas.crashStreak : 0,
    cause: hasFailed ? failed.cause : (problem?.cause ?? driftOf(member)),
    ...(member.replicas.lastExit === null || isRollingOut ? {} : { last_exit: member.replicas.lastExit }),
    ...(hasFailed || problem?.since === undefined ? {} : { cause_since: problem.since }),
    replicas: state.replicas.map(({ deployment_id: _, ...replica }) => replica),
  };
}
