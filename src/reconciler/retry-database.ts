import { setTimeout as sleep } from "node:timers/promises";

/** A restarted PostgreSQL answers within a second or two. */
const pauseMs = 500;

/**
 * Retries `act` every 500 ms until it succeeds: for writes that must not be lost when the database is away for a moment.
 * `act` must be harmless to repeat, because a call that failed may have been committed.
 * @throws the last error, after `forMs` or when `signal` is aborted
 */
export async function retryDatabase<T>(
  act: () => Promise<T>,
  end: { forMs: number; signal?: AbortSignal },
): Promise<T> {
  const endMs = performance.now() + end.forMs;
  for (;;) {
    try {
      return await act();
    } catch (error) {
      if (end.signal?.aborted || performance.now() + pauseMs > endMs) throw error;
      // `ref: false`: a pending retry alone must not keep the process running.
      await sleep(pauseMs, undefined, { ref: false, signal: end.signal }).catch(() => {});
    }
  }
}
