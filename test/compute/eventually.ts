import { setTimeout as sleep } from "node:timers/promises";

/** Waits for a level: polls until the state holds, and shows the last state when it never does. */
export async function eventually<T>(
  read: () => Promise<T>,
  holds: (state: T) => boolean,
  timeoutMs = 60_000,
): Promise<T> {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const state = await read();
    if (holds(state)) return state;
    if (Date.now() > end) throw new Error(`never held; last seen ${JSON.stringify(state)}`);
    await sleep(20);
  }
}
