import { setTimeout as sleep } from "node:timers/promises";

/** PostgreSQL that was restarted answers within a second or two. */
const pauseMs = 500;

/**
 * Does again what failed, twice a second: for what must be written down when the database is away for a moment. It must
 * be harmless when it was done although it seemed to fail.
 * @throws what failed last, after `forMs` or when `signal` is aborted
 */
export async function tryAgain<T>(act: () => Promise<T>, end: { forMs: number; signal?: AbortSignal }): Promise<T> {
  const endMs = performance.now() + end.forMs;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (end.signal?.aborted || performance.now() + pauseMs > endMs) throw error;
      // Holds no process open that has nothing else to do.
      await sleep(pauseMs, undefined, { ref: false, signal: end.signal }).catch(() => {});
    }
  }
}
