import { setTimeout as sleep } from "node:timers/promises";
import { SealError } from "../../store/secrets/seal.ts";
import { OAuthFailure } from "./failure.ts";

/** How long storing an issued token is retried. A restarting database is back by then. */
const storeTimeoutMs = 20_000;

/**
 * Exchanges with providers that are in progress. Codes and rotated refresh tokens cannot be requested twice, so an exchange
 * runs to its end even if its caller leaves, and a stopping server waits for it.
 */
export class ProviderExchanges {
  readonly #running = new Map<string, Promise<unknown>>();

  /** Runs `act`, or joins the run in progress with the same key. Both callers get the same result. */
  share<T>(key: string, act: () => Promise<T>): Promise<T> {
    const running = this.#running.get(key) as Promise<T> | undefined;
    if (running !== undefined) return running;
    const begun = act().finally(() => this.#running.delete(key));
    this.#running.set(key, begun);
    return begun;
  }

  /** Resolves when everything that is in progress has ended. */
  async settle(): Promise<void> {
    await Promise.allSettled(this.#running.values());
  }
}

/** Reports whether the database refused the data (SQLSTATE classes 22 and 23), which another attempt does not change. */
const isRefusedData = (error: unknown): boolean =>
  /^2[23]\w{3}$/.test(String((error as { code?: unknown } | null)?.code));

/** Stores something that must not be lost: retries while the database is unavailable. @throws the last error. */
export async function storeWithRetries<T>(store: () => Promise<T>, timeoutMs: number = storeTimeoutMs): Promise<T> {
  const end = performance.now() + timeoutMs;
  for (;;) {
    try {
      return await store();
    } catch (error) {
      const isFinal = error instanceof OAuthFailure || error instanceof SealError || isRefusedData(error);
      if (isFinal || performance.now() >= end) throw error;
      await sleep(500);
    }
  }
}
