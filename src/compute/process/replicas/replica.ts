import type { ChildProcess } from "node:child_process";
import { mkdir, readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { describeError, type Logger } from "../../../telemetry/log.ts";
import { lastCallAtMs, type ReplicaExit, type ReplicaSpec, type ReplicaState, type StopTimes } from "../../compute.ts";
import { causeLinesMax, explainExit, lost, type Verdict } from "../../exit-cause.ts";
import { describeAnswers, remainingStartMs, shownHealthPath } from "../../health.ts";
import { readJson, writeJson } from "../../json-file.ts";
import { replicaState } from "../../replica-state.ts";
import { ReplicaLog } from "../logs/replica-log.ts";
import {
  type CgroupHome,
  countOutOfMemoryKills,
  createCgroup,
  joinCgroup,
  listCgroupProcesses,
  removeCgroup,
} from "../system/cgroup.ts";
import type { Ports } from "../system/ports.ts";
import {
  findPortOwner,
  findProcesses,
  isRunning,
  killProcesses,
  type ReplicaProcesses,
  signalAll,
  signalProcess,
} from "../system/processes.ts";
import { checkSpec, type Gate, type LaunchContext, prepareStart, spawnGate, type UnusableSpec } from "./launch.ts";
import { probe } from "./probe.ts";
import {
  newRecord,
  type ReadyRecord,
  type ReplicaFiles,
  type ReplicaRecord,
  removeReplicaFiles,
  replicaFiles,
} from "./replica-files.ts";
import { explainStartFailure, notHealthy, portTaken } from "./start-failure.ts";

/** What all replicas of one driver share. */
export interface ReplicaContext extends LaunchContext {
  logger: Logger;
  cgroups: CgroupHome;
  /** Aborted when the driver closes: replicas keep running, but nothing watches them any more. */
  life: AbortSignal;
  ports: Ports;
  notifyChange(): void;
}

/**
 * The interval between two probes of a start is an eighth of the time that the start has taken, so readiness is detected
 * at most that late. One second of starting costs about twenty probes of 0.5 ms each (a refused connection).
 */
const probeIntervalMs = { min: 15, max: 250, share: 1 / 8 };

/** Time after which the log shows the answers of a server that is not healthy yet. Most servers are healthy by then. */
const noteAfterMs = 10_000;

/** Interval for checking whether a stopping process has exited. */
const endIntervalMs = 20;

/** All cgroups of one data directory share this prefix, so that a later server finds leftovers. */
export const cgroupPrefix = (dataDirId: string) => `pierhead-${dataDirId}-`;

type Ending = { exitCode: number | null; signal: string | null };

/** One replica, from its start or adoption to its removal. */
export class Replica {
  readonly record: ReplicaRecord;
  readonly files: ReplicaFiles;
  readonly log: ReplicaLog;
  readonly #context: ReplicaContext;
  #phase: ReplicaState["phase"] = "starting";
  #ready: ReadyRecord | undefined;
  #exit: ReplicaExit | undefined;
  /** Set only for a replica that this process has started. */
  #child: ChildProcess | undefined;
  #ending: PromiseWithResolvers<Ending> = Promise.withResolvers();
  #hasEnded = false;
  #starting: Promise<void> | undefined;
  #lived: Promise<void> = Promise.resolve();
  #stopped: Promise<void> | undefined;
  /** The first SIGTERM was sent. */
  #isAskedToEnd = false;

  private constructor(context: ReplicaContext, record: ReplicaRecord) {
    this.#context = context;
    this.record = record;
    this.files = replicaFiles(context.dataDir, record.replicaId);
    this.log = new ReplicaLog(this.files.directory, record.replicaId);
  }

  /**
   * Starts a replica: first the gate, the cgroup and the record on disk, and only then the agent's own code.
   * @throws Error when it could not be started. Everything is cleaned up then.
   */
  static async launch(context: ReplicaContext, spec: ReplicaSpec): Promise<Replica> {
    const { start, health_path: healthPath } = checkSpec(spec);
    const { directories, limits } = await createCgroup(
      context.cgroups,
      `${cgroupPrefix(context.dataDirId)}${spec.replicaId}`,
      { memoryMib: spec.memoryLimitMib, cpuCores: spec.cpuLimitCores },
    );
    const record = newRecord(spec, { runner: start.runner, healthPath, cgroups: directories, limits });
    const replica = new Replica(context, record);
    try {
      await mkdir(replica.files.directory, { recursive: true, mode: 0o700 });
      await replica.#start(spec);
    } catch (error) {
      await replica.#erase();
      throw error;
    }
    replica.#lived = replica.#live(spec);
    return replica;
  }

  /** Adopts a replica that an earlier process started, running or not. */
  static async adopt(context: ReplicaContext, record: ReplicaRecord): Promise<Replica> {
    const replica = new Replica(context, record);
    replica.#ready = await readJson<ReadyRecord>(replica.files.ready);
    replica.#exit = await readJson<ReplicaExit>(replica.files.exit);
    if (replica.#exit !== undefined) {
      replica.#phase = "exited";
      return replica;
    }
    replica.#isAskedToEnd = (await readJson(replica.files.stopping)) !== undefined;
    // A draining replica gets no more requests, and its exit is no crash.
    if (replica.#isAskedToEnd) replica.#phase = "stopping";
    else if (replica.#ready !== undefined) replica.#phase = "ready";
    if (record.port !== null) context.ports.reserve(record.port);
    replica.checkExit();
    replica.#lived = replica.#live(undefined);
    // A replica that died while no server was running must never appear as running.
    if (replica.#hasEnded) await replica.#lived;
    return replica;
  }

  /** Records a replica that can never be started as exited, so that its cause is reported. */
  static async refuse(
    context: ReplicaContext,
    spec: ReplicaSpec,
    { reason, message }: Pick<UnusableSpec, "reason" | "message">,
  ): Promise<Replica> {
    const limit = "not enforced: nothing was started";
    const limits = { memory: limit, cpu: limit };
    const record = newRecord(spec, { runner: "command", healthPath: "/", cgroups: [], limits });
    const { directory, ...files } = replicaFiles(context.dataDir, spec.replicaId);
    await mkdir(directory, { recursive: true, mode: 0o700 });
    await writeJson(files.exit, { reason, message, exitCode: null, signal: null, lastLines: [] });
    await writeJson(files.record, record);
    return Replica.adopt(context, record);
  }

  get state(): ReplicaState {
    const at = this.#ready && { host: this.#ready.host, port: this.#ready.port };
    return replicaState(this.record, { phase: this.#phase, at, version: this.#ready?.serverVersion, exit: this.#exit });
  }

  /** True when its output is complete. */
  get hasExited(): boolean {
    return this.#phase === "exited";
  }

  /** Detects the exit of a process that is not our child, because no event reports it. */
  checkExit(): void {
    if (this.#child === undefined && !this.#hasEnded && !isRunning(this.record.process)) {
      this.#end({ exitCode: null, signal: null });
    }
  }

  /** Stops the replica and resolves when nothing of it is left. A second call waits for the first. */
  stop(times: StopTimes): Promise<void> {
    this.#stopped ??= this.#stop(times).catch((error: unknown) => {
      this.#stopped = undefined; // the next call retries
      throw error;
    });
    return this.#stopped;
  }

  /** Stops watching because the driver closes. The next driver finds this replica by its record. */
  detach(): void {
    this.#child?.removeAllListeners();
  }

  async #start(spec: ReplicaSpec): Promise<void> {
    const { record, files } = this;
    if (record.runner === "command") record.port = await this.#context.ports.take();
    const request = await prepareStart(this.#context, files, spec, record);
    const gate = await spawnGate(this.#context, files, record.replicaId);
    const ending = Promise.withResolvers<Ending>();
    this.#child = gate.child;
    this.#ending = ending;
    this.#hasEnded = false;
    gate.child.once("exit", (exitCode, signal) => this.#end({ exitCode, signal }, ending));
    record.process = gate.identity;
    try {
      await this.#joinCgroup(gate);
      await writeJson(files.record, record);
    } catch (error) {
      gate.cancel();
      throw error;
    }
    gate.open(request);
  }

  async #joinCgroup({ identity }: Gate): Promise<void> {
    const { cgroups, limits } = this.record;
    try {
      await joinCgroup(cgroups, identity.pid);
    } catch (error) {
      for (const name of ["memory", "cpu"] as const) {
        if (limits[name] === "enforced") limits[name] = `not enforced: ${describeError(error)}`;
      }
    }
  }

  #end(ending: Ending, of = this.#ending): void {
    if (of !== this.#ending) return;
    this.#hasEnded = true;
    of.resolve(ending);
  }

  /** Drives the replica after its start: readiness, exit, cause of the exit. With `spec` it may be restarted once. */
  async #live(spec: ReplicaSpec | undefined): Promise<void> {
    try {
      for (let triesLeft = spec === undefined ? 0 : 1; ; triesLeft--) {
        let verdict = this.#phase === "starting" ? await this.#waitUntilReady() : undefined;
        const ending = await this.#ending.promise;
        if (this.#phase === "stopping") return;
        // Children must not outlive the first process, because they may hold its port or its state.
        await this.#killAll();
        if (this.#phase === "starting") verdict ??= await this.#findPortTaken();
        const isWorthAnother = verdict?.reason === "PortTaken" && triesLeft > 0 && spec !== undefined;
        if (!isWorthAnother) return await this.#recordExit(ending, verdict);
        if (this.#isStopping()) return;
        this.#releasePort();
        this.#starting = this.#start(spec);
        await this.#starting;
      }
    } catch (error) {
      if (this.#context.life.aborted || this.#isStopping()) return;
      this.#logError(error, "watching a replica failed");
      await this.#recordExit({ exitCode: null, signal: null }, lost(describeError(error)));
    }
  }

  /** @returns why the driver killed it before it was ready; undefined when it is ready or ended on its own */
  async #waitUntilReady(): Promise<Verdict | undefined> {
    const { record, files } = this;
    const began = performance.now();
    const end = began + remainingStartMs(record);
    let isNoted = false;
    while (this.#phase === "starting" && !this.#hasEnded) {
      // A probe that fails counts as no answer. The deadline still applies.
      const found = await probe(record, files, this.#processes()).catch(() => "silent" as const);
      if (this.#phase !== "starting" || this.#hasEnded) break;
      if (typeof found === "object") {
        await this.#becomeReady(found);
        break;
      }
      if (typeof found === "number" && !isNoted && performance.now() - began > noteAfterMs) {
        isNoted = true;
        await this.#noteAnswers(found);
      }
      const isLate = performance.now() >= end;
      if (found === "foreign" || isLate) {
        const answers = typeof found === "number" ? await this.#describeAnswers(found) : null;
        await this.#killAll();
        return found === "foreign" ? portTaken(record.port) : notHealthy(record, answers);
      }
      const { min, max, share } = probeIntervalMs;
      const intervalMs = Math.min(max, Math.max(min, (performance.now() - began) * share));
      const pauseMs = Math.min(intervalMs, Math.max(1, end - performance.now()));
      await Promise.race([this.#pause(pauseMs), this.#ending.promise]);
    }
    return undefined;
  }

  async #noteAnswers(status: number): Promise<void> {
    const answers = await this.#describeAnswers(status);
    await this.log.note(`pierhead: not healthy yet: the server answers ${answers}.`).catch(() => {});
  }

  /** @param status of the last answer, for a server whose port only its own report names. */
  async #describeAnswers(status: number): Promise<string> {
    const { port, healthPath } = this.record;
    const answers = port === null ? null : await describeAnswers(port, healthPath);
    return answers ?? `${status} on ${shownHealthPath(healthPath)}`;
  }

  async #becomeReady(ready: ReadyRecord): Promise<void> {
    if (ready.healthNote !== undefined) await this.log.note(ready.healthNote).catch(() => {});
    await this.#save(this.files.ready, ready);
    if (this.#phase !== "starting") return;
    this.#ready = ready;
    this.#phase = "ready";
    this.#context.notifyChange();
  }

  /** Detects a taken port, because servers report that failure in words that we do not know. */
  async #findPortTaken(): Promise<Verdict | undefined> {
    const { port } = this.record;
    if (port === null || (await findPortOwner(port, this.#processes())) !== "foreign") return undefined;
    return portTaken(port);
  }

  async #recordExit({ exitCode, signal }: Ending, verdict: Verdict | undefined): Promise<void> {
    const { record, files } = this;
    this.#releasePort();
    const leftCode = signal === null ? await readFile(files.exitCode, "utf8").catch(() => "") : "";
    const exit = explainExit(
      {
        wasReady: this.#ready !== undefined,
        exitCode: exitCode ?? (/^\d+$/.test(leftCode) ? Number(leftCode) : null),
        signal,
        outOfMemoryKills: await countOutOfMemoryKills(record.cgroups),
        memoryLimitMib: record.memoryLimitMib,
        verdict,
        lastLines: await this.log.lastLines(causeLinesMax).catch(() => []),
        unsetVariables: record.unsetVariables ?? [],
      },
      explainStartFailure,
    );
    await this.#save(files.exit, exit);
    if (this.#isStopping()) return;
    this.#exit = exit;
    this.#phase = "exited";
    this.#context.notifyChange();
  }

  /** Saves what the next server could also find out itself. A full disk must not hide it from this one. */
  async #save(file: string, value: unknown): Promise<void> {
    await writeJson(file, value).catch((error: unknown) => this.#logError(error, "recording a replica failed"));
  }

  #logError(error: unknown, message: string): void {
    this.#context.logger.error({ replica_id: this.record.replicaId, error: describeError(error) }, message);
  }

  async #stop(times: StopTimes): Promise<void> {
    const begin = performance.now();
    const end = begin + times.graceMs;
    if (this.#phase !== "exited") {
      this.#phase = "stopping";
      await this.#starting?.catch(() => {}); // a second try may be in progress: what it starts must be stopped, too
      await this.#askToEnd();
      const lastCall = begin + lastCallAtMs(times);
      while (isRunning(this.record.process) && performance.now() < lastCall) await this.#pause(endIntervalMs);
      signalProcess(this.record.process, "SIGTERM");
      while (isRunning(this.record.process) && performance.now() < end) await this.#pause(endIntervalMs);
      if (!isRunning(this.record.process)) await this.#endOrphans(end);
      await this.#killAll();
      this.#end({ exitCode: null, signal: null });
      await this.#lived;
    }
    await this.#erase();
  }

  /** Signals only the first process, which decides in which order its children stop. */
  async #askToEnd(): Promise<void> {
    if (this.#isAskedToEnd) return;
    this.#isAskedToEnd = true;
    signalProcess(this.record.process, "SIGTERM");
    await this.#save(this.files.stopping, {});
  }

  /** Stops children that outlived their first process, such as a shell: they get the same signal and the same grace period. */
  async #endOrphans(end: number): Promise<void> {
    const asked = new Set<number>();
    while (performance.now() < end) {
      const left = await findProcesses(this.#processes());
      if (left.length === 0) return;
      signalAll(
        left.filter((pid) => !asked.has(pid)),
        "SIGTERM",
      );
      for (const pid of left) asked.add(pid);
      await this.#pause(endIntervalMs);
    }
  }

  /** @throws the reason of the close when the driver closes during the pause */
  async #pause(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#context.life });
  }

  async #erase(): Promise<void> {
    await this.#killAll();
    this.#releasePort();
    await removeCgroup(this.record.cgroups);
    await removeReplicaFiles(this.files);
  }

  #killAll(): Promise<void> {
    return killProcesses(this.#processes());
  }

  #processes(): ReplicaProcesses {
    const { replicaId, process: leader, cgroups } = this.record;
    return {
      replicaId,
      dataDirId: this.#context.dataDirId,
      leader,
      isLeaderOurs: this.#child !== undefined && this.#phase !== "exited",
      others: () => listCgroupProcesses(cgroups),
    };
  }

  #releasePort(): void {
    if (this.record.port !== null) this.#context.ports.release(this.record.port);
  }

  /** True when a stop began during an await, which the compiler does not see. */
  #isStopping(): boolean {
    return this.#phase === "stopping";
  }
}
