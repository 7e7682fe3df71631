import type { Watched } from "./watch.ts";

/** Tells those who wait for a state when it is worth to look again. */
export interface News {
  /** Whether it will tell: while it cannot, one has to look now and then. */
  readonly isLive: boolean;
  /** Resolves with news that came since the last call, at the latest after `maxMs`; rejects with the signal's reason. */
  next(maxMs: number, signal?: AbortSignal): Promise<void>;
  close(): void;
}

/**
 * Watches in the background. A server that cannot be watched (an older one, or a proxy that holds streams back) is no
 * failure: there is no news then.
 */
export function startNews(watch: (signal: AbortSignal) => AsyncIterable<Watched>): News {
  const ending = new AbortController();
  let [isLive, hasNews] = [false, false];
  let tell = () => {};
  const listen = async () => {
    for await (const { kind } of watch(ending.signal)) {
      isLive = kind !== "lost";
      hasNews = true;
      tell();
    }
  };
  void listen()
    .catch(() => {
      // One looks now and then.
    })
    .finally(() => {
      isLive = false;
      tell();
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
          hasNews = false;
          resolve();
        };
        const abort = () => {
          clearTimeout(timer);
          reject(signal?.reason);
        };
        const timer = setTimeout(done, maxMs);
        if (signal?.aborted) return abort();
        if (hasNews) return done();
        tell = done;
        signal?.addEventListener("abort", abort, { once: true });
      });
    },
    close: () => ending.abort(),
  };
}
