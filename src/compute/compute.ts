import type { Readable, Writable } from "node:stream";
import type { Artifact } from "../contract/listeners/assignment.ts";

export interface ReplicaSpec {
  /** Chosen by the listener and never reused: `<revision id>-<n>`. */
  replicaId: string;
  deploymentId: string;
  tenantId: string;
  revisionId: string;
  artifact: Artifact;
  /** Complete environment of the agent server except PORT, which the driver chooses. Contains secrets: never log it. */
  env: Record<string, string>;
  memoryLimitMib: number;
  cpuLimitCores: number;
  /** A replica that is not ready after this time is killed and reported as `exited` with reason `NotHealthy`. */
  startTimeoutMs: number;
  /** Time for the server's own drain, between SIGTERM and SIGKILL. */
  drainTimeoutMs: number;
}

export interface ReplicaExit {
  /** Stable CamelCase word: Exited, OutOfMemory, NotHealthy, StartError (it can never start), PortTaken, Lost. */
  reason: string;
  /** What happened and what to do next. */
  message: string;
  exitCode: number | null;
  signal: string | null;
  /** At most 30, newest last. */
  lastLines: string[];
  /** Variables that the agent server misses, by its log. */
  variables?: string[];
}

export interface ReplicaState {
  replicaId: string;
  deploymentId: string;
  revisionId: string;
  phase: "starting" | "ready" | "stopping" | "exited";
  /** Address for the gateway; set once ready. */
  address?: { host: string; port: number };
  /** Set once exited. */
  exit?: ReplicaExit;
  startedAt: Date;
  /** `enforced` or a sentence that says why not: a limit that cannot be enforced is always reported. */
  limits: { memory: string; cpu: string };
  /** Version of the agent server from its `/info`, once it is ready and reports one. */
  serverVersion?: string;
}

/** The image of a replica could not be pulled now. The registry may come back, so the start is tried again. */
export class RegistryUnreachable extends Error {
  override name = "RegistryUnreachable";
}

/** The machine has no room for another replica now. It may have some later, so the start is tried again. */
export class NoCapacity extends Error {
  override name = "NoCapacity";
}

/**
 * Runs replicas somewhere. Every method is idempotent: the listener remembers nothing of what it did, compares desired
 * and actual state, and may repeat any call.
 */
export interface Compute {
  /** `process`, `docker`, `kubernetes`, `simulated`. */
  readonly type: string;
  /**
   * Creates one replica. Resolves once it was started or exists already, before it is ready. A replica that has exited
   * stays exited: the listener starts another one under a new id.
   * @throws Error when the engine refused. The listener retries with back-off until the start deadline.
   */
  ensure(spec: ReplicaSpec, signal: AbortSignal): Promise<void>;
  /** Returns all replicas of this driver, including exited ones until they are removed and those of an earlier process. */
  observe(signal: AbortSignal): Promise<ReplicaState[]>;
  /**
   * Asks the replica to stop (SIGTERM), and once more at `lastCallAtMs`. Kills it with all its descendants after `graceMs`
   * and deletes its records.
   * Resolves when it is gone. An unknown replica is no error.
   */
  remove(replicaId: string, options: StopTimes & { signal: AbortSignal }): Promise<void>;
  /**
   * Removes every replica, including those that are starting and that `observe` does not list yet. The caller must
   * prevent new starts during the call.
   * @throws the first error of a removal, after all removals have settled.
   */
  removeAll(options: { graceMs: number; signal: AbortSignal }): Promise<void>;
  /** Deletes the local state that a deployment's replicas share across revisions. Call it when no replica is left. */
  removeState(deploymentId: string): Promise<void>;
  /** Calls back within one second after a replica became ready or exited. The caller then observes to learn which one. */
  onChange(notify: () => void): void;
  /** Releases timers and files. Replicas of drivers that outlive this process keep running. */
  close(): Promise<void>;
}

/** How long a replica may take to stop, counted from the first SIGTERM. */
export interface StopTimes {
  /** When SIGKILL follows. */
  graceMs: number;
  /** Latest time of the second SIGTERM, after the first one. Default: see `lastCallAtMs`. */
  lastCallAfterMs?: number;
}

/**
 * Returns when a second SIGTERM asks a replica that still runs: at least two seconds before SIGKILL, or half of a shorter
 * grace period. Many servers take it as an order to stop at once, and the host shims then write their state without
 * waiting for runs.
 */
export const lastCallAtMs = ({ graceMs, lastCallAfterMs = graceMs }: StopTimes): number =>
  Math.min(lastCallAfterMs, graceMs - Math.min(2_000, graceMs / 2));

export interface ReplicaLogChunk {
  lines: { key: string; timestamp: Date; stream: "stdout" | "stderr"; level: string; message: string }[];
  /** Pass it as `after` in the next call. */
  cursor: string;
}

/** A driver that stores the output of its replicas. Reading deletes nothing: each reader has its own cursor. */
export interface ReplicaLogs {
  /** Returns the lines after `after` (null: from the start), about `bytesMax` at most. Empty `lines`: nothing new. */
  readLogs(replicaId: string, after: string | null, bytesMax: number): Promise<ReplicaLogChunk>;
}

export const offersLogs = (compute: Compute): compute is Compute & ReplicaLogs => "readLogs" in compute;

/** Resource usage of one replica. The listener counts restarts. */
export interface ReplicaUsage {
  replicaId: string;
  /** Processor time since its start. Its growth between two readings, divided by their distance in time, is the load in cores. */
  cpuSeconds: number;
  /** Memory that counts against the limit. */
  memoryMib: number;
}

/** Resource usage of one replica where the engine measures load itself. */
export interface ReplicaLoad {
  replicaId: string;
  /** Average over the engine's own measuring window, for example half a minute. */
  cpuCores: number;
  memoryMib: number;
}

/** A driver that measures the resource usage of its replicas. */
export interface ReplicaMetrics {
  /** Returns the usage of all running replicas; those that start or end during the call may be missing. */
  readUsage(signal: AbortSignal): Promise<ReplicaUsage[]>;
}

export const offersMetrics = (compute: Compute): compute is Compute & ReplicaMetrics => "readUsage" in compute;

/** Runs of an agent server. Replicas that share a database all report those of the whole deployment. */
export interface RunCounts {
  /** Waiting for a worker. */
  pending: number;
  running: number;
  /** Runs that ended with an error since the queue exists. Null: the server does not count them. */
  failed: number | null;
  /** Runs that another replica continued because theirs had died, likewise. */
  recovered: number | null;
  /** Tokens that the agent sent to its models and received since the queue exists. Undefined: the server does not count them. */
  tokens?: { input: number; output: number };
  /** Time until the next run or cron is due; 0: one is due. Null: nothing is planned. Undefined: the server does not tell. */
  nextDueInMs?: number | null;
}

/** A driver that can ask its replicas for their runs. */
export interface ReplicaRuns {
  /** @returns null when the server does not report runs at all; undefined when it did not answer. */
  readRunCounts(replicaId: string): Promise<RunCounts | null | undefined>;
  /** @returns the count as `readRunCount` does; undefined also for a replica that is not ready. */
  readRuns(replicaId: string): Promise<number | null | undefined>;
}

export const offersRuns = (compute: Compute): compute is Compute & ReplicaRuns => "readRuns" in compute;

/** A driver whose starts have a slow part that needs no replica yet, for example pulling an image. */
export interface ReplicaPreparation {
  /**
   * Prepares everything that `ensure` of this spec would otherwise wait for, except the server itself. The listener calls
   * it before a handover stops the serving replica, so that failures happen while that replica still answers.
   * @throws Error with a message for the user when the spec cannot be started here.
   */
  prepare(spec: ReplicaSpec, signal: AbortSignal): Promise<void>;
}

export const offersPreparation = (compute: Compute): compute is Compute & ReplicaPreparation => "prepare" in compute;

export interface ExecRequest {
  /** Program and arguments. No shell reads them. */
  argv: readonly string[];
  /** Size of the terminal; null: the program gets none. */
  terminal: { columns: number; rows: number } | null;
}

/** A program that runs beside the agent server of a replica. */
export interface ExecSession {
  hasTerminal: boolean;
  input: Writable;
  output: Readable;
  /** Null: a terminal carries errors with the output. */
  errors: Readable | null;
  /** Resolves when the terminal has been asked, also when it was in vain. */
  resize(size: { columns: number; rows: number }): Promise<void>;
  /** Resolves with the exit code when the program has ended. */
  ended: Promise<number>;
  /** Ends the program, with everything that it started, as far as the driver can. Call it also after the program has ended. */
  kill(): Promise<void>;
}

/** A program could not be started in a replica. The message is for the user. */
export class ExecRefused extends Error {
  override name = "ExecRefused";
}

/** A driver that can run further programs in a replica, with its files, variables, limits and user. */
export interface ReplicaExec {
  /** @throws ExecRefused for an unknown or ended replica, or where the driver cannot do it. */
  openExec(replicaId: string, request: ExecRequest): Promise<ExecSession>;
}

export const offersExec = (compute: Compute): compute is Compute & ReplicaExec => "openExec" in compute;
