import { backoffMs } from "../../base/backoff.ts";
import type { ReplicaExit, StopTimes } from "../../compute/compute.ts";
import type { Assignment, Cause } from "../../contract/listeners/assignment.ts";
import type { Route } from "../../gateway/route.ts";
import type { Snapshot } from "../session/snapshot.ts";
import {
  type Action,
  beginPass,
  canSleep,
  drain,
  drainTimeoutMsOf,
  endHandover,
  hasQueue,
  isUnproven,
  liveOf,
  log,
  type Pass,
  readyOf,
  remove,
  runOf,
  startTimeoutMsOf,
  switchTimesOf,
  wakeAt,
} from "./pass.ts";
import { planReport, planRoute } from "./plan-outcome.ts";
import { handOver, rollingUpdate } from "./plan-rollout.ts";
import { type Facts, type Memory, type ReplicaFacts, wake } from "./plan-state.ts";

export interface Plan {
  /** Actions to start in this order, once the route is set. */
  actions: Action[];
  /** Null: no route. */
  route: Route | null;
  /** Null for an orphan, which is not reported. */
  report: Snapshot | null;
  memory: Memory;
  /** When to run another pass even if nothing changes. */
  wakeAtMs: number | null;
}

/** A revision that ran this long without an exit has recovered, so its back-off starts again at one second. */
export const healthyMs = 600_000;

/** Restart back-off of a revision that has served before: 1 s, 2 s, ... 5 min. */
const restartBounds = { firstMs: 1_000, maxMs: 300_000 };

/** Retry back-off for an engine that refuses to start a replica, until the start deadline of the target. */
const refusedStartBounds = { firstMs: 1_000, maxMs: 10_000 };

/** Maximum failed starts of a target for causes outside its code: another process took the port, or the replica disappeared. */
const externalFailuresMax = 2;

/** Grace period after the start deadline, so that a driver that fails to enforce the deadline cannot block a rollout. */
export const overdueGraceMs = 5_000;

/** Maximum grace period of a deletion. A user who deletes a deployment does not wait for its requests. */
const deleteGraceMsMax = 10_000;

/**
 * Decides what to do for one deployment by comparing the desired replicas with the observed ones. It is pure and reads no
 * clock, so tests can generate any situation, and a repeated pass makes the same decisions.
 */
export function planReplicas(facts: Facts, memory: Memory, nowMs: number): Plan {
  const pass = beginPass(facts, memory, nowMs);
  if (pass.assignment === null || pass.assignment.op === "delete") return planRemoval(pass);
  findCurrent(pass);
  findScale(pass);
  recordExits(pass);
  settleFailures(pass);
  const goal = goalOf(pass);
  if (goal === null) {
    pass.memory.currentRevisionId = null;
    endHandover(pass);
    for (const replica of facts.replicas) drain(pass, replica);
  } else {
    sleepWhenIdle(pass, goal.revision_id);
    const rollOut = isExclusive(pass, goal.revision_id) ? handOver : rollingUpdate;
    rollOut(pass, goal);
  }
  const route = planRoute(pass, goal);
  const report = planReport(pass);
  return { actions: pass.actions, route, report, memory: pass.memory, wakeAtMs: pass.wakeAtMs };
}

/** Returns the revision to run: the target, or the serving revision if the target was given up. */
function goalOf(pass: Pass) {
  const { target, serving } = pass.assignment as Assignment;
  if (target === null) return serving;
  const isGivenUp = pass.memory.failed?.revisionId === target.revision_id;
  return isGivenUp ? serving : target;
}

function planRemoval(pass: Pass): Plan {
  const { facts, assignment, memory } = pass;
  for (const replica of facts.replicas) {
    const graceMs = Math.min(drainTimeoutMsOf(pass, replica.revisionId), deleteGraceMsMax);
    remove(pass, replica, { graceMs }, "deleted");
  }
  const isGone = facts.replicas.length === 0;
  if (assignment !== null && isGone && facts.state === "present") pass.actions.push({ kind: "removeState" });
  const report = assignment === null ? null : planReport(pass);
  return { actions: pass.actions, route: null, report, memory, wakeAtMs: null };
}

/**
 * Determines the revision that carries the traffic: from memory, or from the replicas after a restart of the listener. It
 * prefers the serving revision, then any other with a ready replica, because a response of an old revision is better than none.
 */
function findCurrent(pass: Pass): void {
  const { facts, memory } = pass;
  const { target, serving } = pass.assignment as Assignment;
  const known = memory.currentRevisionId;
  const isStillThere = typeof known === "string" && (runOf(pass, known) !== null || liveOf(pass, known).length > 0);
  if (known === null || isStillThere) {
    if (known === null && serving !== null) memory.currentRevisionId = serving.revision_id;
    return;
  }
  const servingId = serving?.revision_id ?? null;
  const ready = facts.replicas.filter((replica) => replica.phase === "ready" && !replica.isBeingRemoved);
  const others = ready.filter((replica) => replica.revisionId !== target?.revision_id);
  const newest = others.toSorted((a, b) => (b.startedAtMs ?? 0) - (a.startedAtMs ?? 0))[0];
  const isServingThere = servingId !== null && liveOf(pass, servingId).length > 0;
  memory.currentRevisionId = isServingThere ? servingId : (newest?.revisionId ?? servingId);
  const isCurrentServing = serving !== null && memory.currentRevisionId === servingId;
  // Only a replica can tell what its queue holds, so a listener that has restarted wakes such a deployment once.
  if (isCurrentServing && !isServingThere && canSleep(pass, serving) && !hasQueue(serving)) {
    memory.isAsleep = !facts.replicas.some((replica) => replica.revisionId === servingId);
  }
}

/** Starts with the number of running replicas. The scaler lowers it only after it has measured the load. */
function findScale(pass: Pass): void {
  const { memory } = pass;
  if (memory.scale !== null || memory.isAsleep) return;
  memory.scale = { replicas: liveOf(pass, memory.currentRevisionId ?? "").length, lower: null };
}

/** Removes exited replicas and records why they exited. The pass that begins the removal counts the exit, once. */
function recordExits(pass: Pass): void {
  for (const replica of pass.facts.replicas) {
    if (replica.isBeingRemoved) continue;
    const exit = exitOf(pass, replica);
    if (exit === null) {
      if (replica.phase === "stopping") remove(pass, replica, stoppingTimesOf(pass, replica), "was already stopping");
      continue;
    }
    const { revisionId, replicaId } = replica;
    const isDraining = replicaId in pass.memory.draining;
    const fields = { revision_id: revisionId, replica_id: replicaId, reason: exit.reason, exit_code: exit.exitCode };
    log(pass, isDraining ? "draining replica exited" : "replica exited", fields);
    const isGivenUp = pass.memory.failed?.revisionId === revisionId;
    if (!isDraining && isUnproven(pass, revisionId)) recordFailedStart(pass, revisionId, exit);
    else if (!isDraining && !isGivenUp && runOf(pass, revisionId) !== null) recordCrash(pass, replica, exit);
    remove(pass, replica, { graceMs: 0 }, "exited");
  }
}

/**
 * Returns how long a replica may take to stop that a previous leader has asked to stop. The next server waits for one with
 * local state, and requests wait for that server.
 */
function stoppingTimesOf(pass: Pass, { revisionId }: ReplicaFacts): StopTimes {
  const isHandedOver = runOf(pass, revisionId)?.artifact.rollout === "handover";
  return isHandedOver ? switchTimesOf(pass, revisionId, "unknown") : { graceMs: drainTimeoutMsOf(pass, revisionId) };
}

/** Returns why a replica counts as exited, or null if it does not. */
function exitOf(pass: Pass, replica: ReplicaFacts): ReplicaExit | null {
  if (replica.phase === "exited") return replica.exit ?? unexplained;
  const startTimeoutMs = startTimeoutMsOf(pass, replica.revisionId);
  if (replica.phase !== "starting" || replica.startedAtMs === null || startTimeoutMs === null) return null;
  const overdueAtMs = replica.startedAtMs + startTimeoutMs + overdueGraceMs;
  if (pass.nowMs < overdueAtMs) {
    wakeAt(pass, overdueAtMs);
    return null;
  }
  const message = `The agent server did not answer its health check within ${startTimeoutMs / 1_000} s.`;
  return { reason: "NotHealthy", message, exitCode: null, signal: null, lastLines: [] };
}

const unexplained: ReplicaExit = {
  reason: "Exited",
  message: "The agent server exited. The driver gives no reason.",
  exitCode: null,
  signal: null,
  lastLines: [],
};

function recordFailedStart(pass: Pass, revisionId: string, exit: ReplicaExit): void {
  const { memory, nowMs } = pass;
  const before = memory.bringUp?.revisionId === revisionId ? memory.bringUp : null;
  const sinceMs = before?.sinceMs ?? nowMs;
  const attempts = (before?.attempts ?? 0) + 1;
  const cause = causeOf(exit);
  const isRefused = ["EngineRefused", "NoCapacity", "RegistryUnreachable"].includes(exit.reason);
  const isExternal = exit.reason === "PortTaken" || exit.reason === "Lost";
  const delayMs = isRefused ? backoffMs(attempts, refusedStartBounds) : 0;
  const isInTime = nowMs + delayMs < sinceMs + (startTimeoutMsOf(pass, revisionId) ?? 0);
  if ((isRefused && isInTime) || (isExternal && attempts < externalFailuresMax)) {
    memory.bringUp = { revisionId, sinceMs, attempts, retryAtMs: nowMs + delayMs, cause };
  } else {
    giveUp(pass, revisionId, cause);
  }
}

function giveUp(pass: Pass, revisionId: string, cause: Cause): void {
  pass.memory.failed = { revisionId, cause };
  pass.memory.bringUp = null;
  log(pass, "target failed", { revision_id: revisionId, reason: cause.reason, exit_code: cause.exit_code });
}

function recordCrash(pass: Pass, replica: ReplicaFacts, exit: ReplicaExit): void {
  const { memory, nowMs } = pass;
  const before = memory.crashes[replica.revisionId];
  const ranMs = replica.startedAtMs === null ? 0 : nowMs - replica.startedAtMs;
  const streakBefore = ranMs >= healthyMs ? 0 : (before?.streak ?? 0);
  // Replicas that exit at the same moment count as one failure.
  const streak = before?.lastAtMs === nowMs ? before.streak : streakBefore + 1;
  const isFirstLoss = streak === 1 && exit.reason === "Lost";
  const retryAtMs = nowMs + (isFirstLoss ? 0 : backoffMs(streak, restartBounds));
  const count = (before?.count ?? 0) + 1;
  const cause = causeOf(exit);
  const { replicaId, revisionId } = replica;
  memory.crashes = { ...memory.crashes, [revisionId]: { count, streak, lastAtMs: nowMs, retryAtMs, cause } };
  memory.lastExit = { replicaId, revisionId, atMs: nowMs, count, cause };
}

/** Forgets failures that no longer matter, and records a failed preparation as the failure of the target. */
function settleFailures(pass: Pass): void {
  const { memory, nowMs, facts } = pass;
  const { target, serving } = pass.assignment as Assignment;
  const isTrying = target !== null && target.revision_id !== serving?.revision_id;
  if (memory.failed !== null && (!isTrying || memory.failed.revisionId !== target.revision_id)) memory.failed = null;
  if (memory.bringUp !== null && (!isTrying || memory.bringUp.revisionId !== target.revision_id)) memory.bringUp = null;
  for (const [revisionId, crashes] of Object.entries(memory.crashes)) {
    const live = liveOf(pass, revisionId);
    const recoveredAtMs = Math.max(...live.map(({ startedAtMs }) => startedAtMs ?? nowMs)) + healthyMs;
    if (runOf(pass, revisionId) === null) {
      const { [revisionId]: _, ...others } = memory.crashes;
      memory.crashes = others;
    } else if (crashes.streak > 0 && live.length > 0) {
      if (nowMs < recoveredAtMs) wakeAt(pass, recoveredAtMs);
      else memory.crashes = { ...memory.crashes, [revisionId]: { ...crashes, streak: 0 } };
    }
  }
  const { preparation } = facts;
  if (preparation?.phase === "failed" && isUnproven(pass, preparation.revisionId)) {
    const { revisionId, reason, message } = preparation;
    giveUp(pass, revisionId, { reason, message, exit_code: null, signal: null, last_lines: [] });
  }
}

/** Whether a revision with exclusive state is involved. Its server must stop before the next one starts, in either direction. */
function isExclusive(pass: Pass, goalId: string): boolean {
  const present = [goalId, pass.memory.currentRevisionId, ...pass.facts.replicas.map(({ revisionId }) => revisionId)];
  return present.some((revisionId) => runOf(pass, revisionId)?.artifact.rollout === "handover");
}

function sleepWhenIdle(pass: Pass, goalId: string): void {
  const { memory, nowMs, facts } = pass;
  const run = runOf(pass, goalId);
  const isSettled = memory.currentRevisionId === goalId && memory.heldSinceMs === null;
  if (run === null || !isSettled) return;
  if (!canSleep(pass, run)) {
    memory.isAsleep = false;
    return;
  }
  if (memory.isAsleep) {
    wakeWhenDue(pass);
    return;
  }
  memory.activeSinceMs ??= nowMs;
  const isWaking = memory.wakingSinceMs !== null && nowMs - memory.wakingSinceMs < run.start_timeout_ms;
  const idleAfterMs = pass.assignment?.idle_after_ms ?? 0;
  const activeAtMs = Math.max(memory.activeSinceMs, facts.lastRequestAtMs ?? 0);
  const idleAtMs = activeAtMs + idleAfterMs;
  const isBusy = liveOf(pass, goalId).some((replica) => replica.inFlight > 0);
  if (nowMs < idleAtMs) wakeAt(pass, idleAtMs);
  else if (isBusy || isWaking) wakeAt(pass, nowMs + Math.max(idleAfterMs, 1_000));
  else if (!hasQueue(run) || isQueueQuiet(pass, goalId, activeAtMs)) {
    memory.isAsleep = true;
    memory.dueAtMs = hasQueue(run) ? (facts.queue?.dueAtMs ?? null) : null;
    memory.wakingSinceMs = null;
    memory.scale = null;
    log(pass, "deployment put to sleep", { revision_id: goalId, idle_after_ms: idleAfterMs });
  }
}

/** How old the answer about a queue may be that a deployment falls asleep by. */
const queueFreshMs = 10_000;

/** Time between two questions to a server whose queue is not quiet, or which does not answer. */
const queueRecheckMs = 60_000;

/** A deployment that has to be awake again this soon does not fall asleep. */
const sleepMinMs = 60_000;

/** A deployment is woken this long before work is due, because its start takes a moment. */
const wakeEarlyMs = 10_000;

/** Longest time until a pass rechecks when a sleeping deployment has to wake. Timers cannot wait for months. */
const dueRecheckMs = 3_600_000;

/** Whether nothing waits, runs or is due soon, by what a replica said after the last request. Asks one first. */
function isQueueQuiet(pass: Pass, goalId: string, activeAtMs: number): boolean {
  const { nowMs, facts, actions } = pass;
  const { queue } = facts;
  const isFresh = queue !== null && queue.askedAtMs > activeAtMs && nowMs - queue.askedAtMs <= queueFreshMs;
  if (!isFresh) {
    const isTooEarly = queue !== null && !queue.isQuiet && nowMs - queue.askedAtMs < queueRecheckMs;
    const [replica] = readyOf(pass, goalId);
    if (!isTooEarly && replica !== undefined) actions.push({ kind: "readQueue", replicaId: replica.replicaId });
    wakeAt(pass, nowMs + queueRecheckMs);
    return false;
  }
  const isLongEnough = queue.dueAtMs === null || queue.dueAtMs - nowMs >= sleepMinMs;
  if (!queue.isQuiet || !isLongEnough) wakeAt(pass, nowMs + queueRecheckMs);
  return queue.isQuiet && isLongEnough;
}

function wakeWhenDue(pass: Pass): void {
  const { memory, nowMs } = pass;
  if (memory.dueAtMs === null) return;
  const atMs = memory.dueAtMs - wakeEarlyMs;
  if (nowMs < atMs) wakeAt(pass, Math.min(atMs, nowMs + dueRecheckMs));
  else Object.assign(memory, wake(memory, nowMs));
}

function causeOf({ reason, message, exitCode, signal, lastLines, variables }: ReplicaExit): Cause {
  const known = { reason, message, exit_code: exitCode, signal, last_lines: lastLines.slice(-30) };
  return variables === undefined ? known : { ...known, variables };
}
