import { setTimeout as sleep } from "node:timers/promises";

/**
 * Waits for a level, not for an edge: reads until the state holds, and shows the last state when it never does. The bound
 * is for a machine that does much else; it measures nothing.
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
