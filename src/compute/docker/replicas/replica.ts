import { setTimeout as sleep } from "node:timers/promises";
import { describeError, type Logger } from "../../../telemetry/log.ts";
import { lastCallAtMs, type ReplicaExit, type ReplicaState, type StopTimes } from "../../compute.ts";
import { causeLinesMax, explainExit, lost, type Verdict } from "../../exit-cause.ts";
import { checkHealth, describeAnswers, readServerVersion, remainingStartMs } from "../../health.ts";
import { replicaState } from "../../replica-state.ts";
import type { Engine } from "../engine/engine.ts";
import { agentPort, type ReplicaRecord } from "./container.ts";
import { readLastLines } from "./container-log.ts";
import type { JournalEntry, ReplicaJournal } from "./replica-journal.ts";
import { explainStartFailure, notHealthy } from "./start-failure.ts";

/** What all replicas of one driver share. */
export interface ReplicaContext {
  engine: Engine;
  journal: ReplicaJournal;
  logger: Logger;
  /** Aborted when the driver closes: containers keep running, but nothing watches them any more. */
  life: AbortSignal;
  notifyChange(): void;
}

/** A container as `GET /containers/json` lists it. */
export interface ListedContainer {
  Id: string;
  Names: string[];
  State: string;
  Labels: Record<string, string>;
  Ports: { PrivatePort: number; PublicPort?: number }[];
}

interface ContainerState {
  Running: boolean;
  ExitCode: number;
  OOMKilled: boolean;
}

interface InspectedContainer {
  State: ContainerState;
  NetworkSettings: { Ports: Record<string, { HostPort: string }[] | null> };
}

/** Probes are frequent at first, because most servers are ready within a second, and rarer during a slow start. */
const probeIntervalMs = { first: 50, max: 250, growth: 1.2 };

/** Interval for asking the engine about an ended container until it answers. */
const reinspectMs = 500;

/** How long to wait for the engine to record that memory ran out: about 100 ms after the exit on a busy machine. */
const oomFlagWaitMs = { every: 100, max: 1_500 };

/** One container, from its start or adoption to its removal. */
export class Replica {
  readonly record: ReplicaRecord;
  /** null: there is no container, because the start was refused. */
  readonly containerId: string | null;
  readonly #context: ReplicaContext;
  #phase: ReplicaState["phase"] = "starting";
  #port: number | null = null;
  #ready: JournalEntry["ready"];
  #exit: ReplicaExit | undefined;
  #ending: Promise<void> | undefined;
  readonly #ended = Promise.withResolvers<void>();

  private constructor(context: ReplicaContext, record: ReplicaRecord, containerId: string | null) {
    this.#context = context;
    this.record = record;
    this.containerId = containerId;
  }

  /** Creates a replica for a started container. Call `watch` next. */
  static begin(context: ReplicaContext, record: ReplicaRecord, containerId: string): Replica {
    return new Replica(context, record, containerId);
  }

  /** Starts watching. Inspects once, because the engine's events reach this replica only from now on. */
  async watch(): Promise<void> {
    const { State, NetworkSettings } = await this.#inspect();
    this.#port = boundPortOf(NetworkSettings);
    if (State.Running) this.#watchStart();
    else this.handleExit();
  }

  /** Adopts a container that an earlier driver started. One that has ended since must never appear as running. */
  static async adopt(context: ReplicaContext, record: ReplicaRecord, listed: ListedContainer): Promise<Replica> {
    const replica = new Replica(context, record, listed.Id);
    const { ready, exit, stopping } = await context.journal.read(record.replicaId);
    replica.#port = portOf(listed);
    replica.#ready = ready;
    replica.#exit = exit;
    if (exit !== undefined) replica.#phase = "exited";
    // A draining replica gets no more requests, and its exit is no crash.
    else if (stopping) replica.#phase = "stopping";
    else if (hasEnded(listed)) await replica.#end();
    // Another port: another client restarted the container, so it must become ready again.
    else if (ready?.port === replica.#port) replica.#phase = "ready";
    else replica.#watchStart();
    return replica;
  }

  /** Records a start that can never succeed as an exited replica, so that its cause is reported. */
  static async refuse(
    context: ReplicaContext,
    record: ReplicaRecord,
    because: Pick<ReplicaExit, "reason" | "message">,
  ): Promise<Replica> {
    const exit = { ...because, exitCode: null, signal: null, lastLines: [] };
    await context.journal.write(record.replicaId, { exit, refused: record });
    return Replica.refused(context, record, exit);
  }

  /** Restores a refused start from the journal of an earlier driver. */
  static refused(context: ReplicaContext, record: ReplicaRecord, exit: ReplicaExit): Replica {
    const replica = new Replica(context, record, null);
    replica.#phase = "exited";
    replica.#exit = exit;
    return replica;
  }

  get state(): ReplicaState {
    const at = this.#ready && { host: "127.0.0.1", port: this.#ready.port };
    return replicaState(this.record, { phase: this.#phase, at, version: this.#ready?.serverVersion, exit: this.#exit });
  }

  get hasExited(): boolean {
    return this.#phase === "exited";
  }

  /** Returns whether another client has restarted the container at another port: then the run we watched has ended. */
  wasRestarted(listed: ListedContainer): boolean {
    return this.#hasOtherPort(portOf(listed));
  }

  /** Records the exit of a container that no longer runs. Finds out the cause in the background. */
  handleExit(): void {
    if (this.#phase === "exited" || this.#phase === "stopping") return;
    void this.#end();
  }

  /** Kills the replica and records the cause. */
  kill(verdict: Verdict): void {
    if (this.#phase === "exited" || this.#phase === "stopping") return;
    void this.#end(verdict);
  }

  /** Stops the replica and resolves when the container is gone. */
  async stop({ graceMs, ...times }: StopTimes): Promise<void> {
    const { engine, journal } = this.#context;
    if (!this.hasExited) this.#phase = "stopping";
    this.#ended.resolve();
    if (this.containerId !== null) {
      // Whole seconds. After them the engine kills the container, and answers once it is gone.
      const t = Math.ceil(graceMs / 1000);
      const path = `/containers/${this.containerId}`;
      const timeoutMs = graceMs + 30_000;
      if (t > 0 && !this.hasExited) await this.#save({ ...(this.#ready && { ready: this.#ready }), stopping: true });
      const lastCall = setTimeout(
        () => {
          const query = { signal: "SIGTERM" };
          engine.callUnless([404, 409], "POST", `${path}/kill`, { query, timeoutMs }).catch(() => {});
        },
        lastCallAtMs({ ...times, graceMs: t * 1000 }),
      );
      try {
        if (t > 0) await engine.callUnless([304, 404], "POST", `${path}/stop`, { query: { t }, timeoutMs });
      } finally {
        clearTimeout(lastCall);
      }
      await removeContainer(engine, this.containerId);
    }
    await journal.remove(this.record.replicaId);
  }

  #watchStart(): void {
    this.#waitUntilReady().catch((error: unknown) => {
      if (this.#context.life.aborted || this.#phase !== "starting") return;
      this.#logError(error, "watching a replica failed");
      void this.#end(lost(describeError(error)));
    });
  }

  async #waitUntilReady(): Promise<void> {
    const { record } = this;
    const end = performance.now() + remainingStartMs(record);
    let intervalMs = probeIntervalMs.first;
    while (this.#phase === "starting" && this.#ending === undefined) {
      const found = this.#port === null ? undefined : await checkHealth(this.#port, record.healthPath);
      // Another program may have the port by now: the answer counts only while this container runs.
      if (found?.healthy != null && (await this.#isRunning())) return this.#becomeReady();
      if (performance.now() >= end) {
        const answers = this.#port === null ? null : await describeAnswers(this.#port, record.healthPath);
        return this.#end(notHealthy(record, answers));
      }
      const pauseMs = Math.min(intervalMs, Math.max(1, end - performance.now()));
      await Promise.race([sleep(pauseMs, undefined, { signal: this.#context.life }), this.#ended.promise]);
      intervalMs = Math.min(probeIntervalMs.max, intervalMs * probeIntervalMs.growth);
    }
  }

  async #becomeReady(): Promise<void> {
    const port = this.#port as number;
    const ready = { port, serverVersion: await readServerVersion(port) };
    await this.#save({ ready });
    if (this.#phase !== "starting") return;
    this.#ready = ready;
    this.#phase = "ready";
    this.#context.notifyChange();
  }

  /** Ends the replica once, however often its end is noticed. @param verdict cause when the driver ends it itself */
  #end(verdict?: Verdict): Promise<void> {
    this.#ending ??= this.#recordExit(verdict).catch((error: unknown) => {
      if (!this.#context.life.aborted) this.#logError(error, "recording the end of a replica failed");
    });
    this.#ended.resolve();
    return this.#ending;
  }

  async #recordExit(wanted: Verdict | undefined): Promise<void> {
    const { engine } = this.#context;
    const { containerId, record } = this;
    // It may have ended on its own just before, and then its own exit code is the cause.
    const given = wanted !== undefined && (await this.#isRunning()) ? wanted : undefined;
    if (given !== undefined) await engine.callUnless([404, 409], "POST", `/containers/${containerId}/kill`);
    const ended = await this.#exitState();
    const verdict = given ?? (ended?.Running ? startedAgain : undefined);
    const state = verdict === undefined && wasKilled(ended) ? await this.#waitForOomFlag(ended) : ended;
    if (state === undefined) return;
    const exit = explainExit(
      {
        wasReady: this.#ready !== undefined,
        exitCode: verdict === undefined ? state.ExitCode : null,
        signal: null,
        outOfMemoryKills: state.OOMKilled && state.ExitCode !== 0 ? 1 : 0,
        memoryLimitMib: record.memoryLimitMib,
        verdict,
        lastLines: await readLastLines(engine, containerId as string, causeLinesMax).catch(() => []),
      },
      explainStartFailure,
    );
    await this.#save({ ...(this.#ready === undefined ? {} : { ready: this.#ready }), exit });
    if (this.#isStopping()) return;
    this.#exit = exit;
    this.#phase = "exited";
    this.#context.notifyChange();
  }

  /** Waits for the out-of-memory flag, because the engine learns of it before or after the end of the container. */
  async #waitForOomFlag(ended: ContainerState): Promise<ContainerState | undefined> {
    for (let state: ContainerState | undefined = ended, waitedMs = 0; ; waitedMs += oomFlagWaitMs.every) {
      if (state === undefined || state.OOMKilled || waitedMs >= oomFlagWaitMs.max) return state;
      await sleep(oomFlagWaitMs.every, undefined, { signal: this.#context.life });
      state = await this.#exitState();
    }
  }

  /** @returns undefined when the container was removed in the meantime; a running state when another client restarted it */
  async #exitState(): Promise<ContainerState | undefined> {
    for (;;) {
      this.#context.life.throwIfAborted();
      if (this.#isStopping()) return undefined;
      const found = await this.#inspect().catch((error: { status?: number }) =>
        error.status === 404 ? undefined : ("unknown" as const),
      );
      if (found === undefined) return undefined;
      if (found !== "unknown" && (!found.State.Running || this.#hasOtherPort(boundPortOf(found.NetworkSettings))))
        return found.State;
      await sleep(found === "unknown" ? reinspectMs : probeIntervalMs.first, undefined, { signal: this.#context.life });
    }
  }

  #hasOtherPort(port: number | null): boolean {
    return this.#port !== null && port !== null && port !== this.#port;
  }

  #inspect(): Promise<InspectedContainer> {
    return this.#context.engine.call("GET", `/containers/${this.containerId}/json`);
  }

  async #isRunning(): Promise<boolean> {
    return this.#inspect().then(
      ({ State }) => State.Running,
      () => false,
    );
  }

  /** Saves what the next driver could use. A full disk must not hide it from this driver. */
  async #save(entry: JournalEntry): Promise<void> {
    const written = this.#context.journal.write(this.record.replicaId, entry);
    await written.catch((error: unknown) => this.#logError(error, "recording a replica failed"));
  }

  #logError(error: unknown, message: string): void {
    this.#context.logger.error({ replica_id: this.record.replicaId, error: describeError(error) }, message);
  }

  /** True when a stop began during an await, which the compiler does not see. */
  #isStopping(): boolean {
    return this.#phase === "stopping";
  }
}

/** 128 + SIGKILL, which the kernel sends when memory runs out. The exit code does not say who sent it. */
const wasKilled = (state: ContainerState | undefined): state is ContainerState => state?.ExitCode === 137;

/** The new run started unobserved, and its previous port may belong to another program by now. */
const startedAgain: Verdict = {
  reason: "Lost",
  message: "Another client stopped and started the container. Pierhead replaces it with a new one.",
};

const portOf = ({ Ports }: ListedContainer) =>
  Ports.find(({ PrivatePort }) => PrivatePort === agentPort)?.PublicPort ?? null;

const boundPortOf = ({ Ports }: InspectedContainer["NetworkSettings"]) =>
  Number(Ports[`${agentPort}/tcp`]?.[0]?.HostPort ?? 0) || null;

export const hasEnded = ({ State }: ListedContainer) => State === "exited" || State === "dead";

/** More time than an engine needs to delete the files of a container. */
const removalTimeoutMs = 60_000;

/**
 * Removes a container with its anonymous volumes, killing it if it runs. Resolves when it is gone.
 * @throws Error when it still exists after `withinMs`
 */
export async function removeContainer(engine: Engine, nameOrId: string, withinMs = removalTimeoutMs): Promise<void> {
  const path = `/containers/${nameOrId}`;
  const end = performance.now() + withinMs;
  for (;;) {
    // 409: its removal is in progress. That may fail, for example because of files in use, so it is requested again.
    const query = { force: true, v: true };
    await engine.callUnless([404, 409], "DELETE", path, { query, timeoutMs: removalTimeoutMs });
    if ((await engine.callUnless([404], "GET", `${path}/json`)) === undefined) return;
    if (performance.now() > end) {
      throw new Error(`the engine has not removed the container ${nameOrId}: check it with docker inspect`);
    }
    await sleep(50);
  }
}
