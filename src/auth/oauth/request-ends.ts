import { EventEmitter } from "node:events";

/** Notifies waiting requests in this server of finished sign-ins, so that they do not have to poll. */
const ends = new EventEmitter().setMaxListeners(0);

export function notifyFinished(authId: string): void {
  ends.emit(authId);
}

/** Resolves when the sign-in finishes in this server, at the timeout, or when the signal aborts. */
export function waitUntilFinished(authId: string, timeoutMs: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      ends.off(authId, done);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, timeoutMs);
    ends.once(authId, done);
    signal.addEventListener("abort", done, { once: true });
    if (signal.aborted) done();
  });
}
