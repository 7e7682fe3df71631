import type { Clock } from "../../base/clock.ts";
import { type Compute, NoCapacity, offersRuns, RegistryUnreachable } from "../../compute/compute.ts";
import type { Assignment } from "../../contract/listeners/assignment.ts";
import type { Traffic } from "../../gateway/route.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { Member } from "./member.ts";
import type { Observations } from "./observations.ts";
import type { Operations } from "./operations.ts";
import type { Action } from "./pass.ts";
import type { Preparation } from "./plan-state.ts";
import { replicaFacts } from "./replica-facts.ts";

export interface ActionsDeps {
  clock: Clock;
  logger: Logger;
  compute: Compute;
  traffic: Traffic;
  operations: Operations;
  observations: Observations;
  /** Asks for another pass of a deployment. */
  enqueue: (deploymentId: string) => void;
}

/** Performs what a pass has planned. A pass does not wait: the end of an action asks for the next one. */
export class Actions {
  readonly #deps: ActionsDeps;
  readonly #runReads = new Set<string>();
  readonly #queueReads = new Set<string>();

  constructor(deps: ActionsDeps) {
    this.#deps = deps;
  }

  /** Begins one action. Its end enqueues the deployment. */
  perform(member: Member, action: Action): void {
    const { assignment, deploymentId } = member;
    switch (action.kind) {
      case "log":
        this.#deps.logger.info({ deployment_id: deploymentId, ...action.fields }, action.message);
        break;
      case "start":
        if (assignment !== null) this.#deps.operations.start(assignment, action.run, action);
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
      case "readQueue":
        void this.#readQueue(member, action.replicaId);
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
    const replica = replicaFacts(deploymentId, { ...this.#deps, runs: null }).find(
      (facts) => facts.replicaId === replicaId,
    );
    if (replica === undefined) return;
    member.drains?.get(replicaId)?.abort();
    const { revisionId } = replica;
    this.#deps.logger.debug(
      { deployment_id: deploymentId, replica_id: replicaId, because },
      "replica is being removed",
    );
    this.#deps.operations.remove(
      { replicaId, deploymentId, revisionId, tenantId: assignment?.tenant_id ?? "" },
      action,
    );
  }

  async #prepare(member: Member, assignment: Assignment, run: NonNullable<Assignment["target"]>): Promise<void> {
    if (member.preparation?.revisionId === run.revision_id) return;
    const preparation: Preparation = {
      revisionId: run.revision_id,
      phase: "running",
      reason: "StartError",
      message: "",
    };
    member.preparation = preparation;
    try {
      await this.#deps.operations.prepare(assignment, run);
      preparation.phase = "done";
    } catch (error) {
      preparation.phase = "failed";
      preparation.message = describeError(error);
      if (error instanceof NoCapacity) preparation.reason = "NoCapacity";
      if (error instanceof RegistryUnreachable || (error as { reason?: unknown }).reason === "ImagePull") {
        preparation.reason = "ImagePull";
      }
    }
    if (member.preparation === preparation) this.#deps.enqueue(member.deploymentId);
  }

  async #awaitDrain(member: Member, action: Action & { kind: "awaitDrain" }): Promise<void> {
    const { replicaId, timeoutMs } = action;
    member.drains ??= new Map();
    const { drains } = member;
    if (drains.has(replicaId)) return;
    const drain = new AbortController();
    drains.set(replicaId, drain);
    // An aborted drain has no waiter any more.
    await this.#deps.traffic.drained(replicaId, { timeoutMs, signal: drain.signal }).catch(() => false);
    if (drains.get(replicaId) === drain) drains.delete(replicaId);
    if (!drain.signal.aborted) this.#deps.enqueue(member.deploymentId);
  }

  /** Asks for the runs in progress, once at a time. A driver that cannot tell counts as a server that does not report them. */
  async #readRuns(member: Member, replicaId: string): Promise<void> {
    if (this.#runReads.has(replicaId)) return;
    this.#runReads.add(replicaId);
    const askedAtMs = this.#deps.clock.now();
    const compute = this.#deps.compute;
    const count = offersRuns(compute) ? await compute.readRuns(replicaId).catch(() => undefined) : null;
    this.#runReads.delete(replicaId);
    const present = new Set(this.#deps.observations.of(member.deploymentId).map((replica) => replica.replicaId));
    const others = [...(member.runs ?? [])].filter(([id]) => present.has(id));
    member.runs = new Map([...others, [replicaId, { count, askedAtMs }]]);
    this.#deps.enqueue(member.deploymentId);
  }

  /** Asks what the queue holds, once at a time. A server that does not tell when work is due never counts as quiet. */
  async #readQueue(member: Member, replicaId: string): Promise<void> {
    const { clock, compute } = this.#deps;
    if (this.#queueReads.has(member.deploymentId)) return;
    this.#queueReads.add(member.deploymentId);
    const askedAtMs = clock.now();
    const counts = offersRuns(compute) ? await compute.readRunCounts(replicaId).catch(() => undefined) : null;
    this.#queueReads.delete(member.deploymentId);
    const isQuiet = counts?.running === 0 && counts.nextDueInMs !== undefined && counts.nextDueInMs !== 0;
    const dueAtMs = counts?.nextDueInMs == null ? null : askedAtMs + counts.nextDueInMs;
    member.queue = { isQuiet, dueAtMs, askedAtMs };
    this.#deps.enqueue(member.deploymentId);
  }

  async #removeState(member: Member): Promise<void> {
    member.state = "beingRemoved";
    try {
      await this.#deps.operations.removeState(member.deploymentId);
    } catch {
      return;
    }
    if (member.assignment?.op !== "delete") return;
    member.state = "removed";
    this.#deps.enqueue(member.deploymentId);
  }
}
