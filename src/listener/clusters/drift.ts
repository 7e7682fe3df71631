import type { Logger } from "../../telemetry/log.ts";

/** If an object was repaired this often within this time, another client keeps changing it, and Pierhead pauses its repairs. */
const repairsMax = 5;
const repairWindowMs = 600_000;

/** Changes by other clients to the objects of one deployment. */
export class Drift {
  readonly #logger: Logger;
  readonly #deploymentId: string;
  #repairedAtMs: number[] = [];
  #isContested = false;
  #held: string[] | null = null;

  constructor(logger: Logger, deploymentId: string) {
    this.#logger = logger;
    this.#deploymentId = deploymentId;
  }

  /** Another client keeps changing our objects, so repairs are paused. */
  get isContested(): boolean {
    return this.#isContested;
  }

  /** The fields that another client changed and asked us to keep. Null: none. */
  get held(): string[] | null {
    return this.#held;
  }

  /** Records a change of our objects. Returns whether to repair it. */
  record(nowMs: number): boolean {
    if (!this.mayRepair(nowMs)) return false;
    this.#repairedAtMs.push(nowMs);
    return true;
  }

  /** Returns false while there were too many repairs. */
  mayRepair(nowMs: number): boolean {
    this.#repairedAtMs = this.#repairedAtMs.filter((atMs) => nowMs - atMs < repairWindowMs);
    const isContested = this.#repairedAtMs.length >= repairsMax;
    if (isContested && !this.#isContested) {
      this.#logger.warn({ deployment_id: this.#deploymentId }, "another client keeps changing our objects");
    }
    this.#isContested = isContested;
    return !isContested;
  }

  /** Sets the fields that are edited by hand. Each change is logged once. Every report mentions them. */
  setHeld(fields: string[] | null): void {
    if (fields !== null && fields.join() !== this.#held?.join()) {
      this.#logger.warn({ deployment_id: this.#deploymentId, fields }, "drift tolerated");
    }
    this.#held = fields;
  }
}
