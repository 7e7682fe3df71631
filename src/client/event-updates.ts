import type { Watched } from "./watch.ts";

/** Notifications that it is worth reading the awaited state again. */
export interface Updates {
  /** Whether notifications arrive. While false, the caller has to poll. */
  readonly isLive: boolean;
  /** Resolves on a notification since the last call, at the latest after `maxMs`. Rejects with the signal's reason. */
  next(maxMs: number, signal?: AbortSignal): Promise<void>;
  close(): void;
}

/**
 * Starts to watch in the background. If the server cannot be watched (an older one, or a proxy that buffers streams), no
 * notifications arrive, which is not an error.
 */
export function startUpdates(watch: (signal: AbortSignal) => AsyncIterable<Watched>): Updates {
  const ending = new AbortController();
  let [isLive, hasUpdate] = [false, false];
  let notify = () => {};
  const listen = async () => {
    for await (const { kind } of watch(ending.signal)) {
      isLive = kind !== "lost";
      hasUpdate = true;
      notify();
    }
  };
  void listen()
    .catch(() => {
      // The caller polls.
    })
    .finally(() => {
      isLive = false;
      notify();
    });
  return {
    get isLive() {
      return isLive;
    },
    next(maxMs, signal) {
      return new Promise((resolve, reject) => {
        const done = () => {
          clearTimeout(timer);
          signal?.removeEventListener("abort", abort);
          hasUpdate = false;
          resolve();
        };
        const abort = () => {
          clearTimeout(timer);
          reject(signal?.reason);
        };
        const timer = setTimeout(done, maxMs);
        if (signal?.aborted) return abort();
        if (hasUpdate) return done();
        notify = done;
        signal?.addEventListener("abort", abort, { once: true });
      });
    },
    close: () => ending.abort(),
  };
}
