import type { DeploymentReport, RevisionRun } from "../../contract/listeners/assignment.ts";
import type { Route } from "../../gateway/route.ts";
import { admissionOf } from "../admission.ts";
import type { Snapshot } from "../session/snapshot.ts";
import { drainTimeoutMsOf, log, type Pass, readyOf, retryAtMsOf, runOf, wakeAt } from "./pass.ts";
import type { ReplicaFacts } from "./plan-state.ts";

/** Requests wait this long for a replica that is restarting. Then the gateway refuses them. */
export const downHeldMsMax = 30_000;

/** Returns the route after this pass. It targets only ready replicas of the revision that carries the traffic. */
export function planRoute(pass: Pass, goal: RevisionRun | null): Route | null {
  const { memory, assignment } = pass;
  if (assignment === null) return null;
  const revisionId = memory.currentRevisionId ?? null;
  const { slug, deployment_id: deploymentId, tenant_id: workspaceId } = assignment;
  const to = (state: Route["state"], because: string | null, targets: Route["targets"] = []): Route => {
    return { slug, deploymentId, workspaceId, revisionId, targets, state, because, ...admissionTo(pass, revisionId) };
  };
  if (revisionId === null) return to("closed", reasonNeverServed(pass, goal));
  if (memory.isAsleep) return to("asleep", null);
  const targets = readyOf(pass, revisionId).flatMap(targetOf).toSorted(byReplicaId);
  if (memory.heldSinceMs !== null && isHeldInTime(pass, goal, memory.heldSinceMs)) return to("held", null);
  if (targets.length > 0) {
    recordUp(pass, revisionId);
    return to("open", null, targets);
  }
  memory.downSinceMs ??= pass.nowMs;
  const untilMs = downHeldUntilMs(pass, goal, memory.downSinceMs);
  const isComingBack = pass.nowMs < untilMs && retryAtMsOf(pass, revisionId) < untilMs;
  if (!isComingBack) return to("closed", "The agent server has stopped and is not running again yet.");
  wakeAt(pass, untilMs);
  return to("held", null);
}

/** Before the first revision has served, the one to run decides, so that no caller learns more than later. */
function admissionTo(pass: Pass, revisionId: string | null): Pick<Route, "admission"> {
  const { assignment } = pass;
  const run = runOf(pass, revisionId) ?? assignment?.target ?? assignment?.serving;
  const admission = assignment === null || run == null ? undefined : admissionOf(run, assignment);
  return admission === undefined ? {} : { admission };
}

function reasonNeverServed({ memory }: Pass, goal: RevisionRun | null): string {
  if (goal !== null) return "The first revision is starting.";
  return memory.failed === null
    ? "No revision of this deployment is running."
    : "No revision of this deployment could start.";
}

const byReplicaId = (a: { replicaId: string }, b: { replicaId: string }) => (a.replicaId < b.replicaId ? -1 : 1);

function targetOf({ replicaId, address }: ReplicaFacts): Route["targets"] {
  return address === undefined ? [] : [{ replicaId, ...address }];
}

/** Whether requests may still wait for a handover: time to drain, to stop the old server, and to start the new or the old one. */
function isHeldInTime(pass: Pass, goal: RevisionRun | null, sinceMs: number): boolean {
  const drainMs = drainTimeoutMsOf(pass, pass.memory.currentRevisionId ?? "");
  const untilMs = sinceMs + 2 * drainMs + (goal?.start_timeout_ms ?? 0) + downHeldMsMax;
  if (pass.nowMs < untilMs) wakeAt(pass, untilMs);
  return pass.nowMs < untilMs;
}

function downHeldUntilMs({ memory }: Pass, goal: RevisionRun | null, downSinceMs: number): number {
  const startMs = Math.max(goal?.start_timeout_ms ?? 0, downHeldMsMax);
  if (memory.wakingSinceMs !== null) return memory.wakingSinceMs + startMs;
  // The listener restarted in the middle of a handover, so the target is about to take over.
  const isBeingReplaced = goal !== null && goal.revision_id !== memory.currentRevisionId;
  return downSinceMs + (isBeingReplaced ? startMs : downHeldMsMax);
}

function recordUp(pass: Pass, revisionId: string): void {
  const { memory, nowMs } = pass;
  if (memory.wakingSinceMs !== null) {
    log(pass, "deployment woken", { revision_id: revisionId, cold_start_ms: nowMs - memory.wakingSinceMs });
  }
  memory.wakingSinceMs = null;
  memory.downSinceMs = null;
}

/** Returns a full snapshot for the control plane. */
export function planReport(pass: Pass): Snapshot {
  const { facts, memory, assignment } = pass;
  const isDelete = assignment?.op === "delete";
  const target = isDelete ? null : (assignment?.target ?? null);
  const ofTarget = facts.replicas.filter(({ revisionId }) => revisionId === target?.revision_id);
  return {
    deployment_id: facts.deploymentId,
    generation: assignment?.generation ?? 0,
    target_revision_id: target?.revision_id ?? null,
    target_phase: isDelete ? "none" : phaseOf(pass, target),
    serving_revision_id: isDelete ? null : (memory.currentRevisionId ?? null),
    asleep: !isDelete && memory.isAsleep && memory.currentRevisionId === target?.revision_id,
    deleted: isDelete && facts.replicas.length === 0 && facts.state === "removed",
    server_version: ofTarget.find(({ serverVersion }) => serverVersion !== undefined)?.serverVersion ?? null,
    cause: isDelete ? null : causeOf(pass, target),
    ...(!isDelete && crashStreakOf(pass)),
    ...(!isDelete && lastExitOf(pass)),
    ...(target !== null && handoverTo(pass, target)),
    replicas: facts.replicas.map((replica) => reportReplica(pass, replica)),
  };
}

function phaseOf(pass: Pass, target: RevisionRun | null): DeploymentReport["target_phase"] {
  const { memory } = pass;
  if (target === null) return "none";
  if (memory.failed?.revisionId === target.revision_id) return "failed";
  const carriesTraffic = memory.currentRevisionId === target.revision_id;
  const isUp = memory.isAsleep || readyOf(pass, target.revision_id).length > 0;
  return carriesTraffic && isUp ? "ready" : "starting";
}

function causeOf({ memory }: Pass, target: RevisionRun | null): DeploymentReport["cause"] {
  if (memory.failed !== null && memory.failed.revisionId === target?.revision_id) return memory.failed.cause;
  if (memory.bringUp?.cause != null) return memory.bringUp.cause;
  const crashes = memory.crashes[memory.currentRevisionId ?? ""];
  return crashes !== undefined && crashes.streak > 0 ? crashes.cause : null;
}

function crashStreakOf({ memory }: Pass): { crash_streak: number } | undefined {
  const streak = memory.crashes[memory.currentRevisionId ?? ""]?.streak ?? 0;
  return streak === 0 ? undefined : { crash_streak: streak };
}

/** Maximum log lines that a report repeats of the last exit. The report of a current failure has all of them. */
const exitLinesMax = 10;

function lastExitOf({ memory: { lastExit } }: Pass): Pick<DeploymentReport, "last_exit"> | undefined {
  if (lastExit === null) return undefined;
  const { replicaId, revisionId, atMs, count, cause } = lastExit;
  const last_lines = cause.last_lines.slice(-exitLinesMax);
  return {
    last_exit: {
      id: replicaId,
      replica_id: replicaId,
      revision_id: revisionId,
      at: new Date(atMs).toISOString(),
      restarts: count,
      cause: { ...cause, last_lines },
    },
  };
}

/** Returns what the handover to the target cost, once the target carries the traffic. */
function handoverTo({ memory }: Pass, { revision_id: id, artifact }: RevisionRun) {
  const { handover, currentRevisionId } = memory;
  if (handover?.revisionId !== id || currentRevisionId !== id) return undefined;
  const { heldMs, requestsCut, runsCut } = handover;
  const runs_continue = continuesRuns(artifact);
  return { handover: { held_ms: heldMs, requests_cut: requestsCut, runs_cut: runsCut, runs_continue } };
}

/** An artifact of an earlier builder does not name its engine. */
const continuesRuns = (artifact: RevisionRun["artifact"]) =>
  artifact.engine === "file" ||
  artifact.engine === "memory" ||
  (artifact.kind === "directory" && artifact.start.runner !== "command");

const reportedPhases = { starting: "starting", ready: "ready", stopping: "draining", exited: "exited" } as const;

function reportReplica(pass: Pass, replica: ReplicaFacts): DeploymentReport["replicas"][number] {
  const { replicaId, revisionId, phase, address, startedAtMs, limits, isBeingRemoved } = replica;
  const isLeaving = isBeingRemoved || pass.leaving.has(replicaId) || replicaId in pass.memory.draining;
  return {
    replica_id: replicaId,
    revision_id: revisionId,
    phase: isLeaving && phase !== "exited" ? "draining" : reportedPhases[phase],
    address: address === undefined ? null : `${address.host}:${address.port}`,
    restarts: pass.memory.crashes[revisionId]?.count ?? 0,
    started_at: startedAtMs === null ? null : new Date(startedAtMs).toISOString(),
    limits,
  };
}
