import { EventEmitter } from "node:events";

/** Ends of sign-ins in this server, so that those who wait here need not look for them. */
const ends = new EventEmitter().setMaxListeners(0);

export function announceEnd(authId: string): void {
  ends.emit(authId);
}

/** Resolves when the sign-in ends here, when the time is over, or when nobody waits any more. */
export function nextEnd(authId: string, timeoutMs: number, signal: AbortSignal): Promise<void> {
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
