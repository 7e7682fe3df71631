import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { SlotQueues } from "../../base/slot-queues.ts";
import type { LogType } from "../../contract/logs/log.ts";
import { slowReaderTimeoutMs } from "../../domain/limits.ts";
import type { Db } from "../../store/engine/database.ts";
import type { EventFeed, FeedSubscription } from "../../store/events/event-feed.ts";
import { type EventFilter, type EventRow, mayBeDeleted, readEvents } from "../../store/events/events.ts";
import { findLastLogIds, readLogEntries } from "../../store/logs/log-entries.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { logEntryOf } from "../logs/present-log-entry.ts";
import { eventOf } from "./present-event.ts";

/** What one client subscribed to. */
export interface StreamFilter extends EventFilter {
  /** Last event seen; 0 for all stored events, null to start from now. */
  after: number | null;
  /** Logs of the one deployment in the filter, each with the last line seen (null to start from now). */
  logs: { kind: LogType; after: number | null }[];
  /** Whether the stream ends when its one deployment is deleted. */
  endsWithDeployment: boolean;
}

export interface StreamDeps {
  db: Db;
  feed: EventFeed;
  logger: Logger;
  heartbeatMs: number;
  /** In which the streams of a workspace read. */
  turns: SlotQueues;
  /** Returns whether the client may still read; checked with every heartbeat. */
  isAllowed(): Promise<boolean>;
}

/** Bytes waiting in a connection above which its client counts as slow: some hundred events. */
const congestedBytes = 256 * 1024;

/** Events or log lines per database read, and bytes of these lines: each stream holds as much while its client does not read. */
const pageMax = 500;
const logBytesMax = 64 * 1024;

/** Events of the first read. Later ones read twice as many as long as events are small: those of failed revisions have 30 kB each. */
const firstEvents = 8;

/**
 * Minimum wait before a client reconnects; up to twice as much is added at random, because all clients disconnect at
 * once.
 */
const retryMs = 1_000;

/**
 * One open stream of server-sent events (WHATWG HTML 9.2). While the client keeps up, events of the feed are written as
 * they arrive. When it does not, they are read from the database at the client's pace. A client that accepts nothing
 * for `slowReaderTimeoutMs` is disconnected. Each message carries the cursor to continue from, so nothing is lost
 * either way.
 */
export class EventStream {
  #response!: ServerResponse;
  readonly #deps: StreamDeps;
  readonly #filter: StreamFilter;
  readonly #logs: { kind: LogType; after: number; isNew: boolean }[];
  readonly #ending = new AbortController();
  #subscription: FeedSubscription | undefined;
  /** Everything up to here is sent or does not match the filter. */
  #position = 0;
  /** Whether events are written as they arrive. */
  #isLive = false;
  #eventsAtOnce = firstEvents;
  #wake = () => {};

  constructor(deps: StreamDeps, filter: StreamFilter) {
    this.#deps = deps;
    this.#filter = filter;
    this.#logs = filter.logs.map(({ kind, after }) => ({ kind, after: after ?? 0, isNew: true }));
  }

  /**
   * Subscribes to the feed, so that no later event is missed. Call `run` or `end` afterwards.
   * @returns the first text to write.
   * @throws what the database throws; ApiError 503 when the server stops.
   */
  async open(): Promise<string> {
    const { db, feed } = this.#deps;
    const { tenantId, after, logs, deploymentIds } = this.#filter;
    const isLost = after !== null && (await mayBeDeleted(db, after));
    if (logs.some((log) => log.after === null || isLost)) {
      const last = await findLastLogIds(db, deploymentIds?.[0] as string);
      // After the database was restored from an older backup, new lines reuse numbers that the client has already seen.
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

  /** Serves the stream until the client disconnects, the server stops or `end` is called. */
  async run(response: ServerResponse, first: string): Promise<void> {
    const ending = this.#ending.signal;
    this.#response = response;
    response.write(first);
    const stopLogs = this.#watchLogs();
    const heartbeat = setInterval(() => void this.#heartbeat(), this.#deps.heartbeatMs).unref();
    response.once("close", () => this.end());
    // No "close" event follows when the client left while the stream was opening.
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
      if (!ending.aborted) this.#deps.logger.warn({ error: describeError(error) }, "event stream failed");
    } finally {
      this.end();
      clearInterval(heartbeat);
      stopLogs();
      response.end();
    }
  }

  /** Ends the stream; the client reconnects, here or to another server. */
  end(): void {
    this.#subscription?.end();
    this.#ending.abort();
    this.#wake();
  }

  /** Writes committed events of the workspace. */
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

  /** Reads events up to the position of the feed. @returns whether there were any to read. */
  async #catchUp(): Promise<boolean> {
    if (this.#isLive) return false;
    const upTo = this.#deps.feed.position;
    // No code runs between this check and the next event of the feed, so no event can be missed.
    this.#isLive = this.#position >= upTo;
    if (this.#isLive) return false;
    const { db } = this.#deps;
    const range = { after: this.#position, upTo, limit: this.#eventsAtOnce };
    const rows = await this.#inTurn(() => readEvents(db, this.#filter, range));
    const text = this.#framesOf(rows);
    this.#response.write(text);
    this.#position = rows.length === range.limit ? (rows.at(-1)?.id ?? upTo) : upTo;
    this.#eventsAtOnce = text.length > logBytesMax ? firstEvents : Math.min(pageMax, 2 * range.limit);
    return true;
  }

  /** Reads new log lines. @returns whether any were due. */
  async #readLogs(): Promise<boolean> {
    const log = this.#logs.find(({ isNew }) => isNew);
    if (log === undefined) return false;
    log.isNew = false;
    const filter = {
      deploymentId: this.#filter.deploymentIds?.[0] as string,
      kind: log.kind,
      afterId: log.after,
      limit: pageMax,
      order: "asc" as const,
      ...{ revisionId: null, levelMin: null, query: null, startAt: null, endAt: null },
    };
    const { db } = this.#deps;
    const { rows, isFull } = await this.#inTurn(() => readLogEntries(db, filter, logBytesMax));
    let text = "";
    for (const row of rows) {
      log.after = row.id;
      text += `event: log\n${this.#idLine()}data: ${JSON.stringify(logEntryOf(row, log.kind))}\n\n`;
    }
    if (isFull) log.isNew = true;
    this.#response.write(text);
    return true;
  }

  #inTurn<T>(read: () => Promise<T>): Promise<T> {
    return this.#deps.turns.run(this.#filter.tenantId, read, { signal: this.#ending.signal });
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

  /** Returns the `id` line, which holds the cursor to continue from after this message. */
  #idLine(eventId = this.#position): string {
    return `id: ${[eventId, ...this.#logs.map(({ after }) => after)].join(".")}\n`;
  }

  /** Keeps proxies from closing an idle connection, and moves the client's cursor past events it did not ask for. */
  async #heartbeat(): Promise<void> {
    if (!(await this.#deps.isAllowed())) return this.end();
    if (this.#isLive) this.#position = Math.max(this.#position, this.#deps.feed.position);
    const isIdle = !this.#ending.signal.aborted && !this.#response.writableNeedDrain;
    if (isIdle) this.#response.write(`: still here\n${this.#idLine()}\n`);
  }

  /** Waits until the client has read. @throws when it reads nothing for too long; its connection is then closed. */
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

/** Serialize each event once and share the text between streams. */
const frames = new WeakMap<EventRow, string>();

function frameOf(event: EventRow): string {
  let frame = frames.get(event);
  if (frame === undefined) {
    frame = `event: ${event.kind}\ndata: ${JSON.stringify(eventOf(event))}\n\n`;
    frames.set(event, frame);
  }
  return frame;
}
