import { setTimeout as sleep } from "node:timers/promises";
import { errors } from "../../contract/error.ts";
import { changePollIntervalMs } from "../../domain/limits.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { Db } from "../engine/database.ts";
import { outsideTransaction } from "../engine/statement-pool.ts";
import { EventOrder } from "./event-order.ts";
import { type EventRow, findEventBounds, findOpenTransactions, readNewEvents } from "./events.ts";

/** A subscriber of events. Its functions must neither wait nor throw. */
export interface EventSubscriber {
  onEvents(events: readonly EventRow[]): void;
  /** No more events follow: the server is stopping, or the database was restored from an older copy. Subscribe again. */
  onClosed(): void;
}

export interface FeedSubscription {
  /** The subscriber receives every event above this number, in order, and none up to it. */
  position: number;
  end(): void;
}

/** Events per read of the database. */
const pageMax = 500;

/** Pause after new events, so that a stream of commits is read in batches: at most 200 polls a second. */
const pauseMs = 5;

/** Polls for a missing number start at an interval of `pauseMs`, doubled up to this. */
const gapPauseMaxMs = 50;

/** The feed starts this many numbers below the newest event, because open transactions may hold some of them. */
const startBelow = 1_000;

/** Rows above a gap that are held in memory, about 500 bytes each. Beyond this, only the gap is polled. */
const heldMax = 20_000;

const retryMs = 1_000;

/** The feed keeps running this long after the last subscriber left, because the next one is often the same client. */
const lingerMs = 30_000;

interface Run {
  order: EventOrder<EventRow>;
  stopping: AbortController;
  ended: Promise<void>;
}

/**
 * The events of all workspaces in order, each once, whichever server commits them: one reader of the database for all
 * subscribers in this process. Without subscribers it does not read.
 */
export class EventFeed {
  readonly #db: Db;
  readonly #logger: Logger;
  /** By workspace; null: subscribers to all. */
  readonly #listeners = new Map<string | null, Set<EventSubscriber>>();
  #run: Promise<Run> | undefined;
  #position = 0;
  #isClosed = false;
  #stopTimer: NodeJS.Timeout | undefined;
  /** Called at the end of the next poll that starts after they were added. */
  #afterPoll: (() => void)[] = [];
  #wake = () => {};

  constructor(db: Db, logger: Logger) {
    this.#db = db;
    this.#logger = logger;
  }

  /** Every event up to this number was delivered, or will never exist. Does not advance without subscribers. */
  get position(): number {
    return this.#position;
  }

  /**
   * Subscribes from now on.
   * @param tenantId null: to all workspaces.
   * @throws the database's error when it is down; ApiError 503 when the feed is closed.
   */
  async subscribe(tenantId: string | null, subscriber: EventSubscriber): Promise<FeedSubscription> {
    await this.#running();
    const listeners = this.#listeners.get(tenantId) ?? new Set();
    this.#listeners.set(tenantId, listeners.add(subscriber));
    clearTimeout(this.#stopTimer);
    const end = () => {
      listeners.delete(subscriber);
      if (listeners.size === 0 && this.#listeners.get(tenantId) === listeners) this.#listeners.delete(tenantId);
      this.#stopLater();
    };
    return { position: this.#position, end };
  }

  /** Returns the number up to which every event is committed and readable. */
  async settled(): Promise<number> {
    await this.#running();
    await new Promise<void>((resolve) => {
      this.#afterPoll.push(resolve);
      this.#wake();
    });
    this.#stopLater();
    return this.#position;
  }

  /** Delivers no more events. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#endSubscriptions();
    await this.#stop();
  }

  #endSubscriptions(): void {
    const all = [...this.#listeners.values()].flatMap((listeners) => [...listeners]);
    this.#listeners.clear();
    for (const subscriber of all) subscriber.onClosed();
  }

  /** Resolves while the feed runs; code that follows without an await can rely on that. */
  async #running(): Promise<void> {
    for (;;) {
      if (this.#isClosed) throw errors.unavailable("The server is stopping.", 1);
      this.#run ??= this.#begin();
      const run = this.#run;
      const begun = await run.catch((error: unknown) => {
        if (this.#run === run) this.#run = undefined;
        throw error;
      });
      if (!begun.stopping.signal.aborted) return;
    }
  }

  #stopLater(): void {
    clearTimeout(this.#stopTimer);
    if (this.#listeners.size > 0 || this.#isClosed) return;
    this.#stopTimer = setTimeout(() => void this.#stop(), lingerMs).unref();
  }

  async #stop(): Promise<void> {
    clearTimeout(this.#stopTimer);
    const stopped = this.#run;
    this.#run = undefined;
    const run = await stopped?.catch(() => undefined);
    run?.stopping.abort();
    this.#wake();
    await run?.ended;
  }

  async #begin(): Promise<Run> {
    const bounds = await findEventBounds(this.#db);
    const order = new EventOrder<EventRow>(Math.max(0, (bounds?.last ?? 0) - startBelow));
    // Poll twice: a number that is still missing after its transaction has ended does not exist.
    for (let poll = 0; poll < 2; poll += 1) {
      await this.#pollOnce(order);
      order.setOpenTransactions(await findOpenTransactions(this.#db));
    }
    await this.#pollOnce(order);
    this.#position = order.position;
    const stopping = new AbortController();
    return { order, stopping, ended: outsideTransaction(() => this.#follow(order, stopping)) };
  }

  async #follow(order: EventOrder<EventRow>, stopping: AbortController): Promise<void> {
    const { signal } = stopping;
    const stopListening = this.#db.changes.onEvents(() => this.#wake());
    const poll = setInterval(() => this.#wake(), changePollIntervalMs).unref();
    let pausedMs = 0;
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      const waiting = this.#afterPoll.splice(0);
      try {
        const { found, isOlder } = await this.#pollOnce(order);
        if (isOlder) {
          this.#logger.warn("database is older than the events already read, restarting the event feed");
          this.#run = undefined;
          stopping.abort();
          this.#endSubscriptions();
          break;
        }
        this.#position = order.position;
        this.#deliver(found);
        for (const done of waiting.splice(0)) done();
        const isMissing = order.gaps.length > 0;
        if (isMissing) order.setOpenTransactions(await findOpenTransactions(this.#db));
        pausedMs = pauseAfter(pausedMs, isMissing && found.length === 0);
        if (isMissing || found.length > 0) await sleep(pausedMs);
        else if (this.#afterPoll.length === 0) await woken;
      } catch (error) {
        this.#logger.warn({ error: describeError(error) }, "reading events failed");
        await sleep(retryMs, undefined, { signal }).catch(() => undefined);
      } finally {
        for (const done of waiting) done();
      }
    }
    stopListening();
    clearInterval(poll);
    for (const done of this.#afterPoll.splice(0)) done();
  }

  /**
   * Polls once.
   * @returns the events to deliver. `isOlder`: numbers read before are not assigned any more, so the database was restored
   * to an earlier moment. Subscribers must return, and then learn which events no longer exist.
   */
  async #pollOnce(order: EventOrder<EventRow>): Promise<{ found: EventRow[]; isOlder: boolean }> {
    const { highest } = order;
    const limit = order.heldCount < heldMax ? pageMax : 0;
    const { rows, last } = await readNewEvents(this.#db, { above: highest, numbers: order.gaps, limit });
    return { found: order.add(rows, performance.now()), isOlder: last < highest };
  }

  #deliver(events: readonly EventRow[]): void {
    if (events.length === 0) return;
    for (const subscriber of this.#listeners.get(null) ?? []) subscriber.onEvents(events);
    for (const [tenantId, own] of Map.groupBy(events, (event) => event.tenant_id)) {
      for (const subscriber of this.#listeners.get(tenantId) ?? []) subscriber.onEvents(own);
    }
  }
}

const pauseAfter = (pausedMs: number, foundNothing: boolean) =>
  foundNothing ? Math.min(gapPauseMaxMs, 2 * pausedMs + pauseMs) : pauseMs;
