import { setTimeout as sleep } from "node:timers/promises";
import { SealError } from "../../store/secrets/seal.ts";
import { OAuthFailure } from "./failure.ts";

/** How long a token that a provider gave out is tried to be written: a database that restarts is back by then. */
const storeTimeoutMs = 20_000;

/**
 * Conversations with providers. What a provider has given cannot be asked for a second time (codes, rotated refresh
 * tokens), so they run to their end whoever waits for them, and a server that stops waits for them too.
 */
export class Underway {
  readonly #running = new Map<string, Promise<unknown>>();

  /** Runs `act` unless it runs already under this key; then both get the one result. */
  share<T>(key: string, act: () => Promise<T>): Promise<T> {
    const running = this.#running.get(key) as Promise<T> | undefined;
    if (running !== undefined) return running;
    const begun = act().finally(() => this.#running.delete(key));
    this.#running.set(key, begun);
    return begun;
  }

  /** When everything that runs now has ended. */
  async settle(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }
}

/** Stores what must not be lost: tries again while the database is away. @throws the last error. */
export async function storeFirmly<T>(store: () => Promise<T>, timeoutMs: number = storeTimeoutMs): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await store();
    } catch (error) {
      if (error instanceof OAuthFailure || error instanceof SealError || performance.now() >= end) throw error;
      await sleep(500);
    }
  }
}
