import { mkdir, rm } from "node:fs/promises";
import path from "node:path";
import { unlessAborted } from "../../base/unless-aborted.ts";
import type { Logger } from "../../telemetry/log.ts";
import { describeError } from "../../telemetry/log.ts";
import type {
  Compute,
  ExecRequest,
  ReplicaExec,
  ReplicaLogs,
  ReplicaMetrics,
  ReplicaPreparation,
  ReplicaRuns,
  ReplicaSpec,
  ReplicaUsage,
  StopTimes,
} from "../compute.ts";
import { ExecRefused } from "../compute.ts";
import { runCountsOf, runsInProgressOf } from "../health.ts";
import { readJson } from "../json-file.ts";
import { removeEach } from "../remove-each.ts";
import { segmentBytesMax } from "./logs/log-files.ts";
import { execBeside } from "./replicas/exec.ts";
import { checkSpec, UnusableSpec } from "./replicas/launch.ts";
import { cgroupPrefix, Replica, type ReplicaContext } from "./replicas/replica.ts";
import {
  checkId,
  dataDirIdOf,
  listReplicaIds,
  type ReplicaRecord,
  removeReplicaFiles,
  replicaFiles,
  replicasDirectory,
  stateDirectory,
} from "./replicas/replica-files.ts";
import { findCgroups, listCgroupProcesses, listCgroups, removeCgroup } from "./system/cgroup.ts";
import { Ports } from "./system/ports.ts";
import { dataDirIdVariable, findProcesses, killLeftExecs, killProcesses, replicaOf } from "./system/processes.ts";
import { readSessionUsage } from "./system/usage.ts";

export interface ProcessComputeOptions {
  /** Root of replicas, their logs and their state. Only one driver may use it: the caller holds the lock. */
  dataDir: string;
  logger: Logger;
  /** Node that runs LangGraph.js agents. */
  nodePath: string;
  /** PATH of all replicas. Default: the directory of `nodePath` and the system directories. */
  searchPath?: string;
  /** Maximum size of one log file in bytes; a replica has four. Default 16 MiB. */
  logSegmentBytesMax?: number;
}

export type ProcessComputeDriver = Compute &
  ReplicaLogs &
  ReplicaMetrics &
  ReplicaRuns &
  ReplicaPreparation &
  ReplicaExec;

/** Interval for detecting exits of adopted replicas; the interface promises one second. */
const aliveIntervalMs = 200;

/** A replica that writes 10 MB/s exceeds its limit by 5 MB between two checks. */
const logIntervalMs = 500;

/**
 * Opens a driver that runs replicas as child processes of this machine. For trusted code only: nothing but resource limits
 * isolates replicas from each other. Replicas have sessions of their own, write their output to files and survive this
 * process. A driver opened later finds them by pid and start time. POSIX only.
 * @throws Error when the data directory cannot be written, or on Windows.
 */
export async function openProcessCompute(options: ProcessComputeOptions): Promise<ProcessComputeDriver> {
  if (process.platform === "win32") throw new Error("process compute needs process groups: run Pierhead in WSL");
  const dataDir = path.resolve(options.dataDir);
  await mkdir(replicasDirectory(dataDir), { recursive: true, mode: 0o700 });
  const dataDirId = await dataDirIdOf(dataDir);
  const compute = new ProcessCompute({
    ...options,
    dataDir,
    dataDirId,
    cgroups: await findCgroups(`pierhead-${dataDirId}-probe`),
  });
  await compute.adoptAll();
  return compute;
}

class ProcessCompute implements ProcessComputeDriver {
  readonly type = "process";
  readonly #replicas = new Map<string, Replica>();
  readonly #launching = new Map<string, Promise<void>>();
  readonly #subscribers = new Set<() => void>();
  readonly #life = new AbortController();
  readonly #context: ReplicaContext;
  readonly #logBytesMax: number;
  readonly #timers: NodeJS.Timeout[];
  #isRotatingLogs = false;

  constructor(options: ProcessComputeOptions & Pick<ReplicaContext, "dataDirId" | "cgroups">) {
    const { dataDir, dataDirId, cgroups, logger, nodePath } = options;
    this.#logBytesMax = options.logSegmentBytesMax ?? segmentBytesMax;
    this.#context = {
      dataDir,
      dataDirId,
      cgroups,
      logger,
      nodePath,
      searchPath: options.searchPath ?? `${path.dirname(nodePath)}:/usr/local/bin:/usr/bin:/bin`,
      life: this.#life.signal,
      ports: new Ports(),
      notifyChange: () => {
        for (const notify of this.#subscribers) notify();
      },
    };
    this.#timers = [
      setInterval(() => this.#checkExits(), aliveIntervalMs).unref(),
      setInterval(() => void this.#rotateLogs(), logIntervalMs).unref(),
    ];
  }

  /** Adopts the replicas of earlier server processes and kills processes without a record. */
  async adoptAll(): Promise<void> {
    const { dataDir } = this.#context;
    const adopted = (await listReplicaIds(dataDir)).map(async (replicaId) => {
      const files = replicaFiles(dataDir, replicaId);
      const record = await readJson<ReplicaRecord>(files.record);
      // The server died before it recorded the replica. The gate was never opened, so its process ends on its own.
      if (record === undefined) await removeReplicaFiles(files);
      else this.#add(await Replica.adopt(this.#context, record));
    });
    await Promise.all(adopted);
    await killLeftExecs(this.#context.dataDirId);
    await this.#killStrays();
  }

  async prepare(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    checkSpec(spec);
  }

  async ensure(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    AbortSignal.any([signal, this.#life.signal]).throwIfAborted();
    const { replicaId } = spec;
    checkId(replicaId);
    if (this.#replicas.has(replicaId)) return;
    const launching =
      this.#launching.get(replicaId) ?? this.#launch(spec).finally(() => this.#launching.delete(replicaId));
    this.#launching.set(replicaId, launching);
    await unlessAborted(() => launching, signal);
  }

  async observe(signal: AbortSignal) {
    signal.throwIfAborted();
    return Array.from(this.#replicas.values(), (replica) => replica.state);
  }

  readRunCounts(replicaId: string) {
    return runCountsOf(this.#replicas.get(replicaId)?.state);
  }

  readRuns(replicaId: string) {
    return runsInProgressOf(this.#replicas.get(replicaId)?.state);
  }

  async openExec(replicaId: string, request: ExecRequest) {
    const replica = this.#replicas.get(replicaId);
    if (replica === undefined || replica.hasExited) throw new ExecRefused(`The replica ${replicaId} does not run.`);
    return execBeside(this.#context, replica.record, request);
  }

  readUsage(signal: AbortSignal): Promise<ReplicaUsage[]> {
    // The pid of an ended replica may belong to another process now, and pid 0 of one that never started is the kernel's.
    const running = [...this.#replicas.values()].filter(({ hasExited }) => !hasExited);
    const leaders = running.map(({ record }) => [record.process.pid, record.replicaId] as const);
    return readSessionUsage(new Map(leaders), signal);
  }

  async remove(replicaId: string, { signal, ...times }: StopTimes & { signal: AbortSignal }): Promise<void> {
    await unlessAborted(() => this.#remove(replicaId, times), AbortSignal.any([signal, this.#life.signal]));
  }

  async removeAll(options: { graceMs: number; signal: AbortSignal }): Promise<void> {
    await removeEach(this, [...this.#launching.keys(), ...this.#replicas.keys()], options);
  }

  async removeState(deploymentId: string): Promise<void> {
    await rm(stateDirectory(this.#context.dataDir, deploymentId), { recursive: true, force: true });
  }

  onChange(notify: () => void): void {
    this.#subscribers.add(notify);
  }

  async readLogs(replicaId: string, after: string | null, bytesMax: number) {
    const replica = this.#replicas.get(replicaId);
    if (replica === undefined) return { lines: [], cursor: after ?? "0-0" };
    return replica.log.read(after, { bytesMax, isFinal: replica.hasExited });
  }

  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#subscribers.clear();
    this.#life.abort(new Error("process compute is closed"));
    await Promise.allSettled(this.#launching.values());
    for (const replica of this.#replicas.values()) replica.detach();
  }

  async #launch(spec: ReplicaSpec): Promise<void> {
    try {
      this.#add(await Replica.launch(this.#context, spec));
    } catch (error) {
      if (!(error instanceof UnusableSpec)) throw error;
      this.#add(await Replica.refuse(this.#context, spec, error));
      this.#context.notifyChange();
    }
  }

  async #remove(replicaId: string, times: StopTimes): Promise<void> {
    await this.#launching.get(replicaId)?.catch(() => {});
    const replica = this.#replicas.get(replicaId);
    if (replica === undefined) return;
    await replica.stop(times);
    this.#replicas.delete(replicaId);
  }

  #add(replica: Replica): void {
    this.#replicas.set(replica.record.replicaId, replica);
  }

  #checkExits(): void {
    for (const replica of this.#replicas.values()) replica.checkExit();
  }

  async #rotateLogs(): Promise<void> {
    if (this.#isRotatingLogs) return;
    this.#isRotatingLogs = true;
    for (const [replicaId, { log }] of this.#replicas) {
      await log.rotate(this.#logBytesMax).catch((error: unknown) => {
        if (!this.#replicas.has(replicaId) || this.#life.signal.aborted) return;
        this.#context.logger.error(
          { replica_id: replicaId, error: describeError(error) },
          "log rotation of a replica failed",
        );
      });
    }
    this.#isRotatingLogs = false;
  }

  /** Kills processes and cgroups that carry our marker but belong to no known replica, because their record was lost. */
  async #killStrays(): Promise<void> {
    const { dataDirId, logger, cgroups } = this.#context;
    for (const pid of await findProcesses({ dataDirId })) {
      const replicaId = await replicaOf(pid);
      if (replicaId === undefined || this.#replicas.has(replicaId)) continue;
      logger.warn({ replica_id: replicaId, pid, mark: dataDirIdVariable }, "killing a process without a record");
      await killProcesses({ dataDirId, replicaId });
    }
    for (const [name, directories] of await listCgroups(cgroups, cgroupPrefix(dataDirId))) {
      const replicaId = name.slice(cgroupPrefix(dataDirId).length);
      if (this.#replicas.has(replicaId)) continue;
      await killProcesses({ dataDirId, replicaId, others: () => listCgroupProcesses(directories) });
      await removeCgroup(directories);
    }
  }
}
