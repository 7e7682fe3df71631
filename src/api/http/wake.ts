import { changePollIntervalMs } from "../../domain/limits.ts";
import type { Db } from "../../store/engine/database.ts";

/**
 * The next moment at which it is worth to read again: a change was announced, the poll interval or `maxMs` is over, or
 * the client is gone. Ask for it before reading, so that a change in between is not missed.
 */
export function nextWake(db: Db, signal: AbortSignal, maxMs: number): { came: Promise<void>; cancel(): void } {
  let cancel = () => {};
  const came = new Promise<void>((resolve) => {
    const done = () => {
      stop();
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const stop = db.changes.onWake(done);
    const timer = setTimeout(done, Math.min(maxMs, changePollIntervalMs));
    signal.addEventListener("abort", done);
    cancel = done;
  });
  return { came, cancel };
}
