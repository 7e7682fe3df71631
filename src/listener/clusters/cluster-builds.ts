import type { Clock } from "../../base/clock.ts";
import { sleep } from "../../base/clock.ts";
import { withDeadline } from "../../base/deadline.ts";
import { CallRefused, type ListenerSession, StaleEpoch } from "../../client/listener-client.ts";
import type { ImageBuilds } from "../../compute/image-builds.ts";
import type { BuildEnd, BuildLogLine, BuildOrder } from "../../contract/listeners/build-order.ts";
import { sanitizeText } from "../../domain/sanitize-text.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { followRemovals } from "./image-removals.ts";

const waitMs = 25_000;
const callTimeoutMs = 30_000;
const retryMs = 2_000;
const pollMs = 1_000;

/** A control plane that knows no builds may be updated. */
const unknownMs = 600_000;

/** The protocol's limits per call, and per line. */
const linesMax = 1_000;
const batchBytesMax = 1024 * 1024;
const messageLengthMax = 65_536;
const endLengthMax = 16_384;

/** Ids, timestamp and names of a line in a report. */
const lineOverheadBytes = 400;

export interface ClusterBuildsOptions {
  builds: ImageBuilds;
  /** Address of the control plane as pods of the cluster reach it. */
  controlPlaneUrl: string;
  clock: Clock;
  logger: Logger;
  onStale(error: StaleEpoch): void;
}

/**
 * Runs the builds that the control plane orders from this listener. A build runs for as long as it is listed; what else the
 * cluster has of this listener is removed. Beside it, images that no revision needs leave the registry. Everything here may be lost: orders and Jobs are enough to continue.
 */
export class ClusterBuilds {
  readonly #options: ClusterBuildsOptions;
  readonly #running = new Map<string, AbortController>();
  #ending = new AbortController();

  constructor(options: ClusterBuildsOptions) {
    this.#options = options;
  }

  /** Switches to a new session. Null: another instance leads. Jobs go on, and that instance takes them over. */
  follow(session: ListenerSession | null): void {
    this.#ending.abort(new Error("another session"));
    this.#ending = new AbortController();
    this.#running.clear();
    if (session !== null) void this.#followOrders(session, this.#ending.signal).catch(() => {});
  }

  close(): void {
    this.follow(null);
  }

  async #followOrders(session: ListenerSession, signal: AbortSignal): Promise<void> {
    for (let isFirst = true; ; ) {
      try {
        await this.#compareOrders(session, isFirst, signal);
        // The first comparison removes what an earlier session left, also of a removal.
        if (isFirst) void followRemovals(this.#options, session, signal).catch(() => {});
        isFirst = false;
      } catch (error) {
        signal.throwIfAborted();
        if (error instanceof StaleEpoch) return this.#options.onStale(error);
        await this.#waitAfter(error, signal);
      }
    }
  }

  /** Starts the builds that are new on the list and removes those that are not on it. */
  async #compareOrders(session: ListenerSession, isFirst: boolean, signal: AbortSignal): Promise<void> {
    const known = [...this.#running.keys()];
    const forMs = isFirst ? 0 : waitMs;
    const orders = await this.#call(signal, forMs, (ending) => session.buildOrders(known, forMs, ending));
    const wanted = new Set(orders.map(({ build_id: id }) => id));
    const { builds } = this.#options;
    const left = isFirst ? await this.#call(signal, 0, (ending) => builds.list(session.listener_id, ending)) : known;
    for (const id of left) if (!wanted.has(id)) await this.#remove(id, signal);
    for (const order of orders) this.#begin(order, session, signal);
  }

  async #waitAfter(error: unknown, signal: AbortSignal): Promise<void> {
    const { clock, logger } = this.#options;
    const isUnknown = error instanceof CallRefused && error.status === 404;
    if (!isUnknown) logger.warn({ error: describeError(error) }, "builds cannot be followed");
    await sleep(clock, isUnknown ? unknownMs : retryMs, signal);
  }

  #call<T>(signal: AbortSignal, extraMs: number, act: (signal: AbortSignal) => Promise<T>): Promise<T> {
    return withDeadline({ clock: this.#options.clock, timeoutMs: callTimeoutMs + extraMs, signal }, act);
  }

  #begin(order: BuildOrder, session: ListenerSession, signal: AbortSignal): void {
    const { build_id: id } = order;
    if (this.#running.has(id)) return;
    const stop = new AbortController();
    this.#running.set(id, stop);
    void this.#run(order, session, AbortSignal.any([signal, stop.signal])).catch((error: unknown) => {
      if (signal.aborted || stop.signal.aborted) return;
      if (error instanceof StaleEpoch) return this.#options.onStale(error);
      this.#options.logger.warn({ build_id: id, error: describeError(error) }, "build interrupted");
      this.#options.clock.setTimeout(() => {
        if (signal.aborted || stop.signal.aborted) return;
        this.#running.delete(id);
        this.#begin(order, session, signal);
      }, retryMs);
    });
  }

  async #run(order: BuildOrder, session: ListenerSession, signal: AbortSignal): Promise<void> {
    const { logger, controlPlaneUrl } = this.#options;
    const { build_id: id, context_path: contextPath } = order;
    const build = {
      id,
      deploymentId: order.deployment_id,
      tag: order.tag,
      dockerfile: order.dockerfile,
      contextUrl: controlPlaneUrl.replace(/\/+$/, "") + contextPath,
      timeoutS: order.timeout_s,
      diskBytesMax: order.disk_bytes_max,
    };
    const refusal = await this.#start(build, session, signal);
    logger.info({ build_id: id, deployment_id: order.deployment_id }, "build started");
    const end = await this.#follow(id, refusal, session, signal);
    logger.info({ build_id: id, image: end?.image ?? null }, "build ended");
    await this.#remove(id, signal);
  }

  /** Sends the log until the build has ended or is not wanted any more, and its end with the last line. */
  async #follow(id: string, refusal: BuildEnd | null, session: ListenerSession, signal: AbortSignal) {
    const { builds, clock } = this.#options;
    const inspect = () => this.#call(signal, 0, (ending) => builds.inspect(id, ending));
    let cursor: string | null = null;
    for (let end = refusal; ; ) {
      end ??= await inspect();
      const read = await this.#call(signal, 0, (ending) => builds.readLog(id, cursor, ending));
      // The log is read after the end was seen, so that the last lines are not lost.
      const isLast = end !== null && read.cursor === cursor;
      // Only the log says which step failed.
      if (isLast && refusal === null) end = (await inspect()) ?? end;
      const isWanted = await this.#report(id, read.lines, isLast ? end : null, session, signal);
      if (isLast || !isWanted) return end;
      if (read.cursor === cursor) await sleep(clock, pollMs, signal);
      cursor = read.cursor;
    }
  }

  /** Starts a build. Returns its end when the cluster refuses it. */
  async #start(
    build: Parameters<ImageBuilds["start"]>[0],
    session: ListenerSession,
    signal: AbortSignal,
  ): Promise<BuildEnd | null> {
    try {
      await this.#call(signal, 0, (ending) => this.#options.builds.start(build, session.listener_id, ending));
      return null;
    } catch (error) {
      signal.throwIfAborted();
      const { status } = error as { status?: number };
      // Not an answer, or that of an API server that restarts or is busy: tried again.
      if (status === undefined || status >= 500 || status === 429) throw error;
      return {
        image: null,
        reason: "BuilderFailed",
        message: `The cluster refuses the build: ${describeError(error)}`,
      };
    }
  }

  /** Sends lines, and the end with the last of them. @returns whether the build is still wanted */
  async #report(
    id: string,
    lines: BuildLogLine[],
    end: BuildEnd | null,
    session: ListenerSession,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (lines.length === 0 && end === null) return true;
    const batches = batchesOf(lines);
    // The message may quote the log.
    const sentEnd = end && { ...end, message: sanitizeText(end.message.slice(0, endLengthMax)) };
    for (const [index, batch] of batches.entries()) {
      const progress = { lines: batch, end: index === batches.length - 1 ? sentEnd : null };
      const isWanted = await this.#call(signal, 0, (ending) => session.reportBuild(id, progress, ending));
      if (!isWanted) return false;
    }
    return true;
  }

  async #remove(id: string, signal: AbortSignal): Promise<void> {
    this.#running.get(id)?.abort(new Error("the build is not wanted any more"));
    await this.#call(signal.aborted ? this.#ending.signal : signal, 0, (ending) =>
      this.#options.builds.remove(id, ending),
    );
    this.#running.delete(id);
  }
}

/** Returns lines in the form and number that one report may have. At least one batch, which may be empty. */
function batchesOf(lines: BuildLogLine[]): BuildLogLine[][] {
  let batch: BuildLogLine[] = [];
  const batches = [batch];
  let bytes = 0;
  for (const line of lines) {
    const sent = { ...line, message: sanitizeText(line.message.slice(0, messageLengthMax)) };
    // As JSON, because escapes can make a line six times as long.
    const size = Buffer.byteLength(JSON.stringify(sent.message)) + lineOverheadBytes;
    if (batch.length === linesMax || (batch.length > 0 && bytes + size > batchBytesMax)) {
      batch = [];
      batches.push(batch);
      bytes = 0;
    }
    batch.push(sent);
    bytes += size;
  }
  return batches;
}
