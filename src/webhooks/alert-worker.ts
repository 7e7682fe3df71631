import { setTimeout as sleep } from "node:timers/promises";
import { firingAlerts, tenantsWithLatencyRule } from "../domain/alert-rules.ts";
import { readAlertFacts, readChangedRules, recordAlerts } from "../store/alerts/alerts.ts";
import type { Db } from "../store/engine/database.ts";
import { acquireLease, releaseLease } from "../store/queue/leases.ts";
import { describeError, type Logger } from "../telemetry/log.ts";

/** Interval between two evaluations of all rules. */
const evaluateMs = 15_000;

/** After events, for example of health, rules are evaluated sooner, but not more often than this. */
const pauseMinMs = 2_000;

/** The pause lasts at least this many times as long as the evaluation: with 10,000 busy deployments there are always events. */
const pauseShare = 10;

/** Another server takes over after this long. */
const leaseMs = 20_000;

export interface AlertWorkerDeps {
  db: Db;
  logger: Logger;
  /** Unique for each start of a server. */
  owner: string;
}

/** Evaluates the alert rules of all workspaces, on one server at a time. Webhooks deliver the events that it writes. */
export class AlertWorker {
  readonly #deps: AlertWorkerDeps;
  readonly #stopping = new AbortController();
  #ended = Promise.resolve();
  #wake = () => {};

  constructor(deps: AlertWorkerDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#ended = this.#run();
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error("the server is stopping"));
    this.#wake();
    await this.#ended;
  }

  get #lease() {
    return { name: "alerts", owner: this.#deps.owner };
  }

  async #run(): Promise<void> {
    const { db, logger } = this.#deps;
    const { signal } = this.#stopping;
    const stopListening = db.changes.onEvents(() => this.#wake());
    while (!signal.aborted) {
      const startedMs = performance.now();
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      try {
        if (await acquireLease(db, { ...this.#lease, leaseMs })) {
          // Kept between rounds, the lease of a killed server would delay alerts until it ends.
          await evaluateAlerts(db);
          await releaseLease(db, this.#lease);
        }
      } catch (error) {
        if (!signal.aborted) logger.warn({ error: describeError(error) }, "alert rules could not be evaluated");
      }
      await this.#pause(woken, performance.now() - startedMs);
    }
    stopListening();
  }

  async #pause(woken: Promise<void>, evaluatedMs: number): Promise<void> {
    const pauseMs = Math.min(evaluateMs, Math.max(pauseMinMs, pauseShare * evaluatedMs));
    const ending = new AbortController();
    const signal = AbortSignal.any([ending.signal, this.#stopping.signal]);
    const wait = (ms: number) => sleep(ms, undefined, { signal }).catch(() => undefined);
    await wait(pauseMs);
    await Promise.race([woken, wait(evaluateMs - pauseMs)]);
    ending.abort();
  }
}

/** Evaluates all rules once. @returns how many alerts began or ended. */
export async function evaluateAlerts(db: Db): Promise<number> {
  const changed = await readChangedRules(db);
  const facts = await readAlertFacts(db, tenantsWithLatencyRule(changed));
  return recordAlerts(db, firingAlerts(facts, changed));
}
