import type { Settings } from "../settings.ts";
import type { Stock } from "../stock.ts";
import type { Query } from "../store/database.ts";
import { claim } from "../store/queue.ts";
import type { Signals } from "../store/signals.ts";
import type { Execution, Executions } from "./executions.ts";

/** Delayed runs become due without a signal, and signals can be missed. */
const pollMs = 1_000;

/** Claims runs for idle workers: one statement for all of them, on a signal or once a second, and none while all are busy. */
export class Dispatcher {
  readonly #query: Query;
  readonly #executions: Executions;
  readonly #stock: Stock;
  readonly #leaseMs: number;
  #idle: ((execution: Execution | undefined) => void)[] = [];
  #timer: NodeJS.Timeout | undefined;
  #claiming = false;
  #again = false;
  #closed = false;

  constructor(query: Query, signals: Signals, executions: Executions, stock: Stock, settings: Settings) {
    this.#query = query;
    this.#executions = executions;
    this.#stock = stock;
    this.#leaseMs = settings.leaseMs;
    signals.on("queue", () => void this.claim());
    signals.on("reconnected", () => void this.claim());
    this.#timer = setInterval(() => void this.claim(), pollMs);
  }

  /** Waits for a run. @returns undefined after `close`. */
  take(): Promise<Execution | undefined> {
    if (this.#closed) return Promise.resolve(undefined);
    const taken = new Promise<Execution | undefined>((resolve) => this.#idle.push(resolve));
    void this.claim();
    return taken;
  }

  async claim(): Promise<void> {
    if (this.#claiming) {
      this.#again = true;
      return;
    }
    this.#claiming = true;
    try {
      do {
        this.#again = false;
        await this.#claimOnce();
      } while (this.#again && !this.#closed);
    } catch (error) {
      this.#stock.logger.warn("runs not claimed", { error });
    } finally {
      this.#claiming = false;
    }
  }

  /** Gives no more runs to workers. */
  close(): void {
    this.#closed = true;
    clearInterval(this.#timer);
    for (const resolve of this.#idle.splice(0)) resolve(undefined);
  }

  async #claimOnce(): Promise<void> {
    if (this.#idle.length === 0 || this.#closed) return;
    const claimedAt = performance.now();
    const claims = await claim(this.#query, {
      graphs: Object.keys(this.#stock.graphs),
      busyThreads: this.#executions.threads,
      leaseMs: this.#leaseMs,
      limit: this.#idle.length,
    });
    for (const claimed of claims) {
      const execution = this.#executions.begin(claimed, claimedAt);
      const resolve = this.#idle.shift();
      if (resolve !== undefined) resolve(execution);
      else {
        // Closed in the meantime: no worker is left.
        execution.stop("handover");
        await this.#executions.settle(execution);
      }
    }
  }
}
