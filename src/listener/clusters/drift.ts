import type { Logger } from "../../telemetry/log.ts";

/** What somebody else changes again after it was put right this often in this time is left to them until it was less often. */
const fightMax = 5;
const fightMs = 600_000;

/** What others do to the objects of one deployment. */
export class Drift {
  readonly #logger: Logger;
  readonly #deploymentId: string;
  #rightedAtMs: number[] = [];
  #isFought = false;
  #held: string[] | null = null;

  constructor(logger: Logger, deploymentId: string) {
    this.#logger = logger;
    this.#deploymentId = deploymentId;
  }

  /** Somebody else changes what we write again and again: it is left to them for a while. */
  get isFought(): boolean {
    return this.#isFought;
  }

  /** What somebody else has changed and asked us to leave so; null: nothing. */
  get held(): string[] | null {
    return this.#held;
  }

  /** An object of ours was changed. @returns whether it is to be put right. */
  note(nowMs: number): boolean {
    if (!this.judge(nowMs)) return false;
    this.#rightedAtMs.push(nowMs);
    return true;
  }

  /** @returns false as long as putting it right was too often in vain. */
  judge(nowMs: number): boolean {
    this.#rightedAtMs = this.#rightedAtMs.filter((atMs) => nowMs - atMs < fightMs);
    const isFought = this.#rightedAtMs.length >= fightMax;
    if (isFought && !this.#isFought) {
      this.#logger.warn({ deployment_id: this.#deploymentId }, "somebody else keeps changing our objects");
    }
    this.#isFought = isFought;
    return !isFought;
  }

  /** Somebody works on the objects by hand: said once, and as long as it is so in every report. */
  hold(fields: string[] | null): void {
    if (fields !== null && fields.join() !== this.#held?.join()) {
      this.#logger.warn({ deployment_id: this.#deploymentId, fields }, "drift is left as it is");
    }
    this.#held = fields;
  }
}
