import { backoffMs } from "../../base/backoff.ts";
import { type Clock, sleep } from "../../base/clock.ts";
import { settledWithin, withDeadline } from "../../base/deadline.ts";
import {
  type Compute,
  NoCapacity,
  offersPreparation,
  RegistryUnreachable,
  type ReplicaSpec,
  type ReplicaState,
  type StopTimes,
} from "../../compute/compute.ts";
import type { Assignment, RevisionRun } from "../../contract/listeners/assignment.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { Span } from "../../telemetry/traces.ts";
import type { RolloutSpans } from "../session/rollout-spans.ts";
import { replicaEnvironment, type Secrets } from "../session/secrets.ts";
import { FairSlots } from "./fair-slots.ts";
import type { Observations, Refusal } from "./observations.ts";

/** A start or a removal in progress. Each replica has at most one at a time. */
export interface Operation {
  kind: "start" | "remove";
  replicaId: string;
  deploymentId: string;
  revisionId: string;
  /** When the listener called the driver to start it. Null: not yet. */
  startedAtMs: number | null;
}

interface Running extends Operation {
  readonly abort: AbortController;
  /** The call to the driver. It may outlast an operation that was cancelled. */
  driverCall: Promise<unknown>;
  ended: Promise<void>;
}

/** The parameters of a start. */
interface StartRequest {
  operation: Running;
  isUrgent: boolean;
  signal: AbortSignal;
  span: Span | undefined;
}

export interface OperationLimits {
  /** Maximum number of replicas that start at the same time. */
  startsMax: number;
  /** Maximum number of removals at the same time. A removal mostly waits for a server to exit. */
  removalsMax: number;
}

/**
 * A start holds its slot until the replica is ready, but at most this long. A thousand deployments that start at once
 * therefore start a few at a time, and a few that hang do not block the rest: with 16 slots, at least 3 start per second.
 */
const startSlotMsMax = 5_000;

/** Errors of a machine without more disk, memory, processes or files. */
const fullCodes = ["EAGAIN", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM", "ENOSPC"];

function refusalOf(error: unknown): Refusal["reason"] {
  const { code = "" } = error as NodeJS.ErrnoException;
  if (error instanceof NoCapacity || fullCodes.includes(code)) return "NoCapacity";
  return error instanceof RegistryUnreachable ? "RegistryUnreachable" : "EngineRefused";
}

/** Time that a driver gets beyond the grace period to kill and reap the process and to clean up. */
const removeSlackMs = 30_000;

/** How long a removal waits for a cancelled start that ignores its signal. */
const cancelTimeoutMs = 5_000;

/** The shipper reads the last lines of a replica before its removal. A driver that cannot return them must not delay it. */
const lastLinesTimeoutMs = 2_000;

const prepareTimeoutMs = 600_000;
const stateTimeoutMs = 60_000;
const retryBounds = { firstMs: 1_000, maxMs: 30_000 };

/** Executes the actions of plans in the background: one operation per replica, with limits on number and duration. */
export class Operations {
  readonly #compute: Compute;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #secrets: Secrets;
  readonly #rollouts: RolloutSpans;
  readonly #observations: Observations;
  readonly #observationNumber: () => number;
  readonly #onEnd: (operation: Operation) => void;
  readonly #readLastLines: (replicaId: string) => Promise<void>;
  readonly #starts: FairSlots;
  readonly #removals: FairSlots;
  readonly #slots = new Map<string, () => void>();
  readonly #running = new Map<string, Map<string, Running>>();
  #life = new AbortController();

  constructor(options: {
    compute: Compute;
    clock: Clock;
    logger: Logger;
    limits: OperationLimits;
    secrets: Secrets;
    rollouts: RolloutSpans;
    observations: Observations;
    observationNumber: () => number;
    onEnd: (operation: Operation) => void;
    readLastLines: (replicaId: string) => Promise<void>;
  }) {
    this.#compute = options.compute;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#secrets = options.secrets;
    this.#rollouts = options.rollouts;
    this.#observations = options.observations;
    this.#observationNumber = options.observationNumber;
    this.#onEnd = options.onEnd;
    this.#readLastLines = options.readLastLines;
    this.#starts = new FairSlots(options.limits.startsMax);
    this.#removals = new FairSlots(options.limits.removalsMax);
  }

  of(deploymentId: string): Iterable<Operation> {
    return this.#running.get(deploymentId)?.values() ?? [];
  }

  /** Cancels every operation. Calls that have not reached the driver are not made, and the others are no longer awaited. */
  cancelAll(reason: Error): void {
    this.#life.abort(reason);
    this.#life = new AbortController();
    this.#running.clear();
    for (const release of this.#slots.values()) release();
    this.#slots.clear();
  }

  start(
    assignment: Assignment,
    run: RevisionRun,
    { replicaId, isUrgent }: { replicaId: string; isUrgent: boolean },
  ): void {
    const deploymentId = assignment.deployment_id;
    const subject = { kind: "start", replicaId, deploymentId, revisionId: run.revision_id } as const;
    this.#run(subject, async (operation, signal) => {
      const refusal = await this.#rollouts.step("listener.start", subject, (span) =>
        this.#ensure(assignment, run, { operation, isUrgent, signal, span }),
      );
      this.#observations.expect(startingState(operation, this.#clock.now()), this.#observationNumber(), refusal);
    });
  }

  /** Asks the driver to start a replica. Returns its reason, in words for the user, if it refused, else null. */
  async #ensure(
    assignment: Assignment,
    run: RevisionRun,
    { operation, isUrgent, signal, span }: StartRequest,
  ): Promise<Refusal | null> {
    const { replicaId, deploymentId } = operation;
    try {
      const spec = await this.#spec(assignment, run, replicaId, signal);
      const release = await this.#starts.acquire({ key: assignment.tenant_id, isUrgent, signal });
      this.#holdSlot(replicaId, release);
      operation.startedAtMs = this.#clock.now();
      const options = { clock: this.#clock, timeoutMs: run.start_timeout_ms, signal };
      await withDeadline(options, (ending) => {
        const driverCall = this.#compute.ensure(spec, ending);
        operation.driverCall = driverCall;
        return driverCall;
      });
      return null;
    } catch (error) {
      signal.throwIfAborted();
      this.releaseSlot(replicaId);
      const fields = { deployment_id: deploymentId, replica_id: replicaId, error: describeError(error) };
      this.#logger.warn(fields, "replica could not be started");
      span?.fail("StartRefused");
      return { reason: refusalOf(error), message: fields.error };
    }
  }

  remove(
    replica: { replicaId: string; deploymentId: string; revisionId: string; tenantId: string },
    { times, isUrgent }: { times: StopTimes; isUrgent: boolean },
  ): void {
    const { tenantId, ...subject } = replica;
    const before = this.#running.get(subject.deploymentId)?.get(subject.replicaId);
    before?.abort.abort(new Error("the replica is no longer wanted"));
    this.#run({ kind: "remove", ...subject }, async (_, signal) => {
      // Never make two calls about one replica at the same time.
      const cancelled = Promise.allSettled([before?.ended, before?.driverCall]);
      await settledWithin({ clock: this.#clock, timeoutMs: cancelTimeoutMs, signal }, cancelled);
      this.releaseSlot(subject.replicaId);
      const release = await this.#removals.acquire({ key: tenantId, isUrgent, signal });
      try {
        await this.#removeWithRetry(subject.replicaId, times, signal);
      } finally {
        release();
      }
      this.#observations.forget(subject.deploymentId, subject.replicaId, this.#observationNumber());
    });
  }

  /** Releases the start slot of a replica that is ready or has exited, so that the next one may start. */
  releaseSlot(replicaId: string): void {
    this.#slots.get(replicaId)?.();
    this.#slots.delete(replicaId);
  }

  /** Fetches everything that a start needs, without starting. @throws Error in words for the user. */
  async prepare(assignment: Assignment, run: RevisionRun): Promise<void> {
    const { signal } = this.#life;
    const spec = await this.#spec(assignment, run, `${run.revision_id}-0`, signal);
    const compute = this.#compute;
    if (!offersPreparation(compute)) return;
    const options = { clock: this.#clock, timeoutMs: prepareTimeoutMs, signal };
    const subject = { deploymentId: assignment.deployment_id, revisionId: run.revision_id };
    await this.#rollouts.step("listener.prepare", subject, () =>
      withDeadline(options, (ending) => compute.prepare(spec, ending)),
    );
  }

  /** Deletes local state, with retries until it succeeds. @throws the reason why this listener stopped acting. */
  async removeState(deploymentId: string): Promise<void> {
    const { signal } = this.#life;
    const options = { clock: this.#clock, timeoutMs: stateTimeoutMs, signal };
    await this.#retryUntilDone("local state could not be removed", { deployment_id: deploymentId }, signal, () =>
      withDeadline(options, () => this.#compute.removeState(deploymentId)),
    );
  }

  async #spec(assignment: Assignment, run: RevisionRun, replicaId: string, signal: AbortSignal): Promise<ReplicaSpec> {
    const secrets = await this.#secrets.read(assignment.deployment_id, run.secret_set_id, signal);
    return {
      replicaId,
      deploymentId: assignment.deployment_id,
      tenantId: assignment.tenant_id,
      revisionId: run.revision_id,
      artifact: run.artifact,
      env: replicaEnvironment(secrets, run),
      memoryLimitMib: run.memory_limit_mib,
      cpuLimitCores: run.cpu_limit_cores,
      startTimeoutMs: run.start_timeout_ms,
      drainTimeoutMs: run.drain_timeout_ms,
    };
  }

  async #removeWithRetry(replicaId: string, times: StopTimes, signal: AbortSignal): Promise<void> {
    const lastLines = this.#readLastLines(replicaId);
    await settledWithin({ clock: this.#clock, timeoutMs: lastLinesTimeoutMs, signal }, lastLines);
    const options = { clock: this.#clock, timeoutMs: times.graceMs + removeSlackMs, signal };
    await this.#retryUntilDone("replica could not be removed", { replica_id: replicaId }, signal, () =>
      withDeadline(options, (ending) => this.#compute.remove(replicaId, { ...times, signal: ending })),
    );
  }

  async #retryUntilDone(
    failure: string,
    fields: Record<string, string>,
    signal: AbortSignal,
    act: () => Promise<void>,
  ): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        return await act();
      } catch (error) {
        signal.throwIfAborted();
        this.#logger.warn({ ...fields, attempt, error: describeError(error) }, failure);
        await sleep(this.#clock, backoffMs(attempt, retryBounds), signal);
      }
    }
  }

  #holdSlot(replicaId: string, release: () => void): void {
    const cancel = this.#clock.setTimeout(() => this.releaseSlot(replicaId), startSlotMsMax);
    this.#slots.set(replicaId, () => {
      cancel();
      release();
    });
  }

  #run(subject: Omit<Operation, "startedAtMs">, act: (operation: Running, signal: AbortSignal) => Promise<void>): void {
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, this.#life.signal]);
    const running: Running = {
      ...subject,
      startedAtMs: null,
      abort,
      driverCall: Promise.resolve(),
      ended: Promise.resolve(),
    };
    const { deploymentId, replicaId } = subject;
    const ofDeployment = this.#running.get(deploymentId) ?? new Map<string, Running>();
    this.#running.set(deploymentId, ofDeployment.set(replicaId, running));
    const finish = () => {
      if (ofDeployment.get(replicaId) !== running || signal.aborted) return;
      ofDeployment.delete(replicaId);
      if (ofDeployment.size === 0 && this.#running.get(deploymentId) === ofDeployment)
        this.#running.delete(deploymentId);
      this.#onEnd(running);
    };
    // The only rejection is the reason of an abort, which its caller knows.
    running.ended = act(running, signal).then(finish, () => {});
  }
}

function startingState({ replicaId, deploymentId, revisionId, startedAtMs }: Operation, nowMs: number): ReplicaState {
  const limits = { memory: "not known yet", cpu: "not known yet" };
  const startedAt = new Date(startedAtMs ?? nowMs);
  return { replicaId, deploymentId, revisionId, phase: "starting", startedAt, limits };
}
