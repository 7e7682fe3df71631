import { defaultRules, firingAlerts, withLatencyRule } from "../domain/alert-rules.ts";
import { firingSubjectAlerts } from "../domain/subject-alerts.ts";
import { readAlertFacts, recordAlerts } from "../store/alerts/alerts.ts";
import { readRuleChanges } from "../store/alerts/rules.ts";
import { readSubjectFacts } from "../store/alerts/subject-facts.ts";
import type { Db } from "../store/engine/database.ts";
import { acquireLease, releaseLease } from "../store/queue/leases.ts";
import type { Logger } from "../telemetry/log.ts";
import { type MeasuredServer, ServerMeasurements } from "./measure-server.ts";
import { type Pause, Rounds } from "./rounds.ts";

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
  server: MeasuredServer;
}

/** Evaluates the alert rules of all workspaces, on one server at a time. Webhooks deliver the events that it writes. */
export class AlertWorker {
  readonly #deps: AlertWorkerDeps;
  readonly #rounds: Rounds;
  readonly #measurements: ServerMeasurements;
  #stopListening = () => {};

  constructor(deps: AlertWorkerDeps) {
    this.#deps = deps;
    this.#measurements = new ServerMeasurements(deps);
    this.#rounds = new Rounds({
      logger: deps.logger,
      round: () => this.#round(),
      failure: "alert rules could not be evaluated",
      failurePause: { leastMs: pauseMinMs, mostMs: evaluateMs },
    });
  }

  start(): void {
    this.#stopListening = this.#deps.db.changes.onEvents(() => this.#rounds.wake());
    this.#rounds.start();
  }

  async stop(): Promise<void> {
    await this.#rounds.stop();
    await this.#measurements.settled();
    this.#stopListening();
  }

  async #round(): Promise<Pause> {
    const { db, owner } = this.#deps;
    const lease = { name: "alerts", owner };
    await this.#measurements.measure(this.#rounds.signal);
    const startedMs = performance.now();
    if (await acquireLease(db, { ...lease, leaseMs })) {
      // Releases the lease after each round: the lease of a killed server would delay alerts until it expires.
      await evaluateAlerts(db);
      await releaseLease(db, lease);
    }
    const evaluatedMs = performance.now() - startedMs;
    return { leastMs: Math.min(evaluateMs, Math.max(pauseMinMs, pauseShare * evaluatedMs)), mostMs: evaluateMs };
  }
}

/** Evaluates all rules once. @returns how many alerts began or ended. */
export async function evaluateAlerts(db: Db): Promise<number> {
  const changes = await readRuleChanges(db);
  const facts = await readAlertFacts(db, withLatencyRule(changes));
  const keyDays = changes.workspaces.map(({ kind, threshold }) => (kind === "key_expiry" ? (threshold ?? 0) : 0));
  const subjects = await readSubjectFacts(db, Math.max(defaultRules.key_expiry.threshold, ...keyDays));
  return recordAlerts(db, [...firingAlerts(facts, changes), ...firingSubjectAlerts(subjects, changes)]);
}
