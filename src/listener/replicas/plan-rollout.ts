import type { RevisionRun } from "../../contract/listeners/assignment.ts";
import {
  awaitDrain,
  desiredReplicas,
  drain,
  drainTimeoutMsOf,
  endHandover,
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
  switchTimesOf,
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
  endHandover(pass);
}

/**
 * Strategy `handover`: at most one server uses the state at any time. The old server gets requests until it is quiet or
 * its drain timeout is over. Then requests wait while it stops and the new one starts. The goal may also be the serving
 * revision: after a failed target it is started again in the same way.
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
  endHandover(pass);
}

/** Requests that are older count as long ones: a handover waits for them before it holds others. */
const longRequestMs = 1_000;

/** How long held requests wait for those in flight before a handover lets all through again, or cuts them. */
const holdDrainMs = 1_000;

/** Interval at which a handover asks the server for its runs. */
const runsIntervalMs = 1_000;

/** Stops other revisions before the goal starts: waits until they are quiet, holds requests, then removes the replicas. */
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
    endHandover(pass);
    return;
  }
  memory.quietAwaitedSinceMs ??= nowMs;
  const drainMs = Math.max(...serving.map(({ revisionId }) => drainTimeoutMsOf(pass, revisionId)));
  // The goal needs the other half of its start timeout to start.
  const limitMs = memory.quietAwaitedSinceMs + Math.min(drainMs, goal.start_timeout_ms / 2);
  if (memory.heldSinceMs === null) {
    if (nowMs < limitMs && !serving.every((replica) => isQuiet(pass, replica))) {
      wakeAt(pass, Math.min(limitMs, nowMs + runsIntervalMs));
      return;
    }
    memory.heldSinceMs = nowMs;
    for (const replica of serving) awaitDrain(pass, replica, nowMs + holdDrainMs);
    return;
  }
  if (!hasStoppedWorking(pass, serving, limitMs)) return;
  const isCut = nowMs >= limitMs;
  memory.handover = { revisionId: goal.revision_id, heldMs: 0, ...(isCut ? countCut(serving) : nothingCut) };
  for (const replica of others) {
    const times = switchTimesOf(pass, replica.revisionId, replica.runs?.count == null ? "unknown" : "known");
    remove(pass, replica, times, "hands its state over");
  }
}

/** Whether no run is in progress and no request takes long. Asks the server about its runs when the answer is old. */
function isQuiet(pass: Pass, replica: ReplicaFacts): boolean {
  const { runs, oldestRequestMs, replicaId } = replica;
  const isOld = runs === null || (runs.count !== null && runs.askedAtMs + runsIntervalMs <= pass.nowMs);
  if (isOld) pass.actions.push({ kind: "readRuns", replicaId });
  return oldestRequestMs < longRequestMs && (runs?.count === null || runs?.count === 0);
}

/**
 * Whether the serving replicas can be stopped while requests are held. Work that began just before the hold may take
 * long. Before the limit, the handover then lets all requests through again; after the limit, it cuts the work.
 */
function hasStoppedWorking(pass: Pass, serving: ReplicaFacts[], limitMs: number): boolean {
  const { memory, nowMs } = pass;
  const heldSinceMs = memory.heldSinceMs ?? nowMs;
  let isIdle = true;
  for (const { replicaId, runs, inFlight } of serving) {
    const isUpToDate = runs !== null && (runs.count === null || runs.askedAtMs >= heldSinceMs);
    if (inFlight === 0 && !isUpToDate) pass.actions.push({ kind: "readRuns", replicaId });
    isIdle &&= inFlight === 0 && isUpToDate && (runs.count === null || runs.count === 0);
  }
  if (isIdle || nowMs >= Math.max(limitMs, heldSinceMs + holdDrainMs)) return true;
  if (nowMs >= heldSinceMs + holdDrainMs) memory.heldSinceMs = null;
  wakeAt(pass, nowMs < heldSinceMs + holdDrainMs ? heldSinceMs + holdDrainMs : nowMs + runsIntervalMs);
  return false;
}

const nothingCut = { requestsCut: 0, runsCut: 0 };

const countCut = (serving: ReplicaFacts[]) => ({
  requestsCut: serving.reduce((sum, { inFlight }) => sum + inFlight, 0),
  runsCut: serving.reduce((sum, { runs }) => sum + (runs?.count ?? 0), 0),
});

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
  else startMore(pass, run, (isAlone(pass, run) ? 1 : desired) - live.length);
}

/** Whether the first replica has yet to do the work before its start that others must not do at the same time. */
const isAlone = (pass: Pass, { revision_id, artifact }: RevisionRun) =>
  artifact.starts_alone === true && readyOf(pass, revision_id).length === 0;

function startMore(pass: Pass, run: RevisionRun, missing: number): void {
  for (let started = 0; started < missing; started++) start(pass, run);
}

function moveTraffic(pass: Pass, goalId: string): void {
  const { memory, nowMs } = pass;
  const { handover } = memory;
  if (handover?.revisionId === goalId) {
    memory.handover = { ...handover, heldMs: memory.heldSinceMs === null ? 0 : nowMs - memory.heldSinceMs };
  }
  log(pass, "traffic moved", {
    revision_id: goalId,
    from_revision_id: memory.currentRevisionId ?? null,
    start_ms: memory.bringUp === null ? null : nowMs - memory.bringUp.sinceMs,
    held_ms: memory.heldSinceMs === null ? null : nowMs - memory.heldSinceMs,
    requests_cut: handover?.revisionId === goalId ? handover.requestsCut : 0,
    runs_cut: handover?.revisionId === goalId ? handover.runsCut : 0,
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
