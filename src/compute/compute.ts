import type { Artifact } from "../contract/listeners/assignment.ts";

export interface ReplicaSpec {
  /** Chosen by the listener, unique for ever: `<revision id>-<n>`. */
  replicaId: string;
  deploymentId: string;
  tenantId: string;
  revisionId: string;
  artifact: Artifact;
  /** Complete environment of the agent server but PORT, which the driver chooses. Secret values included: never logged. */
  env: Record<string, string>;
  memoryLimitMib: number;
  cpuLimitCores: number;
  /** Not ready after this long: the driver reports `exited` with reason `NotHealthy` and has killed it. */
  startTimeoutMs: number;
  /** Given to the server's own drain, between SIGTERM and SIGKILL. */
  drainTimeoutMs: number;
}

export interface ReplicaExit {
  /** Stable CamelCase word: Exited, OutOfMemory, NotHealthy, StartError (it can never start), PortTaken, Lost. */
  reason: string;
  /** What happened and what to do about it. */
  message: string;
  exitCode: number | null;
  signal: string | null;
  /** At most 30, newest last. */
  lastLines: string[];
}

export interface ReplicaState {
  replicaId: string;
  deploymentId: string;
  revisionId: string;
  phase: "starting" | "ready" | "stopping" | "exited";
  /** Where the gateway reaches it; set once ready. */
  address?: { host: string; port: number };
  /** Set once exited. */
  exit?: ReplicaExit;
  startedAt: Date;
  /** `enforced` or a sentence saying why not: limits are never dropped silently. */
  limits: { memory: string; cpu: string };
  /** Version of the agent server from its `/info`, once ready and known. */
  serverVersion?: string;
}

/**
 * Runs replicas somewhere. Every verb may be called again at any time with the same argument and must then change
 * nothing: the listener forgets what it did and only ever compares.
 */
export interface Compute {
  /** `process`, `docker`, `kubernetes`, `simulated`. */
  readonly type: string;
  /**
   * Makes one replica exist. Resolves once it was started or was there already, not once it is ready. A replica that
   * has exited stays exited: the listener starts another one under a new id.
   * @throws Error when the engine refused; the listener retries with back-off until the start deadline.
   */
  ensure(spec: ReplicaSpec, signal: AbortSignal): Promise<void>;
  /** Everything this driver runs for us, exited ones included until removed, and what an earlier process started. */
  observe(signal: AbortSignal): Promise<ReplicaState[]>;
  /**
   * Asks the replica to end (SIGTERM), kills it with all its descendants after `graceMs`, then forgets it. Resolves when
   * it is gone. An unknown replica is no error.
   */
  remove(replicaId: string, options: { graceMs: number; signal: AbortSignal }): Promise<void>;
  /**
   * Removes every replica, also one whose start is under way and which `observe` does not show yet. A start that is asked
   * for meanwhile is the caller's to prevent.
   * @throws the first error of a removal, once all have ended.
   */
  removeAll(options: { graceMs: number; signal: AbortSignal }): Promise<void>;
  /** Deletes what a deployment's replicas kept between revisions (local state). Only called when none is left. */
  removeState(deploymentId: string): Promise<void>;
  /** Calls back whenever a replica became ready or exited, at latest one second after. Says *look*, not what. */
  onChange(notify: () => void): void;
  /** Lets go of timers and files. Replicas of drivers that outlive us go on running. */
  close(): Promise<void>;
}

export interface ReplicaLogChunk {
  lines: { key: string; timestamp: Date; stream: "stdout" | "stderr"; level: string; message: string }[];
  /** Pass as `after` next time. */
  cursor: string;
}

/** A driver that keeps its replicas' output. Reading forgets nothing: the cursor is the reader's. */
export interface ReplicaLogs {
  /** Next lines after `after` (null: from the start), at most about `bytesMax`. Empty `lines`: nothing new. */
  readLogs(replicaId: string, after: string | null, bytesMax: number): Promise<ReplicaLogChunk>;
}

export const offersLogs = (compute: Compute): compute is Compute & ReplicaLogs => "readLogs" in compute;

/** What one replica uses. How often it was restarted is the listener's to say. */
export interface ReplicaUsage {
  replicaId: string;
  /** Processor time since its start: the difference of two looks, by the time between them, is its load in cores. */
  cpuSeconds: number;
  /** What counts against its limit. */
  memoryMib: number;
}

/** The same where the engine measures load by itself. */
export interface ReplicaLoad {
  replicaId: string;
  /** Over the time that the engine measures by, such as half a minute. */
  cpuCores: number;
  memoryMib: number;
}

/** A driver that knows what its replicas use. */
export interface ReplicaMetrics {
  /** Of all that run; those that start or end while it looks may be left out. */
  readUsage(signal: AbortSignal): Promise<ReplicaUsage[]>;
}

export const offersMetrics = (compute: Compute): compute is Compute & ReplicaMetrics => "readUsage" in compute;

/** A driver whose replicas can be asked what they have to do. */
export interface ReplicaRuns {
  /** @returns as `readRunCount`; undefined for a replica that is not ready, too. */
  readRuns(replicaId: string): Promise<number | null | undefined>;
}

export const offersRuns = (compute: Compute): compute is Compute & ReplicaRuns => "readRuns" in compute;

/** A driver whose starts have a slow part that needs no replica yet, such as pulling an image. */
export interface ReplicaPreparation {
  /**
   * Makes sure that `ensure` of this spec will not wait for anything but the server itself. Called before a handover
   * ends the serving replica, so that what can fail fails while that one still answers.
   * @throws Error in words for the user when the spec cannot be started here.
   */
  prepare(spec: ReplicaSpec, signal: AbortSignal): Promise<void>;
}

export const offersPreparation = (compute: Compute): compute is Compute & ReplicaPreparation => "prepare" in compute;
