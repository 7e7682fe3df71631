import type { Crons } from "./crons.ts";
import type { Executions } from "./runs/executions.ts";
import type { Settings } from "./settings.ts";
import type { Stock } from "./stock.ts";
import type { Database } from "./store/database.ts";
import { finish, recover } from "./store/queue.ts";
import { sweep } from "./store/sweeps.ts";
import { type DueWebhook, removeWebhook, takeWebhooks } from "./store/webhooks.ts";

const webhookAttempts = 3;
const webhooksAtOnce = 5;

interface Parts {
  database: Database;
  stock: Stock;
  settings: Settings;
  crons: Crons;
  executions: Executions;
}

/** Work that any replica does: recovers runs, fires crons, sends webhooks, deletes expired rows. */
export class Background {
  readonly #parts: Parts;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #running = new Set<Promise<void>>();
  readonly #closed = new AbortController();

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  start(): void {
    const { settings, crons, database } = this.#parts;
    this.#every(settings.leaseMs / 5, "runs not recovered", () => this.#recover());
    this.#every(1_000, "crons not fired", () => crons.fireDue());
    this.#every(1_000, "webhooks not sent", () => this.#sendWebhooks());
    this.#every(settings.sweepIntervalMs, "expired rows not deleted", () => sweep(database, settings));
  }

  async close(): Promise<void> {
    this.#closed.abort();
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#running);
  }

  /** Calls `act` again and again, one call at a time. A failure is logged and tried again. */
  #every(ms: number, failure: string, act: () => Promise<void>): void {
    let busy = false;
    const timer = setInterval(() => {
      if (busy) return;
      busy = true;
      const done = act()
        .catch((error: unknown) => this.#parts.stock.logger.warn(failure, { error }))
        .then(() => {
          busy = false;
          this.#running.delete(done);
        });
      this.#running.add(done);
    }, ms);
    this.#timers.push(timer);
  }

  async #recover(): Promise<void> {
    const { database, stock } = this.#parts;
    const { recovered, cancelled } = await recover(database);
    if (recovered.length > 0) stock.logger.warn("runs recovered", { run_ids: recovered });
    for (const { run_id, thread_id, lease, temporary } of cancelled) {
      const outcome = { runId: run_id, threadId: thread_id, lease, status: "interrupted" as const, temporary };
      await finish(database, stock, outcome);
    }
  }

  async #sendWebhooks(): Promise<void> {
    const { database, stock } = this.#parts;
    const due = await takeWebhooks(database.query, webhooksAtOnce);
    await Promise.all(
      due.map(async (webhook) => {
        try {
          await this.#send(webhook);
        } catch (error) {
          stock.logger.warn("webhook not delivered", { run_id: webhook.run_id, attempt: webhook.attempt, error });
          if (webhook.attempt < webhookAttempts) return;
        }
        await removeWebhook(database.query, webhook.webhook_id);
      }),
    );
  }

  async #send({ url, payload }: DueWebhook): Promise<void> {
    const deadline = AbortSignal.timeout(this.#parts.settings.webhookTimeoutMs);
    const signal = AbortSignal.any([deadline, this.#closed.signal]);
    const body = JSON.stringify({ ...payload, webhook_sent_at: new Date().toISOString() });
    const request = { method: "POST", headers: { "content-type": "application/json" }, body, signal };
    const response = url.startsWith("/") ? await raced(loopback(url, request), signal) : await fetch(url, request);
    // Its receiver has decided: another attempt would not change a refusal.
    if (response.status >= 500) throw new Error(`the receiver answered ${response.status}`);
    await response.body?.cancel();
  }
}

/** Calls a route of the same server, as the stock server does for webhooks that begin with a slash. */
function loopback(url: string, request: RequestInit): Promise<Response> {
  const call = (globalThis as unknown as Record<symbol, typeof fetch>)[Symbol.for("langgraph_api:fetch")];
  if (call === undefined) throw new Error("the server has not started");
  return call(url, request);
}

/** The loopback does not listen to the abort signal. */
function raced<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
    promise.then(resolve, reject);
  });
}
