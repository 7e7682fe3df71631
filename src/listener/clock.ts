/** Time and chance as the listener sees them; a simulation hands in virtual ones. */
export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Milliseconds since some moment. Goes on evenly when somebody sets the clock: leases and deadlines go by this. */
  monotonicMs(): number;
  /** Runs something once, later. @returns a function that cancels it. */
  setTimeout(run: () => void, delayMs: number): () => void;
  /** In [0, 1). */
  random(): number;
}

/** Cancels nothing. Kept in place of what cancels a timer that is over: that would keep the timer. */
export const nothingToCancel = (): void => {};

export const systemClock: Clock = {
  now: Date.now,
  monotonicMs: () => performance.now(),
  setTimeout(run, delayMs) {
    // Node's timers hold 31 bits; a longer one would fire at once.
    const timer = setTimeout(run, Math.min(delayMs, 2 ** 31 - 1));
    return () => clearTimeout(timer);
  },
  random: Math.random,
};

/**
 * The same moments, and evenly on from there when somebody sets the clock: what is remembered in memory, deadlines above all,
 * is counted by it.
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

/** @throws the reason of `signal`, at once. */
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
 * Full jitter: anything between 0 and the doubling bound, so that a thousand listeners that lost the same control plane
 * do not come back in step. `attempt` counts from 1.
 */
export function jitteredBackoffMs(clock: Clock, attempt: number, bounds: { firstMs: number; maxMs: number }): number {
  return clock.random() * backoffMs(attempt + 1, bounds);
}

/** Doubling without jitter: `firstMs` before the first repetition, never more than `maxMs`. `attempt` counts from 1. */
export function backoffMs(attempt: number, { firstMs, maxMs }: { firstMs: number; maxMs: number }): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 30));
}
