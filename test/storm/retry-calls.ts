import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiFailure } from "../../src/client/client.ts";

/** Calls in flight at a time. */
const concurrencyMax = 24;

/** No server answers while the last working replica is killed too. The call is then repeated with the same key. */
const triesMax = 60;

/** Repeats a call with one idempotency key until it is answered, so that it takes effect once. */
export async function retryUntilAnswered<T>(act: (idempotencyKey: string) => Promise<T>): Promise<T> {
  const key = randomUUID();
  for (let tries = 1; ; tries += 1) {
    try {
      return await act(key);
    } catch (error) {
      const isPassing = !(error instanceof ApiFailure) || error.status >= 500;
      if (!isPassing || tries === triesMax) throw error;
      await sleep(500);
    }
  }
}

/** Runs all work, at most `concurrencyMax` at a time. */
export async function runConcurrently(work: (() => Promise<unknown>)[]): Promise<void> {
  const left = work.values();
  await Promise.all(
    Array.from({ length: concurrencyMax }, async () => {
      for (const one of left) await one();
    }),
  );
}

/** Prints the counts, which must all be 0. @returns how many are 0 and how many are not. */
export function judgeCounts(counts: Record<string, number>) {
  let failed = 0;
  for (const [what, count] of Object.entries(counts)) {
    if (count !== 0) failed += 1;
    console.log(`${count === 0 ? "ok  " : "FAIL"} ${count} ${what}`);
  }
  return { passed: Object.keys(counts).length - failed, failed };
}
