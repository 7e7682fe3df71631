/**
 * Starts work and waits for it until the signal aborts. An abort ends only the wait: the work itself continues.
 * @throws the reason of the signal; a signal that is aborted already starts nothing.
 */
export async function unlessAborted<T>(begin: () => Promise<T>, signal: AbortSignal): Promise<T> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  signal.addEventListener("abort", abort, { once: true });
  try {
    return await Promise.race([begin(), aborted]);
  } finally {
    signal.removeEventListener("abort", abort);
  }
}
