import { lstatSync } from "node:fs";
import { opendir } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

const watchIntervalMs = 200;

/** Part of its time that a watch may spend on measuring. */
const measuringFraction = 1 / 5;

/** More than any repository has branches and tags. Git writes a file for each that it fetches, and packs for the rest. */
export const watchedFilesMax = 200_000;

/**
 * Measures a directory until it exceeds the limit, or has too many files, and then calls `onExceeded`. A host may make git write many
 * files, so one measurement follows another, and each reads a few files at a time.
 * @returns a function that ends it.
 */
export function watchSize(directory: string, bytesMax: number, onExceeded: () => void): () => void {
  const ended = new AbortController();
  void watch(directory, { bytesMax, onExceeded, signal: ended.signal }).catch(() => {});
  return () => ended.abort();
}

async function watch(
  directory: string,
  { bytesMax, onExceeded, signal }: { bytesMax: number; onExceeded: () => void; signal: AbortSignal },
): Promise<void> {
  for (let pauseMs = watchIntervalMs; ; ) {
    await sleep(pauseMs, undefined, { signal, ref: false });
    const beganAt = performance.now();
    if (await isAbove(directory, bytesMax, signal)) return onExceeded();
    pauseMs = Math.max(watchIntervalMs, (performance.now() - beganAt) * (1 / measuringFraction - 1));
  }
}

async function isAbove(directory: string, bytesMax: number, signal: AbortSignal): Promise<boolean> {
  let [bytes, files] = [0, 0];
  const open = [directory];
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    try {
      for await (const entry of await opendir(next, { bufferSize: 64 })) {
        signal.throwIfAborted();
        files += 1;
        if (entry.isDirectory()) open.push(path.join(next, entry.name));
        else bytes += lstatSync(path.join(next, entry.name), { throwIfNoEntry: false })?.size ?? 0;
        if (bytes > bytesMax || files > watchedFilesMax) return true;
      }
    } catch {
      signal.throwIfAborted(); // git removes and renames directories meanwhile
    }
  }
  return false;
}
