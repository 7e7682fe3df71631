import { type FSWatcher, watch } from "node:fs";
import path from "node:path";
import { isNeverPacked } from "./list-files.ts";

/** Editors and tools write several files at once, and some write a file twice. */
const quietMs = 200;

export interface SourceWatch extends Disposable {
  /** Watches the directories of these files, relative to the root with `/`, and no longer any others. */
  cover(files: readonly string[]): void;
  /** Resolves when something changed since the last call and nothing has for 0.2 s. Rejects when the signal is aborted. */
  changed(signal: AbortSignal): Promise<void>;
}

/**
 * Watches the directories of a source. Not recursive: that would also watch node_modules, which has more directories than many
 * systems allow to watch.
 */
export function watchSource(root: string): SourceWatch {
  const watchers = new Map<string, FSWatcher>();
  let changedAt: number | undefined;
  let wake: (() => void) | undefined;
  const note = (directory: string, name: string | null) => {
    if (name !== null && isNeverPacked(path.posix.join(directory, name))) return;
    changedAt = performance.now();
    wake?.();
  };
  const open = (directory: string) => {
    try {
      const watcher = watch(path.join(root, directory), (_, name) => note(directory, name));
      watcher.on("error", () => watchers.delete(directory)); // it was deleted
      watchers.set(directory, watcher);
    } catch {
      // Deleted since it was listed.
    }
  };
  return {
    cover(files) {
      const wanted = new Set(["."]);
      for (const file of files) {
        for (let at = path.posix.dirname(file); at !== "."; at = path.posix.dirname(at)) wanted.add(at);
      }
      for (const [directory, watcher] of watchers) {
        if (wanted.has(directory)) continue;
        watcher.close();
        watchers.delete(directory);
      }
      for (const directory of wanted) if (!watchers.has(directory)) open(directory);
    },
    async changed(signal) {
      while (changedAt === undefined || performance.now() - changedAt < quietMs) {
        signal.throwIfAborted();
        const leftMs = changedAt === undefined ? undefined : quietMs - (performance.now() - changedAt);
        await wakened(leftMs, signal);
      }
      changedAt = undefined;
    },
    [Symbol.dispose]() {
      for (const watcher of watchers.values()) watcher.close();
    },
  };

  /** Waits for the next change, the end of the time, or the signal. */
  function wakened(ms: number | undefined, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(() => done(), ms);
      const done = () => {
        clearTimeout(timer);
        signal.removeEventListener("abort", done);
        wake = undefined;
        resolve();
      };
      wake = done;
      signal.addEventListener("abort", done, { once: true });
    });
  }
}
