import { directorySize } from "../cache/artifact.ts";

/**
 * Measuring takes about 1 ms per hundred files, so the pause grows with the tree: measuring uses at most a tenth of the
 * time.
 */
const pauseMinMs = 1_000;
const pauseFactor = 9;

/** Measures a directory repeatedly until it exceeds the limit, and then calls `onExceeded` once. */
export function watchDiskUse(
  directory: string,
  bytesMax: number,
  onExceeded: (bytes: number) => void,
): { stop(): void } {
  const stopped = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const look = async () => {
    const startedAt = performance.now();
    const bytes = await directorySize(directory, stopped.signal);
    if (bytes > bytesMax) onExceeded(bytes);
    else plan(Math.max(pauseMinMs, pauseFactor * (performance.now() - startedAt)));
  };
  const plan = (pauseMs: number) => {
    if (stopped.signal.aborted) return;
    timer = setTimeout(() => look().catch(() => plan(pauseMinMs)), pauseMs);
    timer.unref();
  };
  plan(pauseMinMs);
  return {
    stop() {
      stopped.abort();
      clearTimeout(timer);
    },
  };
}
