/** Bounds of a delay that doubles with every failure. */
export interface BackoffBounds {
  firstMs: number;
  maxMs: number;
}

/** Returns a doubling back-off delay without jitter: `firstMs` for attempt 1, at most `maxMs`. */
export function backoffMs(attempt: number, { firstMs, maxMs }: BackoffBounds): number {
  return Math.min(maxMs, firstMs * 2 ** Math.min(attempt - 1, 30));
}

/** Returns between half of a delay and all of it, so that callers that failed together do not retry together. */
export function withJitter(delayMs: number): number {
  return delayMs * (0.5 + Math.random() / 2);
}
