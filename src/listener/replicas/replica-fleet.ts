import { type Clock, nothingToCancel } from "../../base/clock.ts";
import { type Compute, offersLogs, offersMetrics, offersRuns, type ReplicaState } from "../../compute/compute.ts";
import type { Assignment } from "../../contract/listeners/assignment.ts";
import { scaleDownAfterMs as defaultScaleDownAfterMs } from "../../domain/limits.ts";
import type { Scale } from "../../domain/scaling.ts";
import type { Traffic } from "../../gateway/route.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { Fleet, FleetContext, FleetFactory, RunningDeployment } from "../fleet.ts";
import type { Snapshot } from "../session/snapshot.ts";
import { Actions } from "./actions.ts";
import { cancelTimers, type Member, newMember } from "./member.ts";
import { Observations } from "./observations.ts";
import { Observer } from "./observer.ts";
import { type Operation, type OperationLimits, Operations } from "./operations.ts";
import { replicaBounds } from "./pass.ts";
import { planReplicas } from "./plan.ts";
import { emptyMemory, type Facts, type ReplicaFacts, wake } from "./plan-state.ts";
import { replicaFacts } from "./replica-facts.ts";
import { Routes } from "./routes.ts";
import { type Scalable, Scaler } from "./scaler.ts";
import { WorkQueue } from "./work-queue.ts";

/** Delay before the next pass of a deployment after a pass that threw, which is a bug. Other deployments are not affected. */
const failedPassRetryMs = 30_000;

/** Every deployment gets a pass this often even if nothing happened. The work queue spreads the passes. */
const resyncMs = 300_000;

export interface ReplicaFleetOptions {
  compute: Compute;
  traffic: Traffic;
  limits?: Partial<OperationLimits>;
  /** The fleet runs fewer replicas only after fewer would have been enough for this long. Default: 30 minutes. */
  scaleDownAfterMs?: number;
}

/**
 * A start takes about 0.3 s of CPU for a small agent server. 16 at once keep two cores busy for 2.5 s, well within any
 * start deadline. A machine or cluster with more cores may get a higher limit.
 */
export const defaultLimits: OperationLimits = { startsMax: 16, removalsMax: 128 };

/** Creates fleets on a compute where the listener starts, drains and removes each replica itself. */
export function replicaFleet(options: ReplicaFleetOptions): FleetFactory {
  const { compute, traffic } = options;
  return {
    computeType: compute.type,
    facts: {},
    logs: offersLogs(compute) ? compute : null,
    readUsage: offersMetrics(compute) ? (signal) => compute.readUsage(signal) : null,
    readRunCounts: offersRuns(compute) ? (replicaId) => compute.readRunCounts(replicaId) : null,
    traffic,
    create: (context) => new ReplicaFleet(options, context),
  };
}

/**
 * All deployments of this listener. A pass is synchronous: it reads the known facts, plans, sets the route and hands the
 * other actions to the operations. Passes of one deployment never overlap, and ten thousand idle deployments cost nothing.
 */
class ReplicaFleet implements Fleet {
  readonly #compute: Compute;
  readonly #context: FleetContext;
  readonly #observer: Observer;
  readonly #scaler: Scaler;
  readonly #traffic: Traffic;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #observations: Observations;
  readonly #operations: Operations;
  readonly #actions: Actions;
  readonly #members = new Map<string, Member>();
  readonly #queue: WorkQueue;
  readonly #routes: Routes;
  /** Whether the replicas were observed at least once, and whether the control plane has listed all its deployments. */
  #hasObserved = false;
  #isListComplete = false;
  #isLeading = false;
  #cancelResync = () => {};

  constructor(options: ReplicaFleetOptions, context: FleetContext) {
    const { compute, traffic } = options;
    const { clock, logger, wallClock } = context;
    this.#context = context;
    this.#compute = compute;
    this.#traffic = traffic;
    this.#clock = clock;
    this.#logger = logger;
    this.#observations = new Observations(() => wallClock.now() - clock.now());
    this.#observer = new Observer({
      clock,
      logger,
      compute,
      onObserved: (states, number) => this.#observed(states, number),
    });
    this.#operations = new Operations({
      clock,
      logger,
      compute,
      limits: { ...defaultLimits, ...options.limits },
      secrets: context.secrets,
      rollouts: context.rollouts,
      observations: this.#observations,
      observationNumber: () => this.#observer.number,
      readLastLines: async (replicaId) => context.logShipper?.finish(replicaId),
      onEnd: (operation) => this.#ended(operation),
    });
    this.#actions = new Actions({
      clock,
      logger,
      compute,
      traffic,
      operations: this.#operations,
      observations: this.#observations,
      enqueue: (deploymentId) => this.#enqueue(deploymentId),
    });
    const holdMs = options.scaleDownAfterMs ?? defaultScaleDownAfterMs;
    this.#scaler = new Scaler({ clock, logger, compute, fleet: this, holdMs });
    this.#routes = new Routes(traffic);
    this.#queue = new WorkQueue({ clock, process: (deploymentId) => this.#pass(deploymentId) });
    traffic.onWake((deploymentId) => this.#wake(deploymentId));
  }

  start(): void {
    this.#compute.onChange(() => this.#observer.observe());
    this.#observer.observe();
  }

  close(): void {
    this.#observer.close();
    this.#scaler.stop();
  }

  get size(): number {
    return this.#members.size;
  }

  /** Returns the deployments that have replicas now, or had replicas that exited. */
  running(): RunningDeployment[] {
    return Array.from(this.#members.values(), ({ deploymentId, memory }) => {
      const replicas = this.#observations.of(deploymentId).filter(({ phase }) => phase !== "exited");
      const restarts = Object.values(memory.crashes).reduce((sum, { count }) => sum + count, 0);
      return { deploymentId, replicaIds: replicas.map(({ replicaId }) => replicaId), restarts };
    }).filter(({ replicaIds, restarts }) => replicaIds.length > 0 || restarts > 0);
  }

  /** Returns the deployments that carry traffic and may scale. */
  scalable(): Scalable[] {
    return Array.from(this.#members.values()).flatMap(({ deploymentId, assignment, memory }) => {
      const { currentRevisionId: id, scale, isAsleep } = memory;
      const run = [assignment?.serving, assignment?.target].find((one) => one != null && one.revision_id === id);
      if (run == null || scale === null || isAsleep || assignment?.op === "delete") return [];
      const { min, max } = replicaBounds(run);
      if (max === min) return [];
      const ready = this.#replicasOf(deploymentId).filter(
        ({ revisionId, phase, replicaId }) => revisionId === id && phase === "ready" && !(replicaId in memory.draining),
      );
      return [{ deploymentId, run, scale, ready }];
    });
  }

  scale(deploymentId: string, scale: Scale): void {
    const member = this.#members.get(deploymentId);
    if (member === undefined || member.memory.scale === null) return;
    const hasChanged = member.memory.scale.replicas !== scale.replicas;
    member.memory = { ...member.memory, scale };
    if (hasChanged) this.#enqueue(deploymentId);
  }

  /** This instance leads from now on. */
  lead(): void {
    this.#isLeading = true;
    if (this.#hasObserved) this.#queue.open();
    this.#resyncLater();
    this.#scaler.start();
    this.#observer.observe();
  }

  /** Another instance leads: cancels all work and forgets all assignments. */
  stepDown(reason: Error): void {
    this.#isLeading = false;
    this.#isListComplete = false;
    this.#queue.close();
    this.#cancelResync();
    for (const member of this.#members.values()) cancelTimers(member);
    this.#members.clear();
    this.#operations.cancelAll(reason);
    this.#scaler.stop();
  }

  assign(assignments: Assignment[]): void {
    for (const assignment of assignments) {
      const member = this.#member(assignment.deployment_id);
      if (member.assignment !== null && assignment.generation < member.assignment.generation) continue;
      if (member.assignment === null) member.memory = emptyMemory;
      member.assignment = assignment;
      if (member.preparation?.revisionId !== assignment.target?.revision_id) member.preparation = null;
      if (assignment.op === "apply") member.state = "present";
      this.#enqueue(member.deploymentId);
    }
  }

  /** The list contains all deployments, so replicas of any other are orphans. */
  completeList(deploymentIds: ReadonlySet<string>): void {
    this.#isListComplete = true;
    for (const member of this.#members.values()) {
      if (deploymentIds.has(member.deploymentId) || member.assignment === null) continue;
      member.assignment = null;
      this.#enqueue(member.deploymentId);
    }
    this.#adoptOrphans(this.#observations.deploymentIds());
    const slugs = new Set(Array.from(this.#members.values(), ({ assignment }) => assignment?.slug));
    this.#routes.keepOnly(slugs);
  }

  /** Returns the assignments that this fleet holds. */
  held(): { deployment_id: string; generation: number }[] {
    return Array.from(this.#members.values()).flatMap(({ deploymentId, assignment }) =>
      assignment === null ? [] : [{ deployment_id: deploymentId, generation: assignment.generation }],
    );
  }

  /** The control plane no longer knows these deployments. */
  disown(deploymentIds: ReadonlySet<string>): void {
    for (const deploymentId of deploymentIds) {
      const member = this.#members.get(deploymentId);
      if (member === undefined) continue;
      this.#logger.warn({ deployment_id: deploymentId }, "deployment no longer assigned to this listener");
      member.assignment = null;
      this.#enqueue(deploymentId);
    }
  }

  #observed(states: ReplicaState[], number: number): void {
    const { cursors, logShipper } = this.#context;
    if (number === 1) cursors.keepOnly(new Set(states.map(({ replicaId }) => replicaId)));
    const { changed, isUncertain } = this.#observations.update(states, number);
    for (const deploymentId of changed) {
      for (const state of this.#observations.of(deploymentId)) logShipper?.track(state);
    }
    this.#hasObserved = true;
    if (this.#isLeading) this.#queue.open();
    for (const deploymentId of changed) {
      for (const { phase, replicaId } of this.#observations.of(deploymentId)) {
        if (phase !== "starting") this.#operations.releaseSlot(replicaId);
      }
      this.#enqueue(deploymentId);
    }
    if (this.#isListComplete) this.#adoptOrphans(changed);
    if (isUncertain) this.#observer.observe();
  }

  #ended({ kind, replicaId, deploymentId }: Operation): void {
    if (kind === "remove") this.#context.logShipper?.forget(replicaId);
    this.#enqueue(deploymentId);
    this.#observer.observe();
  }

  /** The control plane has stored a snapshot. For a deleted deployment that was the last one. */
  reportStored({ deployment_id: deploymentId, deleted }: Snapshot): void {
    const member = this.#members.get(deploymentId);
    if (!deleted || member?.assignment?.op !== "delete" || member.state !== "removed") return;
    this.#drop(member);
  }

  #adoptOrphans(deploymentIds: Iterable<string>): void {
    if (!this.#isLeading || !this.#context.mayAct()) return;
    for (const deploymentId of deploymentIds) {
      if (this.#members.has(deploymentId)) continue;
      this.#logger.warn({ deployment_id: deploymentId }, "replicas of an unknown deployment found");
      this.#member(deploymentId);
      this.#enqueue(deploymentId);
    }
  }

  #member(deploymentId: string): Member {
    const known = this.#members.get(deploymentId);
    if (known !== undefined) return known;
    const member = newMember(deploymentId);
    this.#members.set(deploymentId, member);
    return member;
  }

  #drop(member: Member): void {
    cancelTimers(member);
    this.#members.delete(member.deploymentId);
    this.#context.forget(member.deploymentId);
  }

  #wake(deploymentId: string): void {
    const member = this.#members.get(deploymentId);
    if (member === undefined) return;
    member.memory = wake(member.memory, this.#clock.now());
    this.#enqueue(deploymentId);
  }

  /** Rechecks the deployments whose passes were skipped. */
  recheck(): void {
    this.#adoptOrphans(this.#isListComplete ? this.#observations.deploymentIds() : []);
    this.#enqueueAll();
  }

  #enqueueAll(): void {
    for (const deploymentId of this.#members.keys()) this.#enqueue(deploymentId);
  }

  #enqueue(deploymentId: string): void {
    if (this.#isLeading) this.#queue.add(deploymentId);
  }

  #pass(deploymentId: string): void {
    const member = this.#members.get(deploymentId);
    if (member === undefined || !this.#context.mayAct()) return;
    try {
      this.#converge(member);
    } catch (error) {
      this.#logger.error({ deployment_id: deploymentId, error: describeError(error) }, "pass failed");
      this.#wakeAt(member, this.#clock.now() + failedPassRetryMs);
    }
  }

  #converge(member: Member): void {
    const plan = planReplicas(this.#factsOf(member), member.memory, this.#clock.now());
    member.memory = plan.memory;
    this.#routes.set(member.route, plan.route);
    member.route = plan.route;
    for (const action of plan.actions) this.#actions.perform(member, action);
    if (plan.report !== null) this.#context.report(plan.report);
    this.#wakeAt(member, plan.wakeAtMs);
    if (member.assignment === null && this.#factsOf(member).replicas.length === 0) this.#drop(member);
  }

  #factsOf(member: Member): Facts {
    const { deploymentId, assignment, preparation, state } = member;
    const lastRequestAt = assignment === null ? null : this.#traffic.lastRequestAt(assignment.slug);
    return {
      deploymentId,
      assignment,
      replicas: this.#replicasOf(deploymentId, member.runs),
      lastRequestAtMs: lastRequestAt?.getTime() ?? null,
      queue: member.queue,
      preparation,
      state,
    };
  }

  #replicasOf(deploymentId: string, runs: Member["runs"] = null): ReplicaFacts[] {
    return replicaFacts(deploymentId, {
      observations: this.#observations,
      operations: this.#operations,
      traffic: this.#traffic,
      runs,
    });
  }

  #wakeAt(member: Member, wakeAtMs: number | null): void {
    member.cancelWake();
    member.cancelWake = nothingToCancel;
    if (wakeAtMs === null) return;
    const delayMs = Math.max(0, wakeAtMs - this.#clock.now());
    member.cancelWake = this.#clock.setTimeout(() => this.#enqueue(member.deploymentId), delayMs);
  }

  #resyncLater(): void {
    this.#cancelResync();
    this.#cancelResync = this.#clock.setTimeout(() => {
      this.#observer.observe();
      this.#enqueueAll();
      this.#resyncLater();
    }, resyncMs);
  }
}
