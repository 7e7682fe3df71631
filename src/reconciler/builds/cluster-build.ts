import { randomUUID } from "node:crypto";
import { rm } from "node:fs/promises";
import path from "node:path";
import { pause } from "../../base/pause.ts";
import type { BuildLine, BuildRequest, BuildResult, PreparedContext, RunningBuild } from "../../builds/build.ts";
import { type FailedResult, failureLine } from "../../builds/failed-result.ts";
import { misfitText } from "../../builds/node/agent-servers.ts";
import { misfitOfInstalled, onFilesBecause } from "../../builds/node/default-engine.ts";
import type { ContextKey, SharedContexts } from "../../builds/shared-contexts.ts";
import { contextFileOf } from "../../builds/worker/context-file.ts";
import type { Artifact } from "../../contract/listeners/assignment.ts";
import { type BuildEnd, contextUnread } from "../../contract/listeners/build-order.ts";
import { describeError } from "../../telemetry/log.ts";
import { retryDatabase } from "../retry-database.ts";
import type { BuildOrders } from "../store.ts";
import type { BuildWorkers } from "./build-workers.ts";

const pollMs = 500;
const databaseAwayMs = 30_000;

/** Attempts at a build whose context the cluster could not read, and the pause between them. */
const [readTriesMax, readAgainMs] = [4, 2_000];

/** A listener downloads the context at the beginning, so the order may end soon after the build must have ended. */
const expiryMarginMs = 60_000;

/** Adds builds in clusters: a process of this machine prepares the context, and the listener builds the image. */
export function withClusterBuilds(
  workers: BuildWorkers,
  { orders, contexts, dataDir }: { orders: BuildOrders; contexts: SharedContexts | null; dataDir: string },
): BuildWorkers {
  return {
    ...workers,
    start(request, onLine) {
      if (request.target.kind !== "cluster") return workers.start(request, onLine);
      const prepare = (wanted: BuildRequest) => workers.start(wanted, onLine);
      return new ClusterBuild({ request, prepare, onLine, orders, contexts, dataDir });
    },
  };
}

interface ClusterBuildOptions {
  request: BuildRequest;
  /** Starts a process that prepares the context. */
  prepare(request: BuildRequest): RunningBuild;
  onLine: (line: BuildLine) => void;
  orders: BuildOrders;
  /** null: only this server can serve the context. */
  contexts: SharedContexts | null;
  dataDir: string;
}

type Prepared = Extract<BuildResult, { ok: true }>;

/**
 * The build of an image in a cluster. An image of a LangGraph.js agent is built again on files if the engine that it has by default does
 * not work with the packages that the cluster installed.
 */
class ClusterBuild implements RunningBuild {
  readonly pid: number;
  readonly startedAtTicks: string;
  readonly result: Promise<BuildResult>;
  #worker: RunningBuild;
  readonly #options: ClusterBuildOptions;
  readonly #beganAtMs = performance.now();
  readonly #stopping = new AbortController();
  /** Last line of the log of a build that another server continues. */
  #notice: string | undefined;

  constructor(options: ClusterBuildOptions) {
    this.#worker = options.prepare(options.request);
    this.#options = options;
    this.pid = this.#worker.pid;
    this.startedAtTicks = this.#worker.startedAtTicks;
    this.result = this.#run();
  }

  async cancel(notice?: string): Promise<void> {
    this.#notice = notice;
    this.#stopping.abort();
    // The result also waits for a database that is away, which must not delay the stop of this server.
    await this.#worker.cancel(notice);
  }

  async #run(): Promise<BuildResult> {
    try {
      const made = await this.#worker.result;
      if (!made.ok || made.context === undefined) return made;
      const built = await this.#buildImage(made, made.context);
      if (!this.#isMisfit(made, built)) return built.ok ? built : this.#fail(built);
      const onFiles = await this.#prepareOnFiles();
      if (!onFiles.ok || onFiles.context === undefined) return onFiles;
      const last = await this.#buildImage(onFiles, onFiles.context);
      return last.ok ? last : this.#fail(last);
    } catch (error) {
      if (this.#stopping.signal.aborted) return this.#cancelled();
      const message = `The build could not be given to the listener: ${describeError(error)}`;
      return this.#fail({ ok: false, reason: "BuilderFailed", message });
    } finally {
      // A worker that was killed may have left a part of it.
      await rm(contextFileOf(this.#options.request.workDir), { force: true });
    }
  }

  async #buildImage(made: Prepared, from: PreparedContext): Promise<BuildResult> {
    const { context: _, ...prepared } = made;
    const startedAtMs = performance.now();
    const title = `Step ${made.steps.length + 1}/${made.steps.length + 1}`;
    this.#say(`${title}: Build the image in the cluster`);
    const end = await this.#buildUntilRead(from);
    if (end.image === null) {
      const failed = { ok: false as const, reason: end.reason ?? "BuildFailed", message: end.message };
      return { ...failed, ...(made.commit && { commit: made.commit }) };
    }
    const durationMs = Math.round(performance.now() - startedAtMs);
    this.#say(`${title} done in ${(durationMs / 1000).toFixed(1)} s: ${end.image}`);
    const artifact = { ...made.artifact, uri: end.image, digest: end.image.split("@")[1] ?? end.image } as Artifact;
    return { ...prepared, artifact, steps: [...made.steps, { name: "Build the image in the cluster", durationMs }] };
  }

  /** Whether the image has the default engine, and its server did not work with the packages that the cluster installed. */
  #isMisfit({ artifact }: Prepared, built: BuildResult): boolean {
    if (built.ok || !built.message.includes(misfitText) || this.#options.request.isDefaultKept) return false;
    return artifact.engine === "postgres" && artifact.engine_because === "default";
  }

  async #prepareOnFiles(): Promise<BuildResult> {
    this.#stopping.signal.throwIfAborted();
    this.#say(onFilesBecause(misfitOfInstalled));
    const { request, prepare } = this.#options;
    this.#worker = prepare({ ...request, defaultEngine: null, timeoutMs: this.#leftMs() });
    const made = await this.#worker.result;
    if (!made.ok || made.artifact.kind !== "image") return made;
    return { ...made, artifact: { ...made.artifact, engine_because: "packages" } };
  }

  #leftMs(): number {
    return Math.max(0, Math.ceil(this.#options.request.timeoutMs - (performance.now() - this.#beganAtMs)));
  }

  /** Repeats the build when the cluster could not read the context: a server that stops cuts the download. */
  async #buildUntilRead(context: PreparedContext): Promise<BuildEnd> {
    for (let tries = 1; ; tries += 1) {
      const end = await this.#build(context);
      if (end.image !== null || tries === readTriesMax || !end.message.startsWith(contextUnread)) return end;
      this.#say(`${end.message} The build starts again.`);
      await pause(readAgainMs, this.#stopping.signal);
    }
  }

  /** Orders the build from the listener, waits for its end and withdraws it. */
  async #build(context: PreparedContext): Promise<BuildEnd> {
    const { request, orders, contexts, dataDir } = this.#options;
    const leftMs = this.#leftMs();
    const { target } = request;
    if (target.kind !== "cluster") throw new Error("this is no build for a cluster");
    const id = randomUUID();
    const order = {
      id,
      revisionId: request.buildId,
      listenerId: target.listenerId,
      spec: {
        tag: request.key,
        dockerfile: context.dockerfile,
        timeoutS: Math.ceil(leftMs / 1_000),
        diskBytesMax: request.diskBytesMax,
      },
      contextPath: path.relative(dataDir, context.path),
      expiresAt: new Date(orders.now().getTime() + leftMs + expiryMarginMs),
    };
    const key = { deploymentId: request.deploymentId, orderId: id };
    await this.#share(key, context.path);
    try {
      await retryDatabase(() => orders.place(order), { forMs: databaseAwayMs });
      return await this.#waitForEnd(id, leftMs);
    } finally {
      // The next build of the deployment, or its deletion, removes a context that is left behind.
      await contexts?.remove(key).catch(() => {});
      // An order that is left behind expires.
      await retryDatabase(() => orders.drop(id), { forMs: databaseAwayMs }).catch(() => {});
    }
  }

  /** Makes the context known to the other servers. Without it the builder still finds this server, after some redirects. */
  async #share(key: ContextKey, file: string): Promise<void> {
    try {
      await this.#options.contexts?.keep(key, file, this.#stopping.signal);
    } catch (error) {
      this.#stopping.signal.throwIfAborted();
      this.#say(`The build context was not stored in the bucket: ${describeError(error)}`);
    }
  }

  async #waitForEnd(id: string, leftMs: number): Promise<BuildEnd> {
    const { orders } = this.#options;
    const { signal } = this.#stopping;
    const deadlineMs = performance.now() + leftMs;
    while (performance.now() < deadlineMs) {
      await pause(pollMs, signal);
      const end = await retryDatabase(() => orders.readEnd(id), { forMs: databaseAwayMs, signal });
      if (end === undefined) this.#stopping.abort();
      else if (end !== null) return end;
    }
    const seconds = Math.round(this.#options.request.timeoutMs / 1_000);
    const message = `The build did not end within ${seconds} s. If its log shows nothing of the cluster, check that the listener is connected and that it reaches this server.`;
    return { image: null, reason: "Timeout", message };
  }

  #cancelled(): BuildResult {
    const cancelled = { ok: false as const, reason: "Cancelled", message: "The build was cancelled." };
    if (this.#notice === undefined) return this.#fail(cancelled);
    this.#say(this.#notice);
    return cancelled;
  }

  #fail(result: FailedResult): FailedResult {
    this.#options.onLine({ timestamp: new Date(), stream: "pierhead", level: "ERROR", message: failureLine(result) });
    return result;
  }

  #say(message: string): void {
    this.#options.onLine({ timestamp: new Date(), stream: "pierhead", level: "INFO", message });
  }
}
