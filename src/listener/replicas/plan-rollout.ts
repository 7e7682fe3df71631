import type { RevisionRun } from "../../contract/listeners/assignment.ts";
import {
  awaitDrain,
  desiredReplicas,
  drain,
  drainTimeoutMsOf,
  isStaying,
  isUnproven,
  liveOf,
  log,
  type Pass,
  readyOf,
  remove,
  retryAtMsOf,
  runOf,
  start,
  wakeAt,
} from "./pass.ts";
import type { ReplicaFacts } from "./plan-state.ts";

/** Strategy `rolling`: starts new replicas beside the old ones, moves traffic once all are ready, then drains the old ones. */
export function rollingUpdate(pass: Pass, goal: RevisionRun): void {
  const { memory, facts } = pass;
  const goalId = goal.revision_id;
  const currentId = memory.currentRevisionId;
  const isSleeping = memory.isAsleep && currentId === goalId;
  keepRunning(pass, goal, isSleeping ? 0 : desiredReplicas(pass, goal));
  const current = currentId === goalId ? null : runOf(pass, currentId);
  // The serving revision answers until the target is ready, so the pass repairs it like any other.
  if (current !== null && !memory.isAsleep) keepRunning(pass, current, desiredReplicas(pass, current));
  if (currentId !== goalId && readyOf(pass, goalId).length >= desiredReplicas(pass, goal)) moveTraffic(pass, goalId);
  for (const replica of facts.replicas) {
    const isWanted = replica.revisionId === goalId || replica.revisionId === memory.currentRevisionId;
    if (!isWanted || replica.replicaId in memory.draining) drain(pass, replica);
  }
  memory.heldSinceMs = null;
}

/**
 * Strategy `handover`: at most one server uses the state at any time. The pass stops the old server once no request is in
 * flight, and starts the new one when nothing of the old one is left. Requests wait in between. The goal may also be the
 * serving revision: after a failed target it is started again in the same way.
 */
export function handOver(pass: Pass, goal: RevisionRun): void {
  const { memory, facts } = pass;
  const goalId = goal.revision_id;
  const own = liveOf(pass, goalId);
  const others = facts.replicas.filter((replica) => !own.includes(replica));
  if (memory.isAsleep && memory.currentRevisionId === goalId) {
    for (const replica of facts.replicas) drain(pass, replica);
    return;
  }
  if (own.length === 0 && others.length > 0) {
    stopOthers(pass, goal, others);
    return;
  }
  // This should never happen. If it does, the serving replica stays and the other one waits for its turn.
  const isIntruding = others.some(({ phase }) => phase === "ready") && !own.some(({ phase }) => phase === "ready");
  for (const replica of isIntruding ? own : others) drain(pass, replica);
  if (others.length > 0) return;
  keepRunning(pass, goal, desiredReplicas(pass, goal));
  if (readyOf(pass, goalId).length < desiredReplicas(pass, goal)) return;
  if (memory.currentRevisionId !== goalId) moveTraffic(pass, goalId);
  memory.heldSinceMs = null;
}

/** Stops other revisions before the goal starts: holds requests, waits for those in flight, then removes the replicas. */
function stopOthers(pass: Pass, goal: RevisionRun, others: ReplicaFacts[]): void {
  const { memory, nowMs } = pass;
  const serving = others.filter((replica) => replica.phase === "ready" && isStaying(pass, replica));
  if (serving.length === 0) {
    for (const replica of others) drain(pass, replica);
    return;
  }
  // While requests are held, every second counts, so everything that can fail early runs before.
  const retryAtMs = retryAtMsOf(pass, goal.revision_id);
  if (nowMs < retryAtMs) {
    wakeAt(pass, retryAtMs);
    return;
  }
  if (isUnproven(pass, goal.revision_id) && !isPrepared(pass, goal)) {
    // Requests were held for a target that has been replaced since. The serving replica still runs and answers until then.
    memory.heldSinceMs = null;
    return;
  }
  const isFirstPass = memory.heldSinceMs === null;
  memory.heldSinceMs ??= nowMs;
  const untilMs = memory.heldSinceMs + Math.max(...serving.map(({ revisionId }) => drainTimeoutMsOf(pass, revisionId)));
  const busy = serving.filter((replica) => isFirstPass || replica.inFlight > 0);
  if (isFirstPass || (busy.length > 0 && nowMs < untilMs)) {
    for (const replica of busy) awaitDrain(pass, replica, untilMs);
    return;
  }
  for (const replica of others) {
    remove(pass, replica, drainTimeoutMsOf(pass, replica.revisionId), "hands its state over");
  }
}

function isPrepared({ facts, actions }: Pass, goal: RevisionRun): boolean {
  const { preparation } = facts;
  if (preparation?.revisionId === goal.revision_id) return preparation.phase === "done";
  actions.push({ kind: "prepare", run: goal });
  return false;
}

/** Starts missing replicas of a revision as soon as its back-off allows, and drains surplus ones. */
function keepRunning(pass: Pass, run: RevisionRun, desired: number): void {
  const live = liveOf(pass, run.revision_id).toSorted(byReadyThenAge);
  for (const replica of live.slice(desired)) drain(pass, replica);
  if (live.length >= desired) return;
  const retryAtMs = retryAtMsOf(pass, run.revision_id);
  if (pass.nowMs < retryAtMs) wakeAt(pass, retryAtMs);
  else startMore(pass, run, desired - live.length);
}

function startMore(pass: Pass, run: RevisionRun, missing: number): void {
  for (let started = 0; started < missing; started++) start(pass, run);
}

function moveTraffic(pass: Pass, goalId: string): void {
  const { memory, nowMs } = pass;
  log(pass, "traffic moved", {
    revision_id: goalId,
    from_revision_id: memory.currentRevisionId ?? null,
    start_ms: memory.bringUp === null ? null : nowMs - memory.bringUp.sinceMs,
    held_ms: memory.heldSinceMs === null ? null : nowMs - memory.heldSinceMs,
  });
  memory.currentRevisionId = goalId;
  memory.bringUp = null;
  memory.isAsleep = false;
  memory.activeSinceMs = nowMs;
}

function byReadyThenAge(a: ReplicaFacts, b: ReplicaFacts): number {
  const readyFirst = Number(b.phase === "ready") - Number(a.phase === "ready");
  return (
    readyFirst || (a.startedAtMs ?? Infinity) - (b.startedAtMs ?? Infinity) || (a.replicaId < b.replicaId ? -1 : 1)
  );
}
