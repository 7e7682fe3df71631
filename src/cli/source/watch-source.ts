import { type FSWatcher, watch } from "node:fs";
import { readdir } from "node:fs/promises";
import path from "node:path";
import { isNeverPacked } from "./list-files.ts";

/** Editors and tools write several files at once, and some write a file twice. */
const quietMs = 200;

/** A program that writes all the time, such as a log that git ignores, must not hide the change of a source. */
const noiseMaxMs = 2_000;

export interface SourceWatch extends Disposable {
  /**
   * Watches the directories of the files that `list` returns, relative to the root with `/`, and no longer any others. Lists again
   * while some of them are new, because a file may appear in a directory before it is watched.
   * @param extra Absolute path of a file that is watched as well, wherever it is.
   * @returns the files of the last list.
   */
  cover(root: string, list: () => Promise<string[]>, extra?: string): Promise<string[]>;
  /** Resolves when something changed since the last call, and then nothing for 0.2 s, or after 2 s. Rejects when the signal is aborted. */
  changed(signal: AbortSignal): Promise<void>;
}

/**
 * Watches the directories of a source. Not recursive: that would also watch node_modules, which has more directories than many
 * systems allow to watch.
 * @param onUnwatched Called once if the system watches no more directories.
 */
export function watchSource(onUnwatched: (error: Error) => void): SourceWatch {
  const watchers = new Map<string, FSWatcher>();
  let source = { root: "", extra: undefined as string | undefined, isExtraOnly: (_: string) => false };
  let change: { firstAt: number; lastAt: number } | undefined;
  let wake: (() => void) | undefined;
  let isReported = false;
  const forget = (directory: string) => {
    watchers.get(directory)?.close();
    watchers.delete(directory);
  };
  const note = (directory: string, event: string, name: string | null) => {
    const full = name === null ? directory : path.join(directory, name);
    if (full !== source.extra && (source.isExtraOnly(directory) || isNeverPacked(relative(source.root, full)))) return;
    // A watcher stays with a directory that was moved or deleted, and does not see the one that takes its name.
    if (event === "rename" && name !== null) {
      for (const one of [...watchers.keys()]) if (one === full || one.startsWith(full + path.sep)) forget(one);
    }
    change = { firstAt: change?.firstAt ?? performance.now(), lastAt: performance.now() };
    wake?.();
  };
  const open = (directory: string) => {
    try {
      const watcher = watch(directory, (event, name) => note(directory, event, name));
      watcher.on("error", () => forget(directory)); // it was deleted
      watchers.set(directory, watcher);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === "ENOENT" || isReported) return; // Deleted since it was listed.
      isReported = true;
      onUnwatched(error as Error);
    }
  };
  return {
    async cover(root, list, extra) {
      const tried = new Set<string>();
      for (;;) {
        const files = await list();
        const ofFiles = await directoriesOf(root, files);
        const wanted = new Set([...ofFiles, ...(extra === undefined ? [] : [path.dirname(extra)])]);
        source = { root, extra, isExtraOnly: (directory) => !ofFiles.has(directory) };
        for (const directory of [...watchers.keys()]) if (!wanted.has(directory)) forget(directory);
        const fresh = [...wanted].filter((directory) => !watchers.has(directory) && !tried.has(directory));
        for (const directory of fresh) {
          tried.add(directory);
          open(directory);
        }
        if (fresh.length === 0) return files;
      }
    },
    async changed(signal) {
      for (;;) {
        signal.throwIfAborted();
        const now = performance.now();
        const dueAt = change === undefined ? undefined : Math.min(change.lastAt + quietMs, change.firstAt + noiseMaxMs);
        if (dueAt !== undefined && dueAt <= now) break;
        await wakened(dueAt === undefined ? undefined : dueAt - now, signal);
      }
      change = undefined;
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

/** Returns the root, the directories of the files, and those below that have no file yet. */
async function directoriesOf(root: string, files: readonly string[]): Promise<Set<string>> {
  const found = new Set([root]);
  for (const file of files) {
    for (let at = path.dirname(path.join(root, file)); !found.has(at); at = path.dirname(at)) found.add(at);
  }
  const empty = await Promise.all([...found].map((directory) => emptyBelow(root, directory, found)));
  return new Set([...found, ...empty.flat()]);
}

/** An ignored directory has files as a rule, and is not watched. */
async function emptyBelow(root: string, directory: string, known: ReadonlySet<string>): Promise<string[]> {
  const below = (await entriesOf(root, directory)).filter((entry) => entry.isDirectory());
  const others = below.map(({ name }) => path.join(directory, name)).filter((one) => !known.has(one));
  return (await Promise.all(others.map((one) => emptyTree(root, one)))).flatMap((tree) => tree ?? []);
}

/** Returns a directory and all below it, or undefined if one of them has a file. */
async function emptyTree(root: string, directory: string): Promise<string[] | undefined> {
  const entries = await entriesOf(root, directory);
  if (entries.some((entry) => !entry.isDirectory())) return undefined;
  const tree = [directory];
  for (const { name } of entries) {
    const below = await emptyTree(root, path.join(directory, name));
    if (below === undefined) return undefined;
    tree.push(...below);
  }
  return tree;
}

async function entriesOf(root: string, directory: string) {
  const entries = await readdir(directory, { withFileTypes: true }).catch(() => []); // Deleted since it was listed.
  return entries.filter(({ name }) => !isNeverPacked(relative(root, path.join(directory, name))));
}

const relative = (root: string, file: string) => path.relative(root, file).split(path.sep).join("/");
