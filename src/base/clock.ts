import { type BackoffBounds, backoffMs } from "./backoff.ts";

/** Source of time and randomness for the listener. Simulations pass a virtual one. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds since an arbitrary start. It does not jump when the machine's clock is set, so leases and deadlines use it. */
  monotonicMs(): number;
  /** Runs a function once after `delayMs`. Returns a function that cancels the timer. */
  setTimeout(run: () => void, delayMs: number): () => void;
  /** Returns a number in [0, 1). */
  random(): number;
}

/** Cancels nothing. Replaces the cancel function of a timer that has fired, which would keep the timer in memory. */
export const nothingToCancel = (): void => {};

export const systemClock: Clock = {
  now: Date.now,
  monotonicMs: () => performance.now(),
  setTimeout(run, delayMs) {
    // Node's timers hold 31 bits. A longer delay would fire at once.
    const timer = setTimeout(run, Math.min(delayMs, 2 ** 31 - 1));
    return () => clearTimeout(timer);
  },
  random: Math.random,
};

/**
 * Returns a clock whose `now` starts at the wall clock's time but does not jump when the machine's clock is set. Deadlines
 * and everything else that the listener remembers in memory use it.
 */
export function steadyClock(clock: Clock): Clock {
  const wallOffsetMs = clock.now() - clock.monotonicMs();
  return {
    now: () => Math.round(clock.monotonicMs() + wallOffsetMs),
    monotonicMs: () => clock.monotonicMs(),
    setTimeout: (run, delayMs) => clock.setTimeout(run, delayMs),
    random: () => clock.random(),
  };
}

/** Waits for `delayMs`. @throws the reason of `signal` as soon as it is aborted. */
export function sleep(clock: Clock, delayMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    const cancel = clock.setTimeout(() => {
      signal.removeEventListener("abort", abort);
      resolve();
    }, delayMs);
    const abort = () => {
      cancel();
      reject(signal.reason);
    };
    signal.addEventListener("abort", abort, { once: true });
  });
}

/**
 * Returns a back-off delay with full jitter, between 0 and `firstMs * 2^attempt` (at most `maxMs`), so that a thousand
 * listeners that lost the same control plane do not reconnect at the same moment. `attempt` counts from 1.
 */
export function jitteredBackoffMs(clock: Clock, attempt: number, bounds: BackoffBounds): number {
  return clock.random() * backoffMs(attempt + 1, bounds);
}
