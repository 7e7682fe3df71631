import type { Clock } from "./clock.ts";

/** Something did not end within its time; whether it happened is unknown. */
export class DeadlineExceeded extends Error {
  override name = "DeadlinePassed";
}

/**
 * Runs something that may never end, or not listen to its signal: this ends at its deadline or when `signal` is aborted.
 * @throws DeadlinePassed, the reason of `signal`, or what `run` throws.
 */
export async function withDeadline<T>(
  { clock, timeoutMs, signal }: { clock: Clock; timeoutMs: number; signal: AbortSignal },
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const controller = new AbortController();
  const { promise: expired, reject } = Promise.withResolvers<never>();
  // One that comes after `run` has ended is nobody's.
  expired.catch(() => {});
  const end = (reason: unknown) => {
    controller.abort(reason);
    reject(reason);
  };
  const abort = () => end(signal.reason);
  const cancel = clock.setTimeout(
    () => end(new DeadlineExceeded(`no answer within ${timeoutMs / 1_000} s`)),
    timeoutMs,
  );
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([run(controller.signal), expired]);
  } finally {
    cancel();
    signal.removeEventListener("abort", abort);
  }
}

/** Waits until `work` has ended, well or not, but no longer than this. @throws only the reason of `signal`. */
export async function settledWithin(
  options: { clock: Clock; timeoutMs: number; signal: AbortSignal },
  work: Promise<unknown>,
): Promise<void> {
  try {
    await withDeadline(options, async () => void (await work));
  } catch {
    options.signal.throwIfAborted();
  }
}
