/** Rate limit of one name, such as a key. */
export interface RateLimit {
  /** Requests per second on average; 0 for no limit. */
  perS: number;
  /** Requests at once, after a pause. */
  burst: number;
}

/**
 * Limits the rate of each name with a token bucket. A bucket is stored as one number: the time at which it is full
 * again. Taking a token moves that time forward by the refill time of one token, at most as far ahead as an empty
 * bucket needs to fill. So an idle name needs no entry, and taking a token costs one lookup and one write (about 0.1
 * us).
 */
export class RateLimiter {
  readonly #tokenMs: number;
  readonly #burstMs: number;
  readonly #namesMax: number;
  readonly #fullAtMs = new Map<string, number>();

  /** @param namesMax Names to remember; above that, the oldest are forgotten. */
  constructor({ perS, burst }: RateLimit, namesMax = 10_000) {
    this.#tokenMs = perS === 0 ? 0 : 1_000 / perS;
    this.#burstMs = this.#tokenMs * burst;
    this.#namesMax = namesMax;
  }

  /**
   * Takes a token, or reserves one that becomes available within `aheadMs`, for which the caller must wait.
   * @returns milliseconds until the token is available; above `aheadMs`, no token was taken.
   */
  take(name: string, aheadMs = 0): number {
    const nowMs = performance.now();
    const fullAtMs = Math.max(this.#fullAtMs.get(name) ?? 0, nowMs) + this.#tokenMs;
    const waitMs = Math.max(0, fullAtMs - nowMs - this.#burstMs);
    if (waitMs > aheadMs) return waitMs;
    this.#fullAtMs.set(name, fullAtMs);
    if (this.#fullAtMs.size > this.#namesMax) this.#forget(nowMs);
    return waitMs;
  }

  /** Returns the milliseconds until the next token is available; 0: there is one. */
  waitMs(name: string): number {
    const fullAtMs = this.#fullAtMs.get(name);
    if (fullAtMs === undefined) return 0;
    return Math.max(0, fullAtMs + this.#tokenMs - performance.now() - this.#burstMs);
  }

  /** Empties the bucket of a name. Its next token comes after `ms`. */
  empty(name: string, ms: number): void {
    this.#fullAtMs.set(name, performance.now() + this.#burstMs + ms - this.#tokenMs);
  }

  /** Forgets the names whose bucket is full; if that is not enough, the oldest names. */
  #forget(nowMs: number): void {
    for (const [name, fullAtMs] of this.#fullAtMs) if (fullAtMs <= nowMs) this.#fullAtMs.delete(name);
    for (const name of this.#fullAtMs.keys()) {
      if (this.#fullAtMs.size <= this.#namesMax) return;
      this.#fullAtMs.delete(name);
    }
  }
}
