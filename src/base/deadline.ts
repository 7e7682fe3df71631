import type { Clock } from "./clock.ts";

/** A call did not end in time. It may or may not have taken effect. */
export class DeadlineExceeded extends Error {
  override name = "DeadlinePassed";
}

/**
 * Runs a function that may never end or may ignore its signal, and stops waiting at the deadline or when `signal` is aborted.
 * @throws DeadlineExceeded, the reason of `signal`, or the error of `run`.
 */
export async function withDeadline<T>(
  { clock, timeoutMs, signal }: { clock: Clock; timeoutMs: number; signal: AbortSignal },
  run: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const controller = new AbortController();
  const { promise: expired, reject } = Promise.withResolvers<never>();
  // A rejection after `run` has ended has no reader.
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

/** Waits until `work` has settled, but no longer than `timeoutMs`. @throws only the reason of `signal`. */
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
