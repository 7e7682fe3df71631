import type { StopTimes } from "../../compute/compute.ts";
import type { Assignment, RevisionRun } from "../../contract/listeners/assignment.ts";
import { engines } from "../../domain/engines.ts";
import type { Facts, Memory, ReplicaFacts } from "./plan-state.ts";

/** An action that a pass requests. A later pass may request it again while it is still in progress. */
export type Action =
  /** Fetches and checks everything the revision needs, without starting it. */
  | { kind: "prepare"; run: RevisionRun }
  /** `isUrgent`, here and below: requests wait for it, so it overtakes work for other deployments. */
  | { kind: "start"; replicaId: string; run: RevisionRun; isUrgent: boolean }
  /** Runs another pass once no request is in flight to the replica. */
  | { kind: "awaitDrain"; replicaId: string; timeoutMs: number }
  /** Asks the server how many runs are in progress, and then runs another pass. */
  | { kind: "readRuns"; replicaId: string }
  /** Asks the server what its queue holds and plans, and then runs another pass. */
  | { kind: "readQueue"; replicaId: string }
  | { kind: "remove"; replicaId: string; times: StopTimes; because: string; isUrgent: boolean }
  | { kind: "removeState" }
  /** Logs a line: a constant message with varying fields. */
  | { kind: "log"; message: string; fields: Record<string, string | number | boolean | null> };

/** The working state of one pass over one deployment. `memory` is a copy that the pass may change. */
export interface Pass {
  readonly facts: Facts;
  readonly nowMs: number;
  readonly assignment: Assignment | null;
  readonly memory: Memory;
  readonly actions: Action[];
  /** Replicas whose removal this pass begins. */
  readonly leaving: Set<string>;
  wakeAtMs: number | null;
}

/** Grace period of replicas that never served: no client waits for their answers. */
const unprovenGraceMs = 2_000;

/**
 * How long a server may take to stop while requests wait for the next one: with runs known to have ended or to be cut, and
 * without. The second SIGTERM is early because the server should not wait for runs. The kill is late because writing much
 * state on a busy machine takes many seconds, and a kill loses what is not written.
 */
const switchTimes = {
  known: { graceMs: 30_000, lastCallAfterMs: 1_000 },
  unknown: { graceMs: 30_000, lastCallAfterMs: 8_000 },
};

/** Returns how long a replica with local state may take to stop while requests wait: never longer than its drain timeout. */
export function switchTimesOf(pass: Pass, revisionId: string, runs: keyof typeof switchTimes): StopTimes {
  const { graceMs, lastCallAfterMs } = switchTimes[runs];
  return { graceMs: Math.min(drainTimeoutMsOf(pass, revisionId), graceMs), lastCallAfterMs };
}

/** Drain timeout for replicas of a revision that the assignment no longer names. */
const unknownDrainTimeoutMs = 30_000;

export function beginPass(facts: Facts, memory: Memory, nowMs: number): Pass {
  const known = new Set(facts.replicas.map(({ replicaId }) => replicaId));
  const draining = Object.fromEntries(Object.entries(memory.draining).filter(([replicaId]) => known.has(replicaId)));
  const { assignment } = facts;
  const copy = { ...memory, draining };
  return { facts, nowMs, assignment, memory: copy, actions: [], leaving: new Set(), wakeAtMs: null };
}

/** Returns the run that the assignment gives for a revision, or null if it does not name the revision. */
export function runOf({ assignment }: Pass, revisionId: string | null | undefined): RevisionRun | null {
  if (assignment?.target?.revision_id === revisionId) return assignment?.target ?? null;
  return assignment?.serving?.revision_id === revisionId ? (assignment?.serving ?? null) : null;
}

export const drainTimeoutMsOf = (pass: Pass, revisionId: string): number =>
  (runOf(pass, revisionId) ?? pass.assignment?.target ?? pass.assignment?.serving)?.drain_timeout_ms ??
  unknownDrainTimeoutMs;

export const startTimeoutMsOf = (pass: Pass, revisionId: string): number | null =>
  runOf(pass, revisionId)?.start_timeout_ms ?? null;

/** Returns the replica limits of a revision that is awake. A revision with exclusive state has exactly one replica. */
export function replicaBounds({ artifact, min_replicas, max_replicas }: RevisionRun): { min: number; max: number } {
  if (artifact.rollout === "handover") return { min: 1, max: 1 };
  const min = Math.max(1, min_replicas);
  return { min, max: Math.max(min, max_replicas) };
}

/** Returns the number of replicas to run. The scale belongs to the deployment, so a new revision starts with the same number. */
export function desiredReplicas({ memory }: Pass, run: RevisionRun): number {
  const { min, max } = replicaBounds(run);
  return Math.max(min, Math.min(max, memory.scale?.replicas ?? 0));
}

export const canSleep = ({ assignment }: Pass, run: RevisionRun): boolean =>
  run.min_replicas === 0 && assignment?.idle_after_ms != null;

/** Whether the agent server has runs and crons that become due without a request. */
export const hasQueue = ({ artifact }: RevisionRun): boolean => engines[artifact.engine ?? "own"].hasQueue;

/** Whether a revision is a target that has not served yet. Its first exit is a failed start, not a crash. */
export function isUnproven({ assignment, memory }: Pass, revisionId: string): boolean {
  const isTarget = assignment?.target?.revision_id === revisionId;
  const isSettled = assignment?.serving?.revision_id === revisionId || memory.currentRevisionId === revisionId;
  return isTarget && !isSettled && memory.failed?.revisionId !== revisionId;
}

/** Returns the replicas of a revision that are starting or ready and stay. */
export function liveOf(pass: Pass, revisionId: string): ReplicaFacts[] {
  return pass.facts.replicas.filter((replica) => replica.revisionId === revisionId && isStaying(pass, replica));
}

export const readyOf = (pass: Pass, revisionId: string): ReplicaFacts[] =>
  liveOf(pass, revisionId).filter(({ phase }) => phase === "ready");

export function isStaying({ memory, leaving }: Pass, { replicaId, phase, isBeingRemoved }: ReplicaFacts): boolean {
  const runs = phase === "starting" || phase === "ready";
  return runs && !isBeingRemoved && !leaving.has(replicaId) && !(replicaId in memory.draining);
}

/** Returns when a revision may be started again after a failure. */
export function retryAtMsOf({ memory }: Pass, revisionId: string): number {
  const refusedUntilMs = memory.bringUp?.revisionId === revisionId ? memory.bringUp.retryAtMs : 0;
  return Math.max(refusedUntilMs, memory.crashes[revisionId]?.retryAtMs ?? 0);
}

export function wakeAt(pass: Pass, atMs: number): void {
  pass.wakeAtMs = Math.min(pass.wakeAtMs ?? atMs, atMs);
}

export function log(pass: Pass, message: string, fields: (Action & { kind: "log" })["fields"]): void {
  pass.actions.push({ kind: "log", message, fields });
}

/** Lets requests through again: the handover is over or not possible now. */
export function endHandover({ memory }: Pass): void {
  memory.heldSinceMs = null;
  memory.quietAwaitedSinceMs = null;
}

/** Starts one more replica. Its id contains the time, so that no id is used twice. */
export function start(pass: Pass, run: RevisionRun): void {
  const { memory, nowMs, actions } = pass;
  memory.lastNumber = Math.max(nowMs, memory.lastNumber + 1);
  const revisionId = run.revision_id;
  if (isUnproven(pass, revisionId) && memory.bringUp?.revisionId !== revisionId) {
    memory.bringUp = { revisionId, sinceMs: nowMs, attempts: 0, retryAtMs: 0, cause: null };
  }
  const isUrgent = memory.currentRevisionId === revisionId || memory.heldSinceMs !== null;
  actions.push({ kind: "start", replicaId: `${revisionId}-${memory.lastNumber}`, run, isUrgent });
}

export function remove(
  pass: Pass,
  { replicaId, isBeingRemoved }: ReplicaFacts,
  times: StopTimes,
  because: string,
): void {
  if (isBeingRemoved || pass.leaving.has(replicaId)) return;
  pass.leaving.add(replicaId);
  const isUrgent = pass.memory.heldSinceMs !== null;
  pass.actions.push({ kind: "remove", replicaId, times, because, isUrgent });
}

/**
 * Takes a replica out of service. This pass removes it from the route. A later pass removes the replica once its requests
 * have ended or `drain_timeout_ms` has passed. The replica's own shutdown then gets the same time again, for runs that
 * continue without a request.
 */
export function drain(pass: Pass, replica: ReplicaFacts): void {
  const { memory, nowMs } = pass;
  const { replicaId, revisionId, phase, isBeingRemoved } = replica;
  if (isBeingRemoved || pass.leaving.has(replicaId)) return;
  if (phase !== "ready") {
    remove(pass, replica, { graceMs: unprovenGraceMs }, "no longer wanted");
    return;
  }
  const timeoutMs = drainTimeoutMsOf(pass, revisionId);
  const sinceMs = memory.draining[replicaId];
  if (sinceMs !== undefined && (replica.inFlight === 0 || nowMs >= sinceMs + timeoutMs)) {
    remove(pass, replica, { graceMs: timeoutMs }, "drained");
    return;
  }
  memory.draining = { ...memory.draining, [replicaId]: sinceMs ?? nowMs };
  awaitDrain(pass, replica, (sinceMs ?? nowMs) + timeoutMs);
}

export function awaitDrain(pass: Pass, { replicaId }: ReplicaFacts, untilMs: number): void {
  pass.actions.push({ kind: "awaitDrain", replicaId, timeoutMs: Math.max(0, untilMs - pass.nowMs) });
  wakeAt(pass, untilMs);
}
