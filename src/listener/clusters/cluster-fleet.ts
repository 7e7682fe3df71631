import { backoffMs } from "../../base/backoff.ts";
import { withDeadline } from "../../base/deadline.ts";
import type { ClusterCompute, ClusterStatus, RolloutProblem } from "../../compute/cluster.ts";
import type { Assignment, RevisionRun } from "../../contract/listeners/assignment.ts";
import { describeError } from "../../telemetry/log.ts";
import type { Fleet, FleetContext, FleetFactory, RunningDeployment } from "../fleet.ts";
import type { Snapshot } from "../session/snapshot.ts";
import type { LogShipper } from "../shipping/log-shipper.ts";
import { beginTarget, goalOf, keyOf, type Member, newMember, recordSleep } from "./cluster-member.ts";
import {
  causeOf,
  notForClusters,
  refusalOf,
  reportOf,
  snapshotOf,
  stoppedReportOf,
  workloadOf,
} from "./cluster-report.ts";
import type { ClusterTraffic } from "./gateway-traffic.ts";
import { maySleep, sleepStateOf, untilSleepMs } from "./sleep.ts";
import { TrackedReplicas } from "./tracked-replicas.ts";

export interface ClusterFleetOptions {
  cluster: ClusterCompute;
  /** How long the fleet waits for a passing problem, such as an image that cannot be pulled. Default: 2 minutes. */
  graceMs?: number;
  /** The requests that pass the gateway in the cluster. Absent: there is none, so the listener sees no traffic. */
  traffic?: ClusterTraffic;
}

/** The part of a `FleetContext` that a cluster fleet uses. */
type ClusterFleetContext = Pick<FleetContext, "clock" | "logger" | "secrets" | "mayAct" | "report" | "forget"> & {
  logShipper: Pick<LogShipper, "track" | "forget"> | null;
  session: () => { epoch: number; listener_id: string } | null;
};

/** Without a gateway in the cluster, requests reach the agents directly. */
const noTraffic = { counts: () => [] };

/** Creates fleets on a cluster engine that replaces replicas and moves traffic itself. */
export function clusterFleet(options: ClusterFleetOptions): FleetFactory {
  const { cluster } = options;
  return {
    computeType: cluster.type,
    facts: cluster.facts(),
    logs: cluster,
    readUsage: (signal) => cluster.readLoads(signal),
    readRunCounts: null,
    traffic: options.traffic ?? noTraffic,
    create: (context) => new ClusterFleet(options, context),
  };
}

/** A slow registry gets about this long for retries. */
const defaultGraceMs = 120_000;

/** Poll intervals during a rollout, independent of the watch, and in a settled state. */
const busyPollMs = 2_000;
const quietPollMs = 600_000;

/** Poll interval while it is open whether a replica that kept exiting stays. */
const streakPollMs = 15_000;

/** Interval at which a serving revision that can no longer start is applied again. Nothing else notices a deleted Secret. */
const repairMs = 60_000;

/** Poll interval until the gateway in the cluster serves a deployment that had a route of its own. */
const routePollMs = 15_000;

/** Poll interval while a deletion waits for an operator. */
const retainedPollMs = 15_000;

/** A pass makes about 20 calls. This many passes at once use an API server well without flooding it. */
const passesMax = 8;
const passTimeoutMs = 120_000;
const retryBounds = { firstMs: 1_000, maxMs: 60_000 };

/** Time beyond the start deadline, because the cluster's own controller should notice the deadline first. */
const overdueGraceMs = 30_000;

/**
 * The deployments of a listener on an engine that replaces replicas itself. The fleet applies the desired revision, waits
 * until it runs, and goes back to the serving revision if it cannot. Passes of one deployment never overlap.
 */
export class ClusterFleet implements Fleet {
  readonly #options: ClusterFleetOptions;
  readonly #context: ClusterFleetContext;
  readonly #tracked: TrackedReplicas;
  readonly #members = new Map<string, Member>();
  readonly #waiting = new Set<Member>();
  #running = 0;
  #leading: AbortController | null = null;

  constructor(options: ClusterFleetOptions, context: ClusterFleetContext) {
    this.#options = options;
    this.#context = context;
    this.#tracked = new TrackedReplicas(context.logShipper);
    options.cluster.onChange((deploymentId, isDrift) => this.#handleChange(deploymentId, isDrift));
  }

  get size(): number {
    return this.#members.size;
  }

  /** Returns the deployments that have replicas now, or had restarts. */
  running(): RunningDeployment[] {
    return Array.from(this.#members.values(), ({ deploymentId, replicas: { ids, restarts } }) => {
      return { deploymentId, replicaIds: ids, restarts };
    }).filter(({ replicaIds, restarts }) => replicaIds.length > 0 || restarts > 0);
  }

  /** Does nothing: the watch on the cluster began when it was opened. */
  start(): void {}

  close(): void {}

  lead(): void {
    this.#leading = new AbortController();
    this.#options.traffic?.follow(true);
  }

  stepDown(reason: Error): void {
    this.#leading?.abort(reason);
    this.#leading = null;
    this.#options.traffic?.follow(false);
    for (const member of this.#members.values()) member.cancelWake();
    this.#members.clear();
    this.#waiting.clear();
  }

  assign(assignments: Assignment[]): void {
    for (const assignment of assignments) {
      const member = this.#member(assignment.deployment_id);
      const before = member.assignment;
      if (before !== null && assignment.generation < before.generation) continue;
      member.assignment = assignment;
      if (before?.target?.revision_id !== assignment.target?.revision_id)
        beginTarget(member, this.#context.clock.monotonicMs());
      this.#enqueue(member);
    }
  }

  /** The list contains all deployments, so objects of any other are removed from the cluster. */
  completeList(deploymentIds: ReadonlySet<string>): void {
    for (const member of this.#members.values()) {
      if (!deploymentIds.has(member.deploymentId)) this.disown(new Set([member.deploymentId]));
    }
    this.#tracked.keepOnly(this.#members);
    void this.#adoptOrphans();
  }

  held(): { deployment_id: string; generation: number }[] {
    return [...this.#members.values()].flatMap(({ deploymentId, assignment }) =>
      assignment === null ? [] : [{ deployment_id: deploymentId, generation: assignment.generation }],
    );
  }

  disown(deploymentIds: ReadonlySet<string>): void {
    for (const deploymentId of deploymentIds) {
      const member = this.#members.get(deploymentId);
      if (member === undefined) continue;
      member.assignment = null;
      this.#enqueue(member);
    }
  }

  recheck(): void {
    for (const member of this.#members.values()) this.#enqueue(member);
  }

  reportStored({ deployment_id: deploymentId, deleted }: Snapshot): void {
    if (deleted) this.#drop(deploymentId);
  }

  async #adoptOrphans(): Promise<void> {
    const signal = this.#leading?.signal;
    if (signal === undefined) return;
    try {
      for (const { deploymentId, listenerId } of await this.#options.cluster.list(signal)) {
        if (this.#members.has(deploymentId) || this.#leading?.signal !== signal) continue;
        // Objects of another listener, perhaps of another control plane, in the same namespace. Removing them would delete
        // its databases.
        if (listenerId !== this.#context.session()?.listener_id) continue;
        this.#context.logger.warn({ deployment_id: deploymentId }, "objects of an unknown deployment found");
        this.#enqueue(this.#member(deploymentId));
      }
    } catch (error) {
      if (!signal.aborted) this.#context.logger.warn({ error: describeError(error) }, "objects cannot be listed");
    }
  }

  #member(deploymentId: string): Member {
    const known = this.#members.get(deploymentId);
    if (known !== undefined) return known;
    const member = newMember(deploymentId, this.#context);
    this.#members.set(deploymentId, member);
    return member;
  }

  #drop(deploymentId: string): void {
    this.#members.get(deploymentId)?.cancelWake();
    this.#members.delete(deploymentId);
    this.#tracked.update(deploymentId, []);
    this.#context.forget(deploymentId);
  }

  #handleChange(deploymentId: string, isDrift: boolean): void {
    const member = this.#members.get(deploymentId);
    if (member === undefined) return;
    // One change by another client causes several events until it is repaired.
    const isNew = isDrift && member.applied !== null;
    if (isNew && member.drift.record(this.#context.clock.monotonicMs())) member.applied = null;
    this.#enqueue(member);
  }

  #enqueue(member: Member): void {
    member.isPassPending = true;
    this.#waiting.add(member);
    this.#next();
  }

  #next(): void {
    const signal = this.#leading?.signal;
    if (signal === undefined) return;
    for (const member of this.#waiting) {
      if (this.#running >= passesMax) return;
      this.#waiting.delete(member);
      if (member.isRunning) continue;
      void this.#run(member, signal);
    }
  }

  async #run(member: Member, signal: AbortSignal): Promise<void> {
    member.isRunning = true;
    member.isPassPending = false;
    member.cancelWake();
    this.#running += 1;
    let nextPassMs = quietPollMs;
    try {
      const options = { clock: this.#context.clock, timeoutMs: passTimeoutMs, signal };
      nextPassMs = this.#context.mayAct()
        ? await withDeadline(options, (ending) => this.#pass(member, ending))
        : busyPollMs;
      member.failures = 0;
    } catch (error) {
      member.failures += 1;
      nextPassMs = backoffMs(member.failures, retryBounds);
      if (!signal.aborted) this.#handleFailure(member, error);
    }
    member.isRunning = false;
    this.#running -= 1;
    if (signal.aborted) return;
    if (member.isPassPending) this.#enqueue(member);
    else if (this.#members.get(member.deploymentId) === member) {
      member.cancelWake = this.#context.clock.setTimeout(() => this.#enqueue(member), nextPassMs);
    }
    this.#next();
  }

  /** Runs one pass. Returns the delay until the next one in milliseconds. */
  async #pass(member: Member, signal: AbortSignal): Promise<number> {
    const { assignment } = member;
    if (assignment === null || assignment.op === "delete") return this.#remove(member, signal);
    const goal = goalOf(member, assignment);
    if (goal === null) return this.#stop(member, assignment, signal);
    if (goal.cluster == null) {
      this.#decideFailure(member, assignment, goal, [notForClusters]);
      return quietPollMs;
    }
    const isReady = await this.#rollOut(member, assignment, goal, signal);
    if (!isReady) return busyPollMs;
    const untilMs = await this.#sleepWhenIdle(member, assignment, goal, signal);
    return Math.min(untilMs, member.replicas.crashStreak > 0 ? streakPollMs : quietPollMs);
  }

  /** Puts a deployment to sleep that no request has used for its idle time. Returns the delay until the next check. */
  async #sleepWhenIdle(member: Member, assignment: Assignment, goal: RevisionRun, signal: AbortSignal) {
    const { traffic, cluster } = this.#options;
    if (traffic === undefined) return quietPollMs;
    if (member.routedBy === "both") return routePollMs;
    // The gateway does not see the requests of other routes.
    if (member.routedBy === "own" || member.isAsleep || !maySleep(assignment, goal, true)) return quietPollMs;
    const { activeSinceMs, deploymentId } = member;
    const nowMs = this.#context.clock.monotonicMs();
    const idleAfterMs = assignment.idle_after_ms as number;
    const untilMs = untilSleepMs(traffic.activityOf(deploymentId), { idleAfterMs, activeSinceMs, nowMs });
    if (untilMs > 0) return untilMs;
    await cluster.setAsleep(keyOf(member, assignment, goal), true, signal);
    this.#context.logger.info({ deployment_id: deploymentId, idle_after_ms: idleAfterMs }, "deployment put to sleep");
    return busyPollMs;
  }

  /**
   * Stops pods of a first revision that failed: they would restart without end and hold the room of others. Reports those
   * that still end, until none is left.
   */
  async #stop(member: Member, assignment: Assignment, signal: AbortSignal): Promise<number> {
    const session = this.#context.session();
    if (session === null) throw new Error("no session is open");
    const { slug, target, generation } = assignment;
    const { deploymentId } = member;
    const key = { deploymentId, slug, namespace: target?.cluster?.namespace ?? null };
    member.applied = null;
    await this.#options.cluster.stop({ ...key, epoch: session.epoch, generation }, signal);
    const state = await this.#options.cluster.inspect(key, signal);
    member.replicas.update(state.replicas);
    this.#tracked.update(deploymentId, state.replicas);
    this.#context.report(stoppedReportOf(member, assignment, state));
    return state.replicas.length === 0 ? quietPollMs : busyPollMs;
  }

  async #remove(member: Member, signal: AbortSignal): Promise<number> {
    const { assignment, deploymentId } = member;
    const key = { deploymentId, namespace: assignment?.namespace ?? null };
    const { isGone, because } = await this.#options.cluster.remove(key, signal);
    if (because !== null) this.#reportRetained(member, because);
    if (!isGone) return because === null ? busyPollMs : retainedPollMs;
    if (assignment === null) this.#drop(deploymentId);
    else this.#context.report({ ...snapshotOf(assignment), deleted: true });
    return quietPollMs;
  }

  #reportRetained({ assignment, deploymentId }: Member, because: string): void {
    this.#context.logger.warn({ deployment_id: deploymentId, because }, "deletion waits because data is retained");
    if (assignment === null) return;
    this.#context.report({ ...snapshotOf(assignment), cause: causeOf("Storage", because) });
  }

  async #rollOut(member: Member, assignment: Assignment, goal: RevisionRun, signal: AbortSignal): Promise<boolean> {
    const { cluster } = this.#options;
    const desired = `${goal.revision_id}/${assignment.generation}`;
    const nowMs = this.#context.clock.monotonicMs();
    if (mustRepeat(member, nowMs)) member.applied = null;
    let waitingFor: string | null = null;
    if (member.applied !== desired) {
      member.appliedAtMs = nowMs;
      // Set before the call, so that drift that occurs during the call is not lost.
      member.applied = desired;
      const applied = await this.#apply(assignment, goal, signal).catch((error) => {
        member.applied = null;
        throw error;
      });
      if ("refusal" in applied) {
        member.applied = null;
        this.#refuse(member, assignment, goal, applied.refusal);
        return false;
      }
      waitingFor = applied.waitingFor;
      member.routedBy = applied.routedBy ?? "own";
      member.drift.setHeld(applied.held);
      if (waitingFor !== null || applied.held !== null) member.applied = null;
    }
    const key = keyOf(member, assignment, goal);
    const state = await cluster.inspect(key, signal);
    member.replicas.update(state.replicas);
    member.replicas.updateStreak(state.crashStreak ?? (state.crashStreak === null ? null : 0));
    this.#tracked.update(member.deploymentId, state.replicas);
    const isCurrent = waitingFor === null && state.revisionId === goal.revision_id;
    const isReady = state.isReady || (isCurrent && (await this.#mayServeNow(member, assignment, goal, state, signal)));
    const sleeping = sleepStateOf(
      { ...state, isReady },
      isCurrent,
      maySleep(assignment, goal, this.#options.traffic !== undefined),
    );
    if (sleeping.endsSleep) await cluster.setAsleep(key, false, signal);
    recordSleep(member, sleeping, nowMs);
    const isServing = goal.revision_id === assignment.serving?.revision_id;
    member.replicas.updateLastExit(state.lastExit, assignment.serving?.revision_id ?? null);
    member.isBroken = isServing && !member.isReady && state.problems.some(({ weight }) => weight === "now");
    if (!member.isReady) this.#decideFailure(member, assignment, goal, state.problems);
    else member.problems.clear();
    this.#context.report(reportOf(member, assignment, goal, state));
    return member.isReady;
  }

  /**
   * Returns whether a revision serves although its replicas have just become ready. Where they replace others, the engine waits
   * whether they stay. The first ones replace none, and that wait only gives the cluster time to send requests to them.
   */
  async #mayServeNow(
    member: Member,
    assignment: Assignment,
    goal: RevisionRun,
    { isStarted }: ClusterStatus,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { artifact } = goal;
    if (isStarted !== true || artifact.kind !== "image") return false;
    const { serving } = assignment;
    if (serving?.revision_id === goal.revision_id) return member.isReady && !member.isAsleep;
    if (serving !== null) return false;
    const key = keyOf(member, assignment, goal);
    return this.#options.cluster.isReached({ ...key, healthPath: artifact.health_path }, signal);
  }

  async #apply(assignment: Assignment, goal: RevisionRun, signal: AbortSignal) {
    const { cluster } = this.#options;
    const { secrets } = this.#context;
    const values = await secrets.read(assignment.deployment_id, goal.secret_set_id, signal);
    const session = this.#context.session();
    if (session === null) throw new Error("no session is open");
    try {
      return await cluster.apply(workloadOf(assignment, goal, values, session), signal);
    } catch (error) {
      const refusal = refusalOf(error);
      if (refusal === null) throw error;
      return { refusal };
    }
  }

  /** Gives up a target when waiting cannot help or has not helped for long enough. Never gives up the serving revision. */
  #decideFailure(member: Member, assignment: Assignment, goal: RevisionRun, problems: RolloutProblem[]): void {
    // A newer assignment arrived during the pass. Its own pass is queued, and these observations do not apply to it.
    if (member.assignment !== assignment) return;
    const { target, serving } = assignment;
    const { graceMs = defaultGraceMs } = this.#options;
    const nowMs = this.#context.clock.monotonicMs();
    const present = new Set(problems.map(({ cause }) => cause.reason));
    for (const reason of member.problems.keys()) if (!present.has(reason)) member.problems.delete(reason);
    for (const reason of present) if (!member.problems.has(reason)) member.problems.set(reason, nowMs);
    const isRollingOut = goal.revision_id === target?.revision_id && target.revision_id !== serving?.revision_id;
    // Give up only once: each time requests another pass at once, which fails again while the cluster does not answer.
    if (!isRollingOut || member.failed?.revisionId === goal.revision_id) return;
    const isOverdue = nowMs - member.sinceMs > goal.start_timeout_ms + overdueGraceMs;
    const decisive = problems.find(({ weight, cause }) => {
      const lastedMs = nowMs - (member.problems.get(cause.reason) ?? nowMs);
      return weight === "now" || isOverdue || (weight === "grace" && lastedMs >= graceMs);
    });
    if (decisive === undefined) return;
    this.#context.logger.info({ deployment_id: member.deploymentId, reason: decisive.cause.reason }, "target failed");
    member.failed = { revisionId: goal.revision_id, cause: decisive.cause };
    member.isPassPending = true;
    this.#context.report({ ...snapshotOf(assignment), target_phase: "failed", cause: decisive.cause });
  }

  /** Reports a problem that may pass while the fleet waits for it. */
  #refuse(member: Member, assignment: Assignment, goal: RevisionRun, problem: RolloutProblem): void {
    this.#decideFailure(member, assignment, goal, [problem]);
    if (member.failed === null) {
      this.#context.report({ ...snapshotOf(assignment), target_phase: "starting", cause: problem.cause });
    }
  }

  #handleFailure(member: Member, error: unknown): void {
    const { logger } = this.#context;
    const { deploymentId, assignment } = member;
    logger.warn({ deployment_id: deploymentId, error: describeError(error) }, "deployment could not be applied");
    if (assignment === null) return;
    const cause = causeOf("ClusterError", describeError(error));
    if (assignment.op === "delete") this.#context.report({ ...snapshotOf(assignment), cause });
    else if (assignment.target !== null)
      this.#refuse(member, assignment, assignment.target, { weight: "deadline", cause });
  }
}

/** Returns whether a deployment must be applied again, although nothing else is wanted than before. */
function mustRepeat({ drift, isBroken, routedBy, appliedAtMs }: Member, nowMs: number): boolean {
  const sinceMs = nowMs - appliedAtMs;
  if (drift.isContested && drift.mayRepair(nowMs)) return true;
  return (isBroken && sinceMs >= repairMs) || (routedBy === "both" && sinceMs >= routePollMs);
}
