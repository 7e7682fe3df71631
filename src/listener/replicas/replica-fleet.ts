import { type Clock, nothingToCancel } from "../../base/clock.ts";
import { type Compute, offersLogs, offersMetrics, offersRuns, type ReplicaState } from "../../compute/compute.ts";
import type { Assignment } from "../../contract/listeners/assignment.ts";
import { scaleDownAfterMs as defaultScaleDownAfterMs } from "../../domain/limits.ts";
import type { Scale } from "../../domain/scaling.ts";
import type { Route, Traffic } from "../../gateway/route.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { Fleet, FleetContext, FleetFactory, RunningDeployment } from "../fleet.ts";
import type { Snapshot } from "../session/snapshot.ts";
import { Observations } from "./observations.ts";
import { Observer } from "./observer.ts";
import { type Operation, type OperationLimits, Operations } from "./operations.ts";
import { type Action, replicaBounds } from "./pass.ts";
import { planReplicas } from "./plan.ts";
import {
  emptyMemory,
  type Facts,
  type Memory,
  type Preparation,
  type ReplicaFacts,
  type RunCount,
  wake,
} from "./plan-state.ts";
import { replicaFacts } from "./replica-facts.ts";
import { Routes } from "./routes.ts";
import { type Scalable, Scaler } from "./scaler.ts";
import { WorkQueue } from "./work-queue.ts";

/** One deployment of this fleet. */
interface Member {
  readonly deploymentId: string;
  /** Null: the control plane does not know it. */
  assignment: Assignment | null;
  memory: Memory;
  route: Route | null;
  preparation: Preparation | null;
  state: Facts["state"];
  drains: Map<string, AbortController> | null;
  /** Answers about runs in progress, by replica. Null: no handover has asked. */
  runs: Map<string, RunCount> | null;
  cancelWake: () => void;
}

/** Delay before the next pass of a deployment after a pass that threw, which is a bug. Other deployments are not affected. */
const failedPassRetryMs = 30_000;

/** Every deployment gets a pass this often even if nothing happened. The work queue spreads the passes. */
export const resyncMs = 300_000;

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
  readonly #members = new Map<string, Member>();
  readonly #queue: WorkQueue;
  readonly #routes: Routes;
  /** Whether the replicas were observed at least once, and whether the control plane has listed all its deployments. */
  #hasObserved = false;
  #isListComplete = false;
  #isLeading = false;
  #cancelResync = () => {};
  readonly #runReads = new Set<string>();

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
    for (const member of this.#members.values()) this.#cancelTimers(member);
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
    const member: Member = {
      deploymentId,
      assignment: null,
      memory: emptyMemory,
      route: null,
      preparation: null,
      state: "present",
      drains: null,
      runs: null,
      cancelWake: nothingToCancel,
    };
    this.#members.set(deploymentId, member);
    return member;
  }

  #cancelTimers(member: Member): void {
    member.cancelWake();
    for (const drain of member.drains?.values() ?? []) drain.abort();
  }

  #drop(member: Member): void {
    this.#cancelTimers(member);
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
    for (const action of plan.actions) this.#act(member, action);
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

  #act(member: Member, action: Action): void {
    const { assignment, deploymentId } = member;
    switch (action.kind) {
      case "log":
        this.#logger.info({ deployment_id: deploymentId, ...action.fields }, action.message);
        break;
      case "start":
        if (assignment !== null) this.#operations.start(assignment, action.run, action);
        break;
      case "prepare":
        if (assignment !== null) void this.#prepare(member, assignment, action.run);
        break;
      case "awaitDrain":
        void this.#awaitDrain(member, action);
        break;
      case "readRuns":
        void this.#readRuns(member, action.replicaId);
        break;
      case "remove":
        this.#remove(member, action);
        break;
      case "removeState":
        void this.#removeState(member);
        break;
    }
  }

  #remove(member: Member, action: Action & { kind: "remove" }): void {
    const { replicaId, because } = action;
    const { deploymentId, assignment } = member;
    const replica = this.#replicasOf(deploymentId).find((facts) => facts.replicaId === replicaId);
    if (replica === undefined) return;
    member.drains?.get(replicaId)?.abort();
    const { revisionId } = replica;
    this.#logger.debug({ deployment_id: deploymentId, replica_id: replicaId, because }, "replica is being removed");
    this.#operations.remove({ replicaId, deploymentId, revisionId, tenantId: assignment?.tenant_id ?? "" }, action);
  }

  async #prepare(member: Member, assignment: Assignment, run: NonNullable<Assignment["target"]>): Promise<void> {
    if (member.preparation?.revisionId === run.revision_id) return;
    const preparation: Preparation = { revisionId: run.revision_id, phase: "running", message: "" };
    member.preparation = preparation;
    try {
      await this.#operations.prepare(assignment, run);
      preparation.phase = "done";
    } catch (error) {
      preparation.phase = "failed";
      preparation.message = describeError(error);
    }
    if (member.preparation === preparation) this.#enqueue(member.deploymentId);
  }

  async #awaitDrain(member: Member, action: Action & { kind: "awaitDrain" }): Promise<void> {
    const { replicaId, timeoutMs } = action;
    member.drains ??= new Map();
    const { drains } = member;
    if (drains.has(replicaId)) return;
    const drain = new AbortController();
    drains.set(replicaId, drain);
    // An aborted drain has no waiter any more.
    await this.#traffic.drained(replicaId, { timeoutMs, signal: drain.signal }).catch(() => false);
    if (drains.get(replicaId) === drain) drains.delete(replicaId);
    if (!drain.signal.aborted) this.#enqueue(member.deploymentId);
  }

  /** Asks for the runs in progress, once at a time. A driver that cannot tell counts as a server that does not report them. */
  async #readRuns(member: Member, replicaId: string): Promise<void> {
    if (this.#runReads.has(replicaId)) return;
    this.#runReads.add(replicaId);
    const askedAtMs = this.#clock.now();
    const compute = this.#compute;
    const count = offersRuns(compute) ? await compute.readRuns(replicaId).catch(() => undefined) : null;
    this.#runReads.delete(replicaId);
    const present = new Set(this.#observations.of(member.deploymentId).map((replica) => replica.replicaId));
    const others = [...(member.runs ?? [])].filter(([id]) => present.has(id));
    member.runs = new Map([...others, [replicaId, { count, askedAtMs }]]);
    this.#enqueue(member.deploymentId);
  }

  async #removeState(member: Member): Promise<void> {
    member.state = "beingRemoved";
    try {
      await this.#operations.removeState(member.deploymentId);
    } catch {
      return;
    }
    if (member.assignment?.op !== "delete") return;
    member.state = "removed";
    this.#enqueue(member.deploymentId);
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
