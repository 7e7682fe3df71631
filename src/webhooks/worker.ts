import {
  batchSendWindowMs,
  deliveryLeaseMs,
  nextAttemptInMs,
  orderedAttemptsMax,
  webhookFailingMaxMs,
} from "../domain/webhook-schedule.ts";
import type { MailSettings } from "../integrations/mail.ts";
import type { Db } from "../store/engine/database.ts";
import type { EventFeed, FeedSubscription } from "../store/events/event-feed.ts";
import type { Sealer } from "../store/secrets/seal.ts";
import {
  type ClaimedDelivery,
  type ClaimShares,
  claimDeliveries,
  createDeliveries,
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
import { type Pause, Rounds } from "./rounds.ts";

export interface WebhookWorkerDeps {
  db: Db;
  feed: EventFeed;
  sealer: Sealer;
  logger: Logger;
  metrics: Pick<Metrics, "webhookAttempts">;
  settings: {
    /** Unique for each start of a server. */
    owner: string;
    allowPrivateNetwork: boolean;
    recordsAnswers: boolean;
    version: string;
    consoleUrl: string | null;
    mail: MailSettings | null;
  };
}

/** Claimed messages at the same time, of which each webhook gets one at a time. They mostly wait for responses. */
const inFlightMax = 64;

/**
 * Part of what the other workspaces leave that one may have claimed. Receivers of one workspace that answered after 14 s held all of
 * them, and a message of another one waited for 10 s.
 */
const workspaceShare = 0.5;

/** Pause between two rounds, so that a stream of events is processed in batches. */
const pauseMs = 20;

/** Polling interval without a wake, because another server may have created a webhook, or died. */
const pollMs = 10_000;

const retryMs = 1_000;

/**
 * Delivers events to webhooks. It creates deliveries for events, in the database, and sends those that are due. Several
 * servers may do both; they share the work by claims. Deliveries of a dead server are sent again under the same id.
 * Without webhooks it only checks every ten seconds whether there are any.
 */
export class WebhookWorker {
  readonly #deps: WebhookWorkerDeps;
  readonly #rounds: Rounds;
  readonly #running = new Set<Promise<void>>();
  #inFlight = 0;
  readonly #inFlightOf = new Map<string, number>();
  #subscription: FeedSubscription | undefined;
  #stopListening = () => {};

  constructor(deps: WebhookWorkerDeps) {
    this.#deps = deps;
    this.#rounds = new Rounds({
      logger: deps.logger,
      round: () => this.#round(),
      failure: "webhook delivery round failed",
      failurePause: { leastMs: retryMs, mostMs: retryMs },
    });
  }

  start(): void {
    this.#stopListening = this.#deps.db.changes.onEvents(() => this.#rounds.wake());
    this.#rounds.start();
  }

  /** Stops deliveries in progress; the next server sends them again at once. */
  async stop(): Promise<void> {
    await this.#rounds.stop();
    this.#stopListening();
    this.#subscription?.end();
    await Promise.allSettled(this.#running);
    await releaseDeliveries(this.#deps.db, this.#deps.settings.owner, null);
  }

  /** Runs one round. @returns how long to pause, woken and not. */
  async #round(): Promise<Pause> {
    const { db, feed, settings } = this.#deps;
    if (!(await hasWebhooks(db))) {
      this.#subscription?.end();
      this.#subscription = undefined;
      return { leastMs: retryMs, mostMs: pollMs };
    }
    const onEvents = () => this.#rounds.wake();
    const onClosed = () => {
      this.#subscription = undefined;
      this.#rounds.wake();
    };
    this.#subscription ??= await feed.subscribe(null, { onEvents, onClosed });
    while (await createDeliveries(db, feed.position)) this.#rounds.signal.throwIfAborted();
    const limit = inFlightMax - this.#inFlight;
    const worker = { owner: settings.owner, limit, leaseMs: deliveryLeaseMs, shares: this.#shares() };
    const claimed = limit > 0 ? await claimDeliveries(db, worker) : [];
    for (const batch of Map.groupBy(claimed, ({ webhookId }) => webhookId).values()) {
      this.#begin(batch as [ClaimedDelivery, ...ClaimedDelivery[]]);
    }
    // A workspace that holds its share continues when one of its messages ends.
    const waiting = [...this.#shares().listed].flatMap(([tenantId, left]) => (left === 0 ? [tenantId] : []));
    const dueAt = claimed.length < limit ? await nextDeliveryAt(db, waiting) : null;
    return {
      leastMs: pauseMs,
      mostMs: dueAt === null ? pollMs : Math.min(pollMs, dueAt.getTime() - db.now().getTime()),
    };
  }

  /** Returns how many messages of each workspace may be claimed: a share of what the other workspaces leave. */
  #shares(): ClaimShares {
    const shareOf = (others: number) => Math.max(1, Math.floor((inFlightMax - others) * workspaceShare));
    const listed = [...this.#inFlightOf].map(([tenantId, own]) => {
      return [tenantId, Math.max(0, shareOf(this.#inFlight - own) - own)] as const;
    });
    return { listed: new Map(listed), others: shareOf(this.#inFlight) };
  }

  #count(tenantId: string, change: number): void {
    this.#inFlight += change;
    const count = (this.#inFlightOf.get(tenantId) ?? 0) + change;
    if (count === 0) this.#inFlightOf.delete(tenantId);
    else this.#inFlightOf.set(tenantId, count);
  }

  /** @param batch messages of one webhook. */
  #begin(batch: [ClaimedDelivery, ...ClaimedDelivery[]]): void {
    const { tenantId } = batch[0];
    this.#count(tenantId, batch.length);
    const running = this.#sendBatch(batch).finally(() => {
      this.#count(tenantId, -batch.length);
      this.#running.delete(running);
      this.#rounds.wake();
    });
    this.#running.add(running);
  }

  /** Sends messages of one webhook one after the other, until one fails, and releases the rest. */
  async #sendBatch(batch: ClaimedDelivery[]): Promise<void> {
    const { db, sealer, logger, settings } = this.#deps;
    const signal = this.#rounds.signal;
    const endAt = performance.now() + batchSendWindowMs;
    let sent = 0;
    try {
      for (const delivery of batch) {
        if (performance.now() > endAt) break;
        sent += 1;
        const sender = { sealer, now: db.now(), ...settings };
        const isDelivered = await this.#settle(delivery, await attempt(sender, delivery, signal));
        if (!isDelivered && delivery.attempts < orderedAttemptsMax) break;
      }
      const rest = batch.slice(sent).map(({ id }) => id);
      if (rest.length > 0) await releaseDeliveries(db, settings.owner, rest);
    } catch (error) {
      // The claims expire, and the messages are sent again.
      const fields = { webhook_id: batch[0]?.webhookId, error: describeError(error) };
      if (!signal.aborted) logger.warn(fields, "delivery result unknown");
    }
  }

  /** Records the result of an attempt. @returns whether the message was delivered. */
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
      : `No delivery succeeded for more than ${webhookFailingMaxMs / 3_600_000} hours. ${last}`;
    if (await settleGivenUp(db, claim, result, { isGone, reason })) {
      logger.warn({ webhook_id: webhookId, reason }, "webhook disabled");
    }
    return false;
  }
}
