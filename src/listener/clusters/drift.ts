import type { Logger } from "../../telemetry/log.ts";

/** What somebody else changes again after it was put right this often in this time is left to them until it was less often. */
const repairsMax = 5;
const repairWindowMs = 600_000;

/** What others do to the objects of one deployment. */
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

  /** Somebody else changes what we write again and again: it is left to them for a while. */
  get isContested(): boolean {
    return this.#isContested;
  }

  /** What somebody else has changed and asked us to leave so; null: nothing. */
  get held(): string[] | null {
    return this.#held;
  }

  /** An object of ours was changed. @returns whether it is to be put right. */
  record(nowMs: number): boolean {
    if (!this.mayRepair(nowMs)) return false;
    this.#repairedAtMs.push(nowMs);
    return true;
  }

  /** @returns false as long as putting it right was too often in vain. */
  mayRepair(nowMs: number): boolean {
    this.#repairedAtMs = this.#repairedAtMs.filter((atMs) => nowMs - atMs < repairWindowMs);
    const isContested = this.#repairedAtMs.length >= repairsMax;
    if (isContested && !this.#isContested) {
      this.#logger.warn({ deployment_id: this.#deploymentId }, "somebody else keeps changing our objects");
    }
    this.#isContested = isContested;
    return !isContested;
  }

  /** Somebody works on the objects by hand: said once, and as long as it is so in every report. */
  setHeld(fields: string[] | null): void {
    if (fields !== null && fields.join() !== this.#held?.join()) {
      this.#logger.warn({ deployment_id: this.#deploymentId, fields }, "drift is left as it is");
    }
    this.#held = fields;
  }
}
