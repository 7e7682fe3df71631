import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { BuildLine, BuildRequest, BuildResult, RunningBuild } from "../../builds/build.ts";
import type { OrphanedProcess } from "../../store/builds/builds.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { traceOfError } from "../../telemetry/traces.ts";
import { retryDatabase } from "../retry-database.ts";
import type { BuildStore } from "../store.ts";
import { createBuildLog } from "./build-log.ts";
import { BuildSlots, type BuildWait } from "./build-slots.ts";
import { inBuildSpan } from "./build-span.ts";
import type { BuildWorkers } from "./build-workers.ts";

export interface BuildRunnerDeps {
  store: BuildStore;
  workers: BuildWorkers;
  logger: Logger;
  ended: Metrics["builds"];
}

export interface BuildRunnerSettings {
  /** Owner of the builds and leases of this server. Unique per server process. */
  owner: string;
  concurrencyMax: number;
  /** A server that has not renewed a build for this long counts as dead. */
  leaseMs: number;
}

interface BuildOwner {
  id: string;
  deploymentId: string;
  tenantId: string;
}

interface Entry {
  build: RunningBuild | null;
  isCancelled: boolean;
  /** Resolves when the log is stored and, if the build is still ours, its end as well. Never rejects. */
  ended: Promise<void>;
}

const stopNotice = "This server is stopping. The build starts again on the next one.";
const unwantedNotice = "This server stops the build: it is no longer needed, or another server has taken it over.";

const closeTimeoutMs = 2_000;

/**
 * The builds of this server: at most `concurrencyMax` at a time, each in its own worker process and under a lease in the
 * store. A build outlives neither its server nor its revision.
 */
export class BuildRunner {
  readonly #slots: BuildSlots;
  readonly #running = new Map<string, Entry>();
  readonly #stopHeartbeat: () => void;
  readonly #store: BuildStore;
  readonly #workers: BuildWorkers;
  readonly #logger: Logger;
  readonly #ended: Metrics["builds"];
  readonly #settings: BuildRunnerSettings;
  /** Whether the installation had several workspaces when a build last asked for a slot. */
  #isShared = true;
  #isClosing = false;

  constructor({ store, workers, logger, ended }: BuildRunnerDeps, settings: BuildRunnerSettings) {
    this.#store = store;
    this.#workers = workers;
    this.#logger = logger;
    this.#ended = ended;
    this.#settings = settings;
    this.#slots = new BuildSlots(settings.concurrencyMax, () => store.now().getTime());
    this.#stopHeartbeat = workers.every(settings.leaseMs / 3, () => void this.#renew());
  }

  /** Returns why a revision has to wait for a build slot; null: one is free for it. */
  async findWait(revision: Pick<BuildOwner, "id" | "tenantId">): Promise<BuildWait | null> {
    if (this.#isClosing) return { retryInMs: 500, because: "this server is stopping" };
    // Not while all slots are taken: there are many retries then.
    if (!this.#slots.isFull) this.#isShared = await this.#store.hasOtherWorkspaces(revision.tenantId);
    return this.#slots.findWait(revision, this.#isShared);
  }

  isRunning(revisionId: string): boolean {
    return this.#running.has(revisionId);
  }

  /**
   * Starts the build of a revision unless another server has it. Resolves once it runs; its end makes the deployment due.
   * @returns false when no slot was free any more, or another server was faster
   */
  async begin(revision: BuildOwner, request: BuildRequest, deadlineAt: Date): Promise<boolean> {
    if (this.#isClosing || this.#running.has(revision.id)) return false;
    // Another pass may have taken the slot since this one asked.
    if (this.#slots.take(revision, this.#isShared) !== null) return false;
    const entry: Entry = { build: null, isCancelled: false, ended: Promise.resolve() };
    this.#running.set(revision.id, entry);
    try {
      const { owner, leaseMs } = this.#settings;
      const left = await this.#store.claimBuild(revision, { owner, leaseMs, deadlineAt });
      if (left === undefined) {
        this.#leave(revision);
        return false;
      }
      await this.#killOrphan(left, revision.id);
      await this.#workers.removeWorkDirs(path.dirname(request.workDir), revision.id);
      entry.ended = this.#run(revision, request, entry);
      return true;
    } catch (error) {
      this.#leave(revision);
      throw error;
    }
  }

  /**
   * Kills a build that is no longer needed, with every process it started. A build of another server is killed only when
   * that server is dead.
   * @returns false when another server runs it
   */
  async cancel(revisionId: string): Promise<boolean> {
    const entry = this.#running.get(revisionId);
    if (entry !== undefined) {
      entry.isCancelled = true;
      await entry.build?.cancel();
      return true;
    }
    const { owner, leaseMs } = this.#settings;
    const left = await this.#store.takeAbandonedBuild(revisionId, { owner, leaseMs });
    if (left === undefined) return false;
    await this.#killOrphan(left, revisionId);
    await this.#store.finishBuild(revisionId, { owner, status: "cancelled", result: null });
    return true;
  }

  /** Stops all builds and releases their leases, so that the next server starts them again at once and none runs twice. */
  async close(): Promise<void> {
    this.#isClosing = true;
    this.#stopHeartbeat();
    const entries = [...this.#running.values()];
    for (const entry of entries) entry.isCancelled = true; // a build that is about to start ends as soon as it has
    await Promise.all(entries.map(({ build }) => build?.cancel(stopNotice)));
    // Waits for the last lines of the logs, unless the database is away.
    const ended = Promise.all(entries.map((entry) => entry.ended));
    await Promise.race([ended, sleep(closeTimeoutMs, undefined, { ref: false })]);
    await this.#store.releaseBuilds(this.#settings.owner);
  }

  async #run(revision: BuildOwner, request: BuildRequest, entry: Entry): Promise<void> {
    const log = createBuildLog(this.#store, revision, this.#logger);
    try {
      await inBuildSpan(revision, log.write, async (onLine) => {
        const result = await this.#build(revision, request, entry, onLine);
        await log.close();
        await this.#finish(revision, result);
        return result;
      });
    } catch (error) {
      const ids = { revision_id: revision.id, ...traceOfError(error) };
      this.#logger.error({ ...ids, error: describeError(error) }, "build could not be recorded");
    } finally {
      this.#leave(revision);
    }
  }

  #leave(revision: BuildOwner): void {
    this.#running.delete(revision.id);
    this.#slots.release(revision);
  }

  async #build(
    revision: BuildOwner,
    request: BuildRequest,
    entry: Entry,
    onLine: (line: BuildLine) => void,
  ): Promise<BuildResult> {
    try {
      const build = this.#workers.start(request, onLine);
      entry.build = build;
      const { owner, leaseMs } = this.#settings;
      const worker = { owner, pid: build.pid, pidStarted: build.startedAtTicks };
      await retryDatabase(() => this.#store.recordBuildProcess(revision.id, worker), { forMs: leaseMs });
      if (entry.isCancelled) await build.cancel(this.#isClosing ? stopNotice : undefined);
      return await build.result;
    } catch (error) {
      await entry.build?.cancel();
      return { ok: false, reason: "BuilderFailed", message: `The build could not be run: ${describeError(error)}` };
    }
  }

  async #finish(revision: BuildOwner, result: BuildResult): Promise<void> {
    if (this.#isClosing) return;
    const { owner, leaseMs } = this.#settings;
    const isCancelled = !result.ok && result.reason === "Cancelled";
    const status = result.ok ? "succeeded" : isCancelled ? "cancelled" : "failed";
    const { commit = null } = result;
    const stored = result.ok
      ? { failure: null, artifact: result.artifact, commit }
      : { failure: result.message, reason: result.reason, artifact: null, commit };
    const end = { owner, status, result: stored } as const;
    // After the lease another server may own the build. Its end is not ours to record then.
    const isOurs = await retryDatabase(() => this.#store.finishBuild(revision.id, end), { forMs: leaseMs });
    if (isOurs) this.#ended.inc({ outcome: status });
    this.#logger.info({ revision_id: revision.id, outcome: isOurs ? status : "taken over" }, "build ended");
  }

  /**
   * Renews the leases. Stops builds that another server took over and builds that are no longer needed: any server may
   * find out that a build is not needed, but only its owner can end it.
   */
  async #renew(): Promise<void> {
    const ids = [...this.#running.keys()];
    if (ids.length === 0) return;
    try {
      const unwanted = await this.#store.renewBuilds(this.#settings.owner, ids, this.#settings.leaseMs);
      await Promise.all(unwanted.map((id) => this.#running.get(id)?.build?.cancel(unwantedNotice)));
    } catch (error) {
      this.#logger.warn({ error: describeError(error) }, "build heartbeat failed");
    }
  }

  async #killOrphan(left: OrphanedProcess, buildId: string): Promise<void> {
    if (left.pid === null || left.pidStarted === null) return;
    await this.#workers.kill({ pid: left.pid, startedAtTicks: left.pidStarted, buildId });
  }
}
