import { directorySize } from "../cache/artifact.ts";

/** Looking costs about 1 ms a hundred files, so the pause grows with the tree: at most a tenth of the time is spent. */
const pauseMinMs = 1_000;
const pauseFactor = 9;

/** Looks at a directory again and again until it is larger than allowed, and says so once. */
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
