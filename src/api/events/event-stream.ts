import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { LogType } from "../../contract/logs/log.ts";
import { slowReaderTimeoutMs } from "../../domain/limits.ts";
import type { Db } from "../../store/engine/database.ts";
import type { EventFeed, FeedSubscription } from "../../store/events/event-feed.ts";
import { type EventFilter, type EventRow, isForgotten, readEvents } from "../../store/events/events.ts";
import { findLastLogIds, readLogEntries } from "../../store/logs/log-entries.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { logEntryOf } from "../logs/present-log-entry.ts";
import { eventOf } from "./present-event.ts";

/** What one watcher asked for. */
export interface StreamFilter extends EventFilter {
  /** Last event seen, 0 for all that are kept; null: from now on. */
  after: number | null;
  /** Logs of the one filter deployment, each with the last line seen (null: from now on). */
  logs: { kind: LogType; after: number | null }[];
  /** The stream ends when the one filter deployment is gone. */
  endsWithDeployment: boolean;
}

export interface StreamDeps {
  db: Db;
  feed: EventFeed;
  logger: Logger;
  heartbeatMs: number;
  /** Whether who opened it may still watch; asked again and again. */
  isAllowed(): Promise<boolean>;
}

/** Bytes that wait in a connection before its reader counts as slow: some hundred events. */
const congestedBytes = 256 * 1024;

/** Events or lines of one read of the database. */
const pageMax = 500;

/** What a lost client waits at least before it comes back, and at most twice as long more: all are lost at the same time. */
const retryMs = 1_000;

/**
 * One open stream of server-sent events (WHATWG HTML 9.2). While its reader keeps up, events of the feed are written as
 * they come; when it does not, they are read from the database again at its own pace, and one that takes nothing for
 * `streamPatienceMs` is cut off. Each message carries the place to go on from, so nothing is lost either way.
 */
export class EventStream {
  #response!: ServerResponse;
  readonly #deps: StreamDeps;
  readonly #filter: StreamFilter;
  readonly #logs: { kind: LogType; after: number; isNew: boolean }[];
  readonly #ending = new AbortController();
  #subscription: FeedSubscription | undefined;
  /** Settled up to here for this reader. */
  #position = 0;
  /** Is given events as they come. */
  #isLive = false;
  #wake = () => {};

  constructor(deps: StreamDeps, filter: StreamFilter) {
    this.#deps = deps;
    this.#filter = filter;
    this.#logs = filter.logs.map(({ kind, after }) => ({ kind, after: after ?? 0, isNew: true }));
  }

  /**
   * Begins to listen: nothing that happens from here on is missed. `run` or `end` must follow.
   * @returns what to write first.
   * @throws what the database throws; ApiError 503 when the server stops.
   */
  async open(): Promise<string> {
    const { db, feed } = this.#deps;
    const { tenantId, after, logs, deploymentIds } = this.#filter;
    const isLost = after !== null && (await isForgotten(db, after));
    if (logs.some((log) => log.after === null || isLost)) {
      const last = await findLastLogIds(db, deploymentIds?.[0] as string);
      // Lines of a database that is an older copy of what the reader has seen have numbers below those again.
      for (const [index, log] of logs.entries()) {
        Object.assign(this.#logs[index] ?? {}, { after: Math.min(log.after ?? Infinity, last[log.kind]) });
      }
    }
    const subscriber = {
      onEvents: (events: readonly EventRow[]) => this.#writeEvents(events),
      onClosed: () => this.end(),
    };
    this.#subscription = await feed.subscribe(tenantId, subscriber);
    this.#position = after === null || isLost ? this.#subscription.position : after;
    const reset = `event: reset\n${this.#idLine()}data: {"reason":"forgotten"}\n\n`;
    const retry = Math.round(retryMs * (1 + 2 * Math.random()));
    return `retry: ${retry}\n${this.#idLine()}\n${isLost ? reset : ""}`;
  }

  /** Serves until the reader goes, the server closes or `end` is called. */
  async run(response: ServerResponse, first: string): Promise<void> {
    const ending = this.#ending.signal;
    this.#response = response;
    response.write(first);
    const stopLogs = this.#watchLogs();
    const heartbeat = setInterval(() => void this.#heartbeat(), this.#deps.heartbeatMs).unref();
    response.once("close", () => this.end());
    // Who left while the stream was opened closes no second time.
    if (response.destroyed) this.end();
    try {
      while (!ending.aborted) {
        const woken = new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        if (response.writableNeedDrain) await this.#drained();
        else if (!(await this.#catchUp()) && !(await this.#readLogs())) await woken;
      }
    } catch (error) {
      if (!ending.aborted) this.#deps.logger.warn({ error: describeError(error) }, "an event stream ended early");
    } finally {
      this.end();
      clearInterval(heartbeat);
      stopLogs();
      response.end();
    }
  }

  /** Lets the reader come back elsewhere, or later. */
  end(): void {
    this.#subscription?.end();
    this.#ending.abort();
    this.#wake();
  }

  /** Events of the workspace, as they are committed. */
  #writeEvents(events: readonly EventRow[]): void {
    if (!this.#isLive) return;
    const text = this.#framesOf(events);
    this.#position = Math.max(this.#position, this.#deps.feed.position);
    if (text === "") return;
    this.#response.write(text);
    if (this.#response.writableLength < congestedBytes) return;
    this.#isLive = false;
    this.#wake();
  }

  /** Reads on towards the feed. @returns whether there was something to read. */
  async #catchUp(): Promise<boolean> {
    if (this.#isLive) return false;
    const upTo = this.#deps.feed.position;
    // Nothing runs between this look and the next event of the feed: none can slip through.
    this.#isLive = this.#position >= upTo;
    if (this.#isLive) return false;
    const rows = await readEvents(this.#deps.db, this.#filter, { after: this.#position, upTo, limit: pageMax });
    this.#response.write(this.#framesOf(rows));
    this.#position = rows.length === pageMax ? (rows.at(-1)?.id ?? upTo) : upTo;
    return true;
  }

  /** Reads new lines. @returns whether there were any. */
  async #readLogs(): Promise<boolean> {
    const log = this.#logs.find(({ isNew }) => isNew);
    if (log === undefined) return false;
    log.isNew = false;
    const rows = await readLogEntries(this.#deps.db, {
      deploymentId: this.#filter.deploymentIds?.[0] as string,
      kind: log.kind,
      afterId: log.after,
      limit: pageMax,
      order: "asc",
      ...{ revisionId: null, levelMin: null, query: null, startAt: null, endAt: null },
    });
    let text = "";
    for (const row of rows) {
      log.after = row.id;
      text += `event: log\n${this.#idLine()}data: ${JSON.stringify(logEntryOf(row, log.kind))}\n\n`;
    }
    if (rows.length === pageMax) log.isNew = true;
    this.#response.write(text);
    return true;
  }

  #watchLogs(): () => void {
    const [deploymentId] = this.#filter.deploymentIds ?? [];
    if (this.#logs.length === 0 || deploymentId === undefined) return () => {};
    return this.#deps.db.logSignal.watch(deploymentId, () => {
      for (const log of this.#logs) log.isNew = true;
      this.#wake();
    });
  }

  #framesOf(events: readonly EventRow[]): string {
    const { deploymentIds, types, endsWithDeployment } = this.#filter;
    let text = "";
    for (const event of events) {
      const isOurs = deploymentIds === null || deploymentIds.includes(event.deployment_id ?? "");
      if (!isOurs || event.id <= this.#position) continue;
      if (types === null || types.includes(event.kind)) text += this.#idLine(event.id) + frameOf(event);
      if (endsWithDeployment && event.kind === "deployment.deleted") queueMicrotask(() => this.end());
    }
    return text;
  }

  /** The line that says where to go on from after this message. */
  #idLine(eventId = this.#position): string {
    return `id: ${[eventId, ...this.#logs.map(({ after }) => after)].join(".")}\n`;
  }

  /** Keeps proxies from closing what is idle, and moves the reader's place on over what it did not ask for. */
  async #heartbeat(): Promise<void> {
    if (!(await this.#deps.isAllowed())) return this.end();
    if (this.#isLive) this.#position = Math.max(this.#position, this.#deps.feed.position);
    const isIdle = !this.#ending.signal.aborted && !this.#response.writableNeedDrain;
    if (isIdle) this.#response.write(`: still here\n${this.#idLine()}\n`);
  }

  /** @throws when the reader takes nothing for too long; it is cut off then. */
  async #drained(): Promise<void> {
    const late = AbortSignal.timeout(slowReaderTimeoutMs);
    try {
      await once(this.#response, "drain", { signal: AbortSignal.any([late, this.#ending.signal]) });
    } catch (error) {
      if (late.aborted) this.#response.destroy();
      throw error;
    }
  }
}

/** An event is told to many: its text is made once. */
const frames = new WeakMap<EventRow, string>();

function frameOf(event: EventRow): string {
  let frame = frames.get(event);
  if (frame === undefined) {
    frame = `event: ${event.kind}\ndata: ${JSON.stringify(eventOf(event))}\n\n`;
    frames.set(event, frame);
  }
  return frame;
}
