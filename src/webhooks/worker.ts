import { setTimeout as sleep } from "node:timers/promises";
import {
  batchSendWindowMs,
  deliveryLeaseMs,
  nextAttemptInMs,
  orderedAttemptsMax,
  webhookFailingMaxMs,
} from "../domain/webhook-schedule.ts";
import type { Db } from "../store/engine/database.ts";
import type { EventFeed, FeedSubscription } from "../store/events/event-feed.ts";
import type { Sealer } from "../store/secrets/seal.ts";
import {
  type ClaimedDelivery,
  claimDeliveries,
  makeDeliveries,
  nextDeliveryAt,
  releaseDeliveries,
  settleDelivered,
  settleFailed,
  settleGivenUp,
} from "../store/webhooks/webhook-deliveries.ts";
import { hasWebhooks } from "../store/webhooks/webhooks.ts";
import { describeError, type Logger } from "../telemetry/log.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { type Attempt, attempt } from "./attempt.ts";

export interface WebhookWorkerDeps {
  db: Db;
  feed: EventFeed;
  sealer: Sealer;
  logger: Logger;
  metrics: Pick<Metrics, "webhookAttempts">;
  settings: {
    /** Unique to this start of this server. */
    owner: string;
    allowPrivateNetwork: boolean;
    version: string;
  };
}

/** Messages in hand at the same time, of which each webhook is sent one at a time: mostly waiting. */
const inHandMax = 64;

/** Between two rounds, so that a stream of events is worked off in handfuls. */
const restMs = 20;

/** Without news one looks this often: another server may have got a webhook, or have died. */
const lookMs = 10_000;

const retryMs = 1_000;

/**
 * Tells receivers of events. Makes deliveries of events, in the database, and sends those that are due; both may be done
 * by several servers, which share the work by claims. What one that died had under way is sent again, under the same id.
 * Without webhooks it asks every ten seconds whether there are any, and nothing else.
 */
export class WebhookWorker {
  readonly #deps: WebhookWorkerDeps;
  readonly #stopping = new AbortController();
  readonly #running = new Set<Promise<void>>();
  #inHand = 0;
  #subscription: FeedSubscription | undefined;
  #ended = Promise.resolve();
  #wake = () => {};

  constructor(deps: WebhookWorkerDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#ended = this.#run();
  }

  /** Ends what is under way; it is sent again by the next server, at once. */
  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the server is stopping"));
    this.#wake();
    await this.#ended;
    await Promise.allSettled(this.#running);
    await releaseDeliveries(this.#deps.db, this.#deps.settings.owner, null);
  }

  async #run(): Promise<void> {
    const { db, logger } = this.#deps;
    const signal = this.#stopping.signal;
    const stopListening = db.changes.onEvents(() => this.#wake());
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      try {
        await this.#rest(await this.#round(), woken);
      } catch (error) {
        if (!signal.aborted) logger.warn({ error: describeError(error) }, "telling webhooks failed");
        await this.#rest({ leastMs: retryMs, mostMs: retryMs }, woken);
      }
    }
    stopListening();
    this.#subscription?.end();
  }

  /** @returns how long it may rest, woken and not. */
  async #round(): Promise<Rest> {
    const { db, feed, settings } = this.#deps;
    if (!(await hasWebhooks(db))) {
      this.#subscription?.end();
      this.#subscription = undefined;
      return { leastMs: retryMs, mostMs: lookMs };
    }
    const onEvents = () => this.#wake();
    const onClosed = () => {
      this.#subscription = undefined;
      this.#wake();
    };
    this.#subscription ??= await feed.subscribe(null, { onEvents, onClosed });
    while (await makeDeliveries(db, feed.position)) this.#stopping.signal.throwIfAborted();
    const limit = inHandMax - this.#inHand;
    const worker = { owner: settings.owner, limit, leaseMs: deliveryLeaseMs };
    const claimed = limit > 0 ? await claimDeliveries(db, worker) : [];
    for (const row of Map.groupBy(claimed, ({ webhookId }) => webhookId).values()) this.#begin(row);
    const dueAt = claimed.length < limit ? await nextDeliveryAt(db) : null;
    return {
      leastMs: restMs,
      mostMs: dueAt === null ? lookMs : Math.min(lookMs, dueAt.getTime() - db.now().getTime()),
    };
  }

  async #rest({ leastMs, mostMs }: Rest, woken: Promise<void>): Promise<void> {
    const ending = new AbortController();
    const signal = AbortSignal.any([ending.signal, this.#stopping.signal]);
    const pause = (ms: number) => sleep(ms, undefined, { signal }).catch(() => undefined);
    await pause(leastMs);
    if (mostMs > leastMs) await Promise.race([woken, pause(mostMs - leastMs)]);
    ending.abort();
  }

  #begin(row: ClaimedDelivery[]): void {
    this.#inHand += row.length;
    const running = this.#sendRow(row).finally(() => {
      this.#inHand -= row.length;
      this.#running.delete(running);
      this.#wake();
    });
    this.#running.add(running);
  }

  /** Sends messages of one webhook one after the other, until one fails; the rest is given back. */
  async #sendRow(row: ClaimedDelivery[]): Promise<void> {
    const { db, sealer, logger, settings } = this.#deps;
    const signal = this.#stopping.signal;
    const endAt = performance.now() + batchSendWindowMs;
    let sent = 0;
    try {
      for (const delivery of row) {
        if (performance.now() > endAt) break;
        sent += 1;
        const sender = { sealer, now: db.now(), ...settings };
        const isDelivered = await this.#settle(delivery, await attempt(sender, delivery, signal));
        if (!isDelivered && delivery.attempts < orderedAttemptsMax) break;
      }
      const rest = row.slice(sent).map(({ id }) => id);
      if (rest.length > 0) await releaseDeliveries(db, settings.owner, rest);
    } catch (error) {
      // The claims run out, and they are sent again.
      const fields = { webhook_id: row[0]?.webhookId, error: describeError(error) };
      if (!signal.aborted) logger.warn(fields, "deliveries are in doubt");
    }
  }

  /** Writes down how an attempt went. @returns whether the message got through. */
  async #settle({ id, attempts, webhookId }: ClaimedDelivery, result: Attempt): Promise<boolean> {
    const { db, logger, metrics, settings } = this.#deps;
    const claim = { id, attempts, owner: settings.owner };
    const { responseStatus: status } = result;
    if (status !== null && status >= 200 && status <= 299) {
      metrics.webhookAttempts.inc({ outcome: "delivered" });
      await settleDelivered(db, claim, result);
      return true;
    }
    const isGone = status === 410;
    const retryInMs = isGone ? null : nextAttemptInMs(attempts, Math.random(), result.retryAfterMs);
    metrics.webhookAttempts.inc({ outcome: retryInMs === null ? "given up" : "failed" });
    if (retryInMs !== null) {
      await settleFailed(db, claim, result, retryInMs);
      return false;
    }
    const last = result.error ?? `The receiver answered ${status}.`;
    const reason = isGone
      ? last
      : `Nothing got through for more than ${webhookFailingMaxMs / 3_600_000} hours. ${last}`;
    if (await settleGivenUp(db, claim, result, { isGone, reason })) {
      logger.warn({ webhook_id: webhookId, reason }, "webhook switched off");
    }
    return false;
  }
}

interface Rest {
  /** Even when it is woken. */
  leastMs: number;
  mostMs: number;
}
