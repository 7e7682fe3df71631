import { setTimeout as sleep } from "node:timers/promises";

/**
 * Polls until the state holds, and throws an error with the last state on timeout. The timeout is generous because test
 * machines are busy. It measures nothing.
 */
export async function eventually<T>(
  read: () => T | Promise<T>,
  holds: (state: T) => boolean,
  options: { timeoutMs?: number; what?: string } = {},
): Promise<T> {
  const { timeoutMs = 120_000, what = "the state" } = options;
  const end = performance.now() + timeoutMs;
  for (;;) {
    const state = await read();
    if (holds(state)) return state;
    if (performance.now() > end) throw new Error(`${what} never held; last seen ${JSON.stringify(state)}`);
    await sleep(20);
  }
}
