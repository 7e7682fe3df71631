import { setTimeout as sleep } from "node:timers/promises";
import { errors } from "../../contract/error.ts";
import { changePollIntervalMs } from "../../domain/limits.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import type { Db } from "../engine/database.ts";
import { outsideTransaction } from "../engine/statement-pool.ts";
import { EventOrder } from "./event-order.ts";
import { type EventRow, findEventBounds, findOpenTransactions, readNewEvents } from "./events.ts";

/** Who listens. Neither may wait or throw. */
export interface EventSubscriber {
  onEvents(events: readonly EventRow[]): void;
  /** There will be no more: the server stops, or the database is an older copy of what was read. Listen anew. */
  onClosed(): void;
}

export interface FeedSubscription {
  /** Every event above this number is given to the subscriber, in order, and none up to it. */
  position: number;
  end(): void;
}

/** One read of the database. */
const pageMax = 500;

/** After news the next look waits this long, so that a stream of commits is read in handfuls: at most 200 looks a second. */
const restMs = 5;

/** A look for a missing number is repeated after `restMs`, doubled up to this. */
const gapRestMaxMs = 50;

/** It begins so many numbers below the newest one, as transactions may be open that have one of them. */
const beginBelow = 1_000;

/** Rows above a gap that are held in memory, about 500 bytes each; beyond this only the gap is looked for. */
const heldMax = 20_000;

const retryMs = 1_000;

/** It goes on this long after the last listener left: the next one is often the same. */
const lingerMs = 30_000;

interface Run {
  order: EventOrder<EventRow>;
  stopping: AbortController;
  ended: Promise<void>;
}

/**
 * The events of all workspaces in order, each once, as they are committed by any server: one reader of the database for
 * all who listen in this process. While nobody listens it does not read.
 */
export class EventFeed {
  readonly #db: Db;
  readonly #logger: Logger;
  /** By workspace; null: those who want all. */
  readonly #listeners = new Map<string | null, Set<EventSubscriber>>();
  #run: Promise<Run> | undefined;
  #position = 0;
  #isClosed = false;
  #lingering: NodeJS.Timeout | undefined;
  /** Who wants to know when a look has ended that begins from now on. */
  #afterLook: (() => void)[] = [];
  #kick = () => {};

  constructor(db: Db, logger: Logger) {
    this.#db = db;
    this.#logger = logger;
  }

  /** Up to here every event was given out, or will never be. Stands still while nobody listens. */
  get position(): number {
    return this.#position;
  }

  /**
   * Listens from now on.
   * @param tenantId null: to all workspaces.
   * @throws what the database throws when it is away; ApiError 503 when the feed is closed.
   */
  async subscribe(tenantId: string | null, ears: EventSubscriber): Promise<FeedSubscription> {
    await this.#running();
    const listeners = this.#listeners.get(tenantId) ?? new Set();
    this.#listeners.set(tenantId, listeners.add(ears));
    clearTimeout(this.#lingering);
    const end = () => {
      listeners.delete(ears);
      if (listeners.size === 0 && this.#listeners.get(tenantId) === listeners) this.#listeners.delete(tenantId);
      this.#stopLater();
    };
    return { position: this.#position, end };
  }

  /** The number up to which every event that there will be is committed and can be read. */
  async settled(): Promise<number> {
    await this.#running();
    await new Promise<void>((resolve) => {
      this.#afterLook.push(resolve);
      this.#kick();
    });
    this.#stopLater();
    return this.#position;
  }

  /** Gives nothing out any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#dismiss();
    await this.#stop();
  }

  #dismiss(): void {
    const all = [...this.#listeners.values()].flatMap((listeners) => [...listeners]);
    this.#listeners.clear();
    for (const ears of all) ears.onClosed();
  }

  /** Resolves while it runs: what follows without waiting finds it so. */
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
    clearTimeout(this.#lingering);
    if (this.#listeners.size > 0 || this.#isClosed) return;
    this.#lingering = setTimeout(() => void this.#stop(), lingerMs).unref();
  }

  async #stop(): Promise<void> {
    clearTimeout(this.#lingering);
    const stopped = this.#run;
    this.#run = undefined;
    const run = await stopped?.catch(() => undefined);
    run?.stopping.abort();
    this.#kick();
    await run?.ended;
  }

  async #begin(): Promise<Run> {
    const bounds = await findEventBounds(this.#db);
    const order = new EventOrder<EventRow>(Math.max(0, (bounds?.last ?? 0) - beginBelow));
    // Twice: what was missing the first time, and whose transaction has ended, is not there.
    for (let look = 0; look < 2; look += 1) {
      await this.#look(order);
      order.note(await findOpenTransactions(this.#db));
    }
    await this.#look(order);
    this.#position = order.position;
    const stopping = new AbortController();
    return { order, stopping, ended: outsideTransaction(() => this.#follow(order, stopping)) };
  }

  async #follow(order: EventOrder<EventRow>, stopping: AbortController): Promise<void> {
    const { signal } = stopping;
    const stopListening = this.#db.changes.onEvents(() => this.#kick());
    const poll = setInterval(() => this.#kick(), changePollIntervalMs).unref();
    let restedMs = 0;
    while (!signal.aborted) {
      const kicked = new Promise<void>((resolve) => {
        this.#kick = resolve;
      });
      const waiting = this.#afterLook.splice(0);
      try {
        const { found, isOlder } = await this.#look(order);
        if (isOlder) {
          this.#logger.warn("the database is an older copy of what was read: events are followed anew");
          this.#run = undefined;
          stopping.abort();
          this.#dismiss();
          break;
        }
        this.#position = order.position;
        this.#giveOut(found);
        for (const done of waiting.splice(0)) done();
        const isMissing = order.gaps.length > 0;
        if (isMissing) order.note(await findOpenTransactions(this.#db));
        restedMs = restAfter(restedMs, isMissing && found.length === 0);
        if (isMissing || found.length > 0) await sleep(restedMs);
        else if (this.#afterLook.length === 0) await kicked;
      } catch (error) {
        this.#logger.warn({ error: describeError(error) }, "reading events failed");
        await sleep(retryMs, undefined, { signal }).catch(() => undefined);
      } finally {
        for (const done of waiting) done();
      }
    }
    stopListening();
    clearInterval(poll);
    for (const done of this.#afterLook.splice(0)) done();
  }

  /**
   * @returns the events whose turn it is. `isOlder`: numbers that were read before are not given out yet, so the database was
   * taken back to an earlier moment; who listens is to come back, and is told then what is not known any more.
   */
  async #look(order: EventOrder<EventRow>): Promise<{ found: EventRow[]; isOlder: boolean }> {
    const { highest } = order;
    const limit = order.heldCount < heldMax ? pageMax : 0;
    const { rows, last } = await readNewEvents(this.#db, { above: highest, numbers: order.gaps, limit });
    return { found: order.add(rows, performance.now()), isOlder: last < highest };
  }

  #giveOut(events: readonly EventRow[]): void {
    if (events.length === 0) return;
    for (const ears of this.#listeners.get(null) ?? []) ears.onEvents(events);
    for (const [tenantId, own] of Map.groupBy(events, (event) => event.tenant_id)) {
      for (const ears of this.#listeners.get(tenantId) ?? []) ears.onEvents(own);
    }
  }
}

const restAfter = (restedMs: number, isInVain: boolean) =>
  isInVain ? Math.min(gapRestMaxMs, 2 * restedMs + restMs) : restMs;
