import { setTimeout as sleep } from "node:timers/promises";
import { unlessAborted } from "../../base/unless-aborted.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type {
  Compute,
  ExecRequest,
  ExecSession,
  ReplicaExec,
  ReplicaLogs,
  ReplicaMetrics,
  ReplicaPreparation,
  ReplicaRuns,
  ReplicaSpec,
  StopTimes,
} from "../compute.ts";
import { ExecRefused } from "../compute.ts";
import { runCountsOf, runsInProgressOf } from "../health.ts";
import { removeEach } from "../remove-each.ts";
import { Engine, EngineError } from "./engine/engine.ts";
import { followEvents } from "./engine/events.ts";
import { openExec } from "./engine/exec.ts";
import { sharesDisk } from "./engine/shared-disk.ts";
import { collectGarbage } from "./images/collect-garbage.ts";
import { Images, type RegistryCredential, UnusableSpec } from "./images/images.ts";
import { Networks } from "./networks/networks.ts";
import { type EngineInfo, labelsOf, limitsOf, readRecord, recordOf } from "./replicas/container.ts";
import { ContainerLog } from "./replicas/container-log.ts";
import { Containers } from "./replicas/containers.ts";
import { watchDisk } from "./replicas/disk-watch.ts";
import { hasEnded, type ListedContainer, Replica, type ReplicaContext, removeContainer } from "./replicas/replica.ts";
import { ReplicaJournal } from "./replicas/replica-journal.ts";
import { isImageAtFault, orNoCapacity } from "./replicas/start-failure.ts";
import { readUsage } from "./replicas/usage.ts";

export interface DockerComputeOptions {
  /** `unix:///path/to/socket` or `tcp://host:port` of an engine on this machine. */
  host: string;
  /** Root of the replica journal. Only one driver may use it: the caller holds the lock. */
  dataDir: string;
  /** Written as a label on everything that this driver creates. Objects without it are never touched. */
  installationId: string;
  logger: Logger;
  /** Containers may write only to their volumes and /tmp. Default false, because many images write elsewhere. */
  isRootReadOnly?: boolean;
  /** Limit for the files that a replica writes into its container, and for those in its volumes. Default: no limit. */
  diskLimitMib?: number;
  /** Workspaces may not trust each other: logs when agents can fill the disk of `dataDir`. Default false. */
  isPublic?: boolean;
  /** Pause between two measurements of what replicas wrote. Default 10 s. */
  diskIntervalMs?: number;
  /** Size limit for images, above which unused ones are removed. Shared layers count once. Default: no limit. */
  imagesBytesMax?: number;
  /** Returns the credential for an image's registry, before each pull. Default: none. */
  credentialOf?: (uri: string) => Promise<RegistryCredential | null>;
  /** As in `Images`. */
  currentUriOf?: (uri: string) => string;
}

export type DockerComputeDriver = Compute &
  ReplicaLogs &
  ReplicaMetrics &
  ReplicaRuns &
  ReplicaPreparation &
  ReplicaExec;

/** Collecting garbage makes the engine add up its disk use, which is slow, and garbage grows only by the hour. */
const garbageIntervalMs = 1_800_000;

const diskIntervalDefaultMs = 10_000;

/** Time for starts in progress when the driver closes. The next driver finds what they leave unfinished. */
const closeTimeoutMs = 5_000;

/**
 * Opens a driver that runs replicas as containers of a Docker engine on this machine, over its API. Containers survive this
 * process; a driver opened later finds them by their labels.
 * @throws Error when the engine cannot be reached or is too old.
 */
export async function openDockerCompute(options: DockerComputeOptions): Promise<DockerComputeDriver> {
  const engine = await new Engine(options.host).open();
  const journal = new ReplicaJournal(options.dataDir);
  await journal.open();
  const info = await engine.call<EngineInfo>("GET", "/info");
  const compute = new DockerCompute({ ...options, engine, journal, info });
  if (options.isPublic && sharesDisk(options.dataDir, info.DockerRootDir)) {
    const guide = "docs/guides/docker.md";
    options.logger.warn({ guide }, "agents can fill the disk of the data directory: the engine's data is on it");
  }
  await compute.adoptAll();
  compute.follow();
  compute.watchDisk();
  return compute;
}

class DockerCompute implements DockerComputeDriver {
  readonly type = "docker";
  readonly #replicas = new Map<string, Replica>();
  readonly #logs = new Map<string, ContainerLog>();
  readonly #launching = new Map<string, { done: Promise<void>; abort: AbortController }>();
  readonly #removing = new Map<string, Promise<void>>();
  readonly #subscribers = new Set<() => void>();
  readonly #life = new AbortController();
  readonly #context: ReplicaContext;
  readonly #options: DockerComputeOptions;
  readonly #info: EngineInfo;
  readonly #engine: Engine;
  readonly #images: Images;
  readonly #networks: Networks;
  readonly #containers: Containers;
  /** Logical clock: counts listings and added replicas, to tell whether a listing can include a replica. */
  #time = 0;
  readonly #addedAt = new Map<string, number>();
  #listedAt = 0;
  readonly #garbageTimer = setInterval(() => void this.#collectGarbage(), garbageIntervalMs).unref();

  constructor(options: DockerComputeOptions & { engine: Engine; journal: ReplicaJournal; info: EngineInfo }) {
    const { engine, journal, logger, installationId } = options;
    this.#options = options;
    this.#info = options.info;
    this.#engine = engine;
    const { credentialOf = async () => null, currentUriOf } = options;
    this.#images = new Images(engine, { installationId, credentialOf, ...(currentUriOf && { currentUriOf }) });
    this.#networks = new Networks(engine, installationId);
    this.#containers = new Containers({
      ...{ engine, installationId, networks: this.#networks, info: options.info },
      isRootReadOnly: options.isRootReadOnly ?? false,
      diskLimitMib: options.diskLimitMib,
    });
    this.#context = {
      engine,
      journal,
      logger,
      life: this.#life.signal,
      notifyChange: () => {
        for (const notify of this.#subscribers) notify();
      },
    };
  }

  /** Adopts the replicas of earlier processes and cleans up what no replica needs. */
  async adoptAll(): Promise<void> {
    const { journal } = this.#context;
    const containers = await this.#containers.list(AbortSignal.timeout(60_000));
    // In parallel: finding out why a container was killed takes a second or two, and a reboot kills all of them.
    await Promise.all(containers.map((listed) => this.#adopt(listed)));
    for (const replicaId of await journal.list()) {
      if (this.#replicas.has(replicaId)) continue;
      const { refused, exit } = await journal.read(replicaId);
      if (refused === undefined || exit === undefined) await journal.remove(replicaId);
      else this.#add(Replica.refused(this.#context, refused, exit));
    }
    await this.#networks.sweep();
  }

  async #adopt(listed: ListedContainer): Promise<void> {
    const record = readRecord(listed.Labels);
    if (record === undefined) return;
    const { exit } = await this.#context.journal.read(record.replicaId);
    // Interrupted between create and start: the listener requests a new replica, and the first refresh removes this one.
    if (listed.State === "created" && exit === undefined) return;
    this.#add(await Replica.adopt(this.#context, record, listed));
  }

  follow(): void {
    const { logger, installationId } = this.#options;
    void followEvents(this.#engine, {
      installationId,
      logger,
      signal: this.#life.signal,
      onEnd: (containerId) => {
        for (const replica of this.#replicas.values()) if (replica.containerId === containerId) replica.handleExit();
      },
      onChange: () =>
        void this.#refresh(AbortSignal.any([this.#life.signal, AbortSignal.timeout(30_000)])).catch(() => {}),
    });
  }

  watchDisk(): void {
    const { logger, diskLimitMib: limitMib } = this.#options;
    const { diskIntervalMs: intervalMs = diskIntervalDefaultMs } = this.#options;
    if (limitMib === undefined) return;
    void watchDisk({
      ...{ engine: this.#engine, logger, signal: this.#life.signal, limitMib, intervalMs },
      isLayerLimited: () => this.#containers.isLayerLimited,
      list: () =>
        [...this.#replicas.values()].flatMap((replica) => {
          const { containerId, record, hasExited } = replica;
          if (containerId === null || hasExited) return [];
          return [{ replicaId: record.replicaId, containerId, kill: (verdict) => replica.kill(verdict) }];
        }),
    });
  }

  async #collectGarbage(): Promise<void> {
    const { installationId, logger, imagesBytesMax: bytesMax = Number.POSITIVE_INFINITY } = this.#options;
    try {
      const { removed, bytes } = await collectGarbage(this.#engine, {
        installationId,
        bytesMax,
        signal: this.#life.signal,
      });
      if (removed.length > 0) logger.info({ images: removed.length, bytes }, "unused images removed");
      if (bytes > bytesMax) logger.warn({ bytes, bytes_max: bytesMax }, "images in use exceed the size limit");
    } catch (error) {
      if (!this.#life.signal.aborted)
        logger.warn({ error: describeError(error) }, "collecting garbage of the engine failed");
    }
  }

  async prepare(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    await this.#images.ensure(imageOf(spec), AbortSignal.any([signal, this.#life.signal]));
  }

  async ensure(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    AbortSignal.any([signal, this.#life.signal]).throwIfAborted();
    const { replicaId } = spec;
    if (this.#replicas.has(replicaId)) return;
    const launching = this.#launching.get(replicaId) ?? this.#beginLaunch(spec);
    await unlessAborted(() => launching.done, signal);
  }

  async observe(signal: AbortSignal) {
    await this.#refresh(AbortSignal.any([signal, this.#life.signal]));
    return Array.from(this.#replicas.values(), (replica) => replica.state);
  }

  async remove(replicaId: string, { signal, ...times }: StopTimes & { signal: AbortSignal }): Promise<void> {
    const removing = () => {
      const known = this.#removing.get(replicaId);
      if (known !== undefined) return known;
      const begun = this.#remove(replicaId, times).finally(() => this.#removing.delete(replicaId));
      this.#removing.set(replicaId, begun);
      return begun;
    };
    await unlessAborted(removing, AbortSignal.any([signal, this.#life.signal]));
  }

  async removeAll(options: { graceMs: number; signal: AbortSignal }): Promise<void> {
    await removeEach(this, [...this.#launching.keys(), ...this.#replicas.keys()], options);
  }

  async removeState(deploymentId: string): Promise<void> {
    await this.#engine.callUnless([404], "DELETE", `/volumes/${this.#containers.volumeOf(deploymentId)}`);
  }

  onChange(notify: () => void): void {
    this.#subscribers.add(notify);
  }

  async readLogs(replicaId: string, after: string | null, bytesMax: number) {
    const replica = this.#replicas.get(replicaId);
    if (replica === undefined || replica.containerId === null) return { lines: [], cursor: after ?? "" };
    const log = this.#logs.get(replicaId) ?? new ContainerLog(this.#engine, replica.containerId, replicaId);
    this.#logs.set(replicaId, log);
    return log.read(after, { bytesMax, isFinal: replica.hasExited });
  }

  async openExec(replicaId: string, request: ExecRequest): Promise<ExecSession> {
    const replica = this.#replicas.get(replicaId);
    if (replica === undefined || replica.containerId === null || replica.hasExited)
      throw new ExecRefused(`The replica ${replicaId} does not run.`);
    return openExec(this.#engine, replica.containerId, request).catch((error: unknown) => {
      throw error instanceof EngineError ? new ExecRefused(error.message) : error;
    });
  }

  readUsage(signal: AbortSignal) {
    const running = [...this.#replicas].flatMap(([replicaId, { containerId, hasExited }]) =>
      containerId === null || hasExited ? [] : [{ replicaId, containerId }],
    );
    return readUsage(this.#engine, running, signal);
  }

  readRunCounts(replicaId: string) {
    return runCountsOf(this.#replicas.get(replicaId)?.state);
  }

  readRuns(replicaId: string) {
    return runsInProgressOf(this.#replicas.get(replicaId)?.state);
  }

  async close(): Promise<void> {
    clearInterval(this.#garbageTimer);
    this.#subscribers.clear();
    this.#life.abort(new Error("docker compute is closed"));
    const launched = Promise.allSettled(Array.from(this.#launching.values(), ({ done }) => done));
    // An engine that hangs must not prevent the close.
    await Promise.race([launched, sleep(closeTimeoutMs, undefined, { ref: false })]);
    for (const log of this.#logs.values()) log.close();
    this.#engine.close();
  }

  #beginLaunch(spec: ReplicaSpec) {
    const abort = new AbortController();
    const signal = AbortSignal.any([abort.signal, this.#life.signal]);
    const done = this.#launch(spec, signal).finally(() => this.#launching.delete(spec.replicaId));
    done.catch(() => {});
    const launching = { done, abort };
    this.#launching.set(spec.replicaId, launching);
    return launching;
  }

  async #launch(spec: ReplicaSpec, signal: AbortSignal): Promise<void> {
    const record = recordOf(spec, limitsOf(spec, this.#info));
    let containerId: string | null = null;
    try {
      const image = await this.#images.ensure(imageOf(spec), signal);
      containerId = await this.#containers.create(spec, image, labelsOf(record, this.#options.installationId));
      signal.throwIfAborted();
      await this.#engine.callUnless([304], "POST", `/containers/${containerId}/start`, { timeoutMs: 120_000 });
      const replica = Replica.begin(this.#context, record, containerId);
      this.#add(replica);
      await replica.watch();
    } catch (error) {
      const isFinal = error instanceof UnusableSpec || (error instanceof EngineError && isImageAtFault(error.message));
      this.#drop(spec.replicaId);
      if (containerId !== null) await removeContainer(this.#engine, containerId);
      await this.#networks.leave(spec.tenantId, spec.replicaId).catch(() => {});
      if (!isFinal) throw orNoCapacity(error);
      const reason = error instanceof UnusableSpec ? error.reason : "StartError";
      this.#add(await Replica.refuse(this.#context, record, { reason, message: error.message }));
      this.#context.notifyChange();
    }
  }

  async #remove(replicaId: string, times: StopTimes): Promise<void> {
    const launching = this.#launching.get(replicaId);
    launching?.abort.abort(new Error("the replica is no longer needed"));
    await launching?.done.catch(() => {});
    const replica = this.#replicas.get(replicaId);
    if (replica === undefined) return;
    await replica.stop(times);
    this.#drop(replicaId);
    await this.#networks.leave(replica.record.tenantId, replicaId).catch((error: unknown) => {
      this.#options.logger.warn({ replica_id: replicaId, error: describeError(error) }, "removing a network failed");
    });
  }

  #add(replica: Replica): void {
    const { replicaId, tenantId } = replica.record;
    this.#replicas.set(replicaId, replica);
    this.#addedAt.set(replicaId, ++this.#time);
    if (replica.containerId !== null) this.#networks.adopt(tenantId, replicaId);
  }

  #drop(replicaId: string): void {
    this.#replicas.delete(replicaId);
    this.#addedAt.delete(replicaId);
    this.#logs.get(replicaId)?.close();
    this.#logs.delete(replicaId);
  }

  /**
   * Compares our replicas with the engine's containers: records exits, forgets replicas whose container another client
   * removed, and removes orphaned containers, which a failed start leaves when the engine is unreachable.
   */
  async #refresh(signal: AbortSignal): Promise<void> {
    const at = ++this.#time;
    const listed = new Map((await this.#containers.list(signal)).map((container) => [container.Id, container]));
    if (at < this.#listedAt) return;
    this.#listedAt = at;
    for (const replica of this.#replicas.values()) {
      const { containerId, record } = replica;
      const isKnownToList = (this.#addedAt.get(record.replicaId) ?? 0) < at;
      if (containerId === null || !isKnownToList || this.#removing.has(record.replicaId)) continue;
      const container = listed.get(containerId);
      if (container === undefined) await this.#lose(replica);
      else if (hasEnded(container) || replica.wasRestarted(container)) replica.handleExit();
    }
    for (const container of listed.values()) this.#removeStray(container);
  }

  /** Removes an orphan in the background, so that it does not delay observing others. The next refresh retries. */
  #removeStray({ Id: containerId, Labels: given }: ListedContainer): void {
    const record = readRecord(given);
    if (record === undefined) return;
    const { replicaId, tenantId } = record;
    if ([this.#replicas, this.#launching, this.#removing].some((known) => known.has(replicaId))) return;
    const { logger } = this.#options;
    const removal = removeContainer(this.#engine, containerId)
      .then(() => this.#networks.leave(tenantId, replicaId))
      .then(
        () => logger.warn({ replica_id: replicaId }, "orphaned container removed"),
        (error: unknown) => {
          if (this.#life.signal.aborted) return;
          logger.warn({ replica_id: replicaId, error: describeError(error) }, "removing an orphaned container failed");
        },
      )
      .finally(() => this.#removing.delete(replicaId));
    this.#removing.set(replicaId, removal);
  }

  async #lose(replica: Replica): Promise<void> {
    const { replicaId, tenantId } = replica.record;
    this.#drop(replicaId);
    await this.#context.journal.remove(replicaId);
    await this.#networks.leave(tenantId, replicaId).catch(() => {});
    this.#context.notifyChange();
  }
}

/** @throws UnusableSpec for a revision that was built to run as a process. */
function imageOf({ artifact }: ReplicaSpec) {
  if (artifact.kind === "image") return artifact;
  throw new UnusableSpec(
    "This revision was built to run as a process, but this server runs containers. Build the revision again.",
  );
}
