import { backoffMs } from "../../base/backoff.ts";
import type { Clock } from "../../base/clock.ts";
import { withDeadline } from "../../base/deadline.ts";
import type { Compute, ReplicaState } from "../../compute/compute.ts";
import { describeError, type Logger } from "../../telemetry/log.ts";

/** A change is observed after at most this long, even if the driver never calls back. */
const observeIntervalMs = 15_000;

/** Listing 10,000 replicas takes well under a second, so an engine that takes longer than this is not answering. */
const observeTimeoutMs = 30_000;

/** Minimum pause between two observations, so that a thousand simultaneous changes cost only a few of them. */
const pauseMsMin = 5;

const failureBounds = { firstMs: 250, maxMs: observeIntervalMs };

/**
 * Observes everything the driver runs, for all deployments together, on request and at regular intervals. After a slow
 * observation it pauses for as long as the observation took, so it spends at most half of the time observing.
 */
export class Observer {
  readonly #compute: Compute;
  readonly #clock: Clock;
  readonly #logger: Logger;
  readonly #onObserved: (states: ReplicaState[], number: number) => void;
  readonly #closing = new AbortController();
  #number = 0;
  #failures = 0;
  #isObserving = false;
  #isRequested = false;
  #cancelNext = () => {};

  constructor(options: {
    compute: Compute;
    clock: Clock;
    logger: Logger;
    /** Called with each observation. Numbers increase. */
    onObserved: (states: ReplicaState[], number: number) => void;
  }) {
    this.#compute = options.compute;
    this.#clock = options.clock;
    this.#logger = options.logger;
    this.#onObserved = options.onObserved;
  }

  /** Number of the observation that began last. */
  get number(): number {
    return this.#number;
  }

  /** Requests an observation that begins after this call, as soon as possible. */
  observe(): void {
    this.#isRequested = true;
    if (this.#isObserving || this.#closing.signal.aborted) return;
    this.#isObserving = true;
    this.#cancelNext();
    void this.#run();
  }

  close(): void {
    this.#closing.abort(new Error("the listener stops"));
    this.#cancelNext();
  }

  async #run(): Promise<void> {
    // Requests of the same moment share one observation.
    await null;
    this.#isRequested = false;
    this.#number += 1;
    const number = this.#number;
    const startedAtMs = this.#clock.now();
    const states = await this.#readStates();
    if (this.#closing.signal.aborted) return;
    if (states !== null) this.#onObserved(states, number);
    this.#failures = states === null ? this.#failures + 1 : 0;
    const pauseMs = Math.max(pauseMsMin, this.#clock.now() - startedAtMs);
    const delayMs = this.#failures === 0 ? pauseMs : backoffMs(this.#failures, failureBounds);
    this.#cancelNext = this.#clock.setTimeout(() => this.#afterPause(), delayMs);
  }

  #afterPause(): void {
    this.#isObserving = false;
    if (this.#isRequested || this.#failures > 0) this.observe();
    else this.#cancelNext = this.#clock.setTimeout(() => this.observe(), observeIntervalMs);
  }

  async #readStates(): Promise<ReplicaState[] | null> {
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
