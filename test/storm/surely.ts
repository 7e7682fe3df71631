import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiFailure } from "../../src/client/client.ts";

/** Calls in flight at a time. */
const lanesMax = 24;

/** No server answers while the last working replica is killed too. The call is then repeated with the same key. */
const triesMax = 60;

/** Repeats a call with one idempotency key until it is answered, so that it takes effect once. */
export async function surely<T>(act: (idempotencyKey: string) => Promise<T>): Promise<T> {
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

export async function inLanes(work: (() => Promise<unknown>)[]): Promise<void> {
  const left = work.values();
  await Promise.all(
    Array.from({ length: lanesMax }, async () => {
      for (const one of left) await one();
    }),
  );
}

/** Prints the counts. @returns how many counts were 0, as they must be, and how many were not. */
export function judge(counts: Record<string, number>) {
  let failed = 0;
  for (const [what, count] of Object.entries(counts)) {
    if (count !== 0) failed += 1;
    console.log(`${count === 0 ? "ok  " : "FAIL"} ${count} ${what}`);
  }
  return { passed: Object.keys(counts).length - failed, failed };
}
