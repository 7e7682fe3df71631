import type { Compute, ReplicaState } from "../../compute/compute.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";
import { type Clock, doubledMs } from "../clock.ts";
import { withDeadline } from "../deadline.ts";

/** Even if no driver ever called back: a change is seen after this long. */
export const regularLookMs = 15_000;

/** Listing 10,000 replicas takes well under a second; an engine that needs longer than this is not answering. */
const observeTimeoutMs = 30_000;

/** Between two looks, so that a thousand changes of one moment cost a few looks and not a thousand. */
const pauseMsMin = 5;

const failureBounds = { firstMs: 250, maxMs: regularLookMs };

/**
 * One look at everything the driver runs, for all deployments together, whenever somebody asks and at regular times.
 * A look that takes long is followed by a pause as long: at most half the time is spent looking.
 */
export class Observer {
  readonly #compute: Compute;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onSeen: (states: ReplicaState[], number: number) => void;
  readonly #closing = new AbortController();
  #number = 0;
  #failures = 0;
  #isLooking = false;
  #isWanted = false;
  #cancelNext = () => {};

  constructor(options: {
    compute: Compute;
    clock: Clock;
    logger: Logger;
    /** Observations have growing numbers. */
    onSeen: (states: ReplicaState[], number: number) => void;
  }) {
    this.#compute = options.compute;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#onSeen = options.onSeen;
  }

  /** Of the observation that was begun last. */
  get number(): number {
    return this.#number;
  }

  /** Looks as soon as may be: an observation begins after this call. */
  look(): void {
    this.#isWanted = true;
    if (this.#isLooking || this.#closing.signal.aborted) return;
    this.#isLooking = true;
    this.#cancelNext();
    void this.#lookNow();
  }

  close(): void {
    this.#closing.abort(new Error("the listener stops"));
    this.#cancelNext();
  }

  async #lookNow(): Promise<void> {
    // Several askers of one moment are one look.
    await null;
    this.#isWanted = false;
    this.#number += 1;
    const number = this.#number;
    const beganAtMs = this.#clock.now();
    const states = await this.#observe();
    if (this.#closing.signal.aborted) return;
    if (states !== null) this.#onSeen(states, number);
    this.#failures = states === null ? this.#failures + 1 : 0;
    const pauseMs = Math.max(pauseMsMin, this.#clock.now() - beganAtMs);
    const delayMs = this.#failures === 0 ? pauseMs : doubledMs(this.#failures, failureBounds);
    this.#cancelNext = this.#clock.setTimeout(() => this.#afterPause(), delayMs);
  }

  #afterPause(): void {
    this.#isLooking = false;
    if (this.#isWanted || this.#failures > 0) this.look();
    else this.#cancelNext = this.#clock.setTimeout(() => this.look(), regularLookMs);
  }

  async #observe(): Promise<ReplicaState[] | null> {
    const options = { clock: this.#clock, timeoutMs: observeTimeoutMs, signal: this.#closing.signal };
    try {
      return await withDeadline(options, (signal) => this.#compute.observe(signal));
    } catch (error) {
      const fields = { compute_type: this.#compute.type, error: describeError(error) };
      if (!this.#closing.signal.aborted && this.#failures === 0)
        this.#logger.warn(fields, "compute cannot be observed");
      return null;
    }
  }
}
