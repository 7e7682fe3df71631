import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { BuildLine, BuildRequest, BuildResult, RunningBuild } from "../../builds/build.ts";
import { killBuild, removeWorkDirs, startBuild } from "../../builds/worker/start-build.ts";
import {
  claimBuild,
  finishBuild,
  type OrphanedProcess,
  recordBuildProcess,
  releaseBuilds,
  renewBuilds,
  takeAbandonedBuild,
} from "../../store/builds/builds.ts";
import type { Db } from "../../store/engine/database.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { Metrics } from "../../telemetry/metrics.ts";
import { traceOfError } from "../../telemetry/traces.ts";
import { tryAgain } from "../retry-database.ts";
import { Stagger } from "../slots.ts";
import { createBuildLog } from "./build-log.ts";
import { inBuildSpan } from "./build-span.ts";

export interface BuildRunnerSettings {
  /** Unique per server process: what its builds and their leases are held under. */
  owner: string;
  concurrencyMax: number;
  /** A server that has not renewed a build for this long is taken for dead. */
  leaseMs: number;
}

interface BuildOf {
  id: string;
  deploymentId: string;
  tenantId: string;
}

interface Entry {
  build: RunningBuild | null;
  isCancelled: boolean;
  /** Its log is stored, and its end, if it is ours to tell. Never rejects. */
  ended: Promise<void>;
}

const stopNotice = "This server stops: the build begins again on the next one.";
const unwantedNotice = "This server ends its work on the build: it is not wanted any more, or another server has it.";

const lastLinesMs = 2_000;

/**
 * The builds of this server: at most `concurrencyMax` at a time, each in a worker process, each under a lease in the
 * store. A build outlives neither its server nor its revision.
 */
export class BuildRunner {
  /** For revisions that find all slots taken. */
  readonly stagger = new Stagger();
  readonly #running = new Map<string, Entry>();
  readonly #heartbeat: NodeJS.Timeout;
  readonly #db: Db;
  readonly #logger: Logger;
  readonly #ended: Metrics["builds"];
  readonly #settings: BuildRunnerSettings;
  #isClosing = false;

  constructor(deps: { db: Db; logger: Logger; ended: Metrics["builds"] }, settings: BuildRunnerSettings) {
    this.#db = deps.db;
    this.#logger = deps.logger;
    this.#ended = deps.ended;
    this.#settings = settings;
    this.#heartbeat = setInterval(() => void this.#renew(), settings.leaseMs / 3);
    this.#heartbeat.unref();
  }

  get hasFreeSlot(): boolean {
    return !this.#isClosing && this.#running.size < this.#settings.concurrencyMax;
  }

  isRunning(revisionId: string): boolean {
    return this.#running.has(revisionId);
  }

  /**
   * Begins the build of a revision unless another server has it. Resolves once it runs; its end is a change.
   * @returns false when there was no slot, or another server was faster.
   */
  async begin(revision: BuildOf, request: BuildRequest, deadlineAt: Date): Promise<boolean> {
    if (!this.hasFreeSlot || this.#running.has(revision.id)) return false;
    const entry: Entry = { build: null, isCancelled: false, ended: Promise.resolve() };
    this.#running.set(revision.id, entry);
    try {
      const { owner, leaseMs } = this.#settings;
      const left = await claimBuild(this.#db, revision, { owner, leaseMs, deadlineAt });
      if (left === undefined) {
        this.#running.delete(revision.id);
        return false;
      }
      await endOrphanedBuild(left, revision.id);
      await removeWorkDirs(path.dirname(request.workDir), revision.id);
      entry.ended = this.#run(revision, request, entry);
      return true;
    } catch (error) {
      this.#running.delete(revision.id);
      throw error;
    }
  }

  /** Kills a build nobody wants any more, with everything it started; also one that a dead server left. */
  async cancel(revisionId: string): Promise<boolean> {
    const entry = this.#running.get(revisionId);
    if (entry !== undefined) {
      entry.isCancelled = true;
      await entry.build?.cancel();
      return true;
    }
    const { owner, leaseMs } = this.#settings;
    const left = await takeAbandonedBuild(this.#db, revisionId, { owner, leaseMs });
    if (left === undefined) return false;
    await endOrphanedBuild(left, revisionId);
    await finishBuild(this.#db, revisionId, { owner, status: "cancelled", result: null });
    return true;
  }

  /** Stops all builds and hands them over: the next server begins them again at once, and none runs twice. */
  async close(): Promise<void> {
    this.#isClosing = true;
    clearInterval(this.#heartbeat);
    const entries = [...this.#running.values()];
    for (const entry of entries) entry.isCancelled = true; // one that is about to start ends as soon as it has
    await Promise.all(entries.map(({ build }) => build?.cancel(stopNotice)));
    // The last lines of their logs, unless there is no database to take them.
    await Promise.race([Promise.all(entries.map(({ ended }) => ended)), sleep(lastLinesMs, undefined, { ref: false })]);
    await releaseBuilds(this.#db, this.#settings.owner);
  }

  async #run(revision: BuildOf, request: BuildRequest, entry: Entry): Promise<void> {
    const log = createBuildLog(this.#db, revision, this.#logger);
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
      this.#running.delete(revision.id);
    }
  }

  async #build(
    revision: BuildOf,
    request: BuildRequest,
    entry: Entry,
    onLine: (line: BuildLine) => void,
  ): Promise<BuildResult> {
    try {
      const build = await startBuild(request, { onLine });
      entry.build = build;
      const { owner, leaseMs } = this.#settings;
      const worker = { owner, pid: build.pid, pidStarted: build.startedAtTicks };
      await tryAgain(() => recordBuildProcess(this.#db, revision.id, worker), { forMs: leaseMs });
      if (entry.isCancelled) await build.cancel(this.#isClosing ? stopNotice : undefined);
      return await build.result;
    } catch (error) {
      await entry.build?.cancel();
      return { ok: false, reason: "BuilderFailed", message: `The build could not be run: ${describeError(error)}` };
    }
  }

  async #finish(revision: BuildOf, result: BuildResult): Promise<void> {
    if (this.#isClosing) return;
    const { owner } = this.#settings;
    const isCancelled = !result.ok && result.reason === "Cancelled";
    const status = result.ok ? "succeeded" : isCancelled ? "cancelled" : "failed";
    const stored = result.ok
      ? { failure: null, artifact: result.artifact }
      : { failure: result.message, artifact: null };
    const end = { owner, status, result: stored } as const;
    // Once the lease has run out somebody else may have it: then it is not ours, and written down nowhere.
    const isOurs = await tryAgain(() => finishBuild(this.#db, revision.id, end), { forMs: this.#settings.leaseMs });
    if (isOurs) this.#ended.inc({ outcome: status });
    this.#logger.info({ revision_id: revision.id, outcome: isOurs ? status : "taken over" }, "build ended");
  }

  /**
   * A build whose lease went to another server must not go on here, nor one that nobody wants any more: the pass that finds
   * that out runs on any server, and only this one can end it.
   */
  async #renew(): Promise<void> {
    const ids = [...this.#running.keys()];
    if (ids.length === 0) return;
    try {
      const unwanted = await renewBuilds(this.#db, this.#settings.owner, ids, this.#settings.leaseMs);
      await Promise.all(unwanted.map((id) => this.#running.get(id)?.build?.cancel(unwantedNotice)));
    } catch (error) {
      this.#logger.warn({ error: describeError(error) }, "build heartbeat failed");
    }
  }
}

async function endOrphanedBuild(left: OrphanedProcess, buildId: string): Promise<void> {
  if (left.pid === null || left.pidStarted === null) return;
  await killBuild({ pid: left.pid, startedAtTicks: left.pidStarted, buildId });
}
