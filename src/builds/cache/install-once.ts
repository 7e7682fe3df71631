import { mkdir, open, readFile, rm, stat } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startedAtTicks } from "../worker/processes.ts";

/**
 * Creates a directory that all builds of this machine share, unless it exists. Across all workers one installer runs at a
 * time; the others wait for it.
 * @param install must complete the directory in its last step.
 */
export async function installOnce(
  { signal }: { signal: AbortSignal },
  directory: string,
  install: () => Promise<void>,
): Promise<void> {
  while (!(await exists(directory))) {
    const release = await takeLock(`${directory}.lock`);
    if (release === null) {
      await sleep(250, undefined, { signal });
      continue;
    }
    try {
      if (!(await exists(directory))) await install();
    } finally {
      await release();
    }
  }
}

/** Runs `act` while holding a lock that excludes all other workers of this machine. The others wait. */
export async function inTurn<T>({ signal }: { signal: AbortSignal }, name: string, act: () => Promise<T>): Promise<T> {
  for (;;) {
    const release = await takeLock(`${name}.lock`);
    if (release !== null) return await act().finally(release);
    await sleep(250, undefined, { signal });
  }
}

/**
 * Creates a lock file that names its holder, so that the lock of a dead process can be taken over. If two workers take it
 * over at once, both install into the same directory at worst, and the last step of the second one fails.
 * @returns null when another process holds the lock.
 */
async function takeLock(file: string): Promise<(() => Promise<void>) | null> {
  await mkdir(path.dirname(file), { recursive: true, mode: 0o700 });
  try {
    const lockFile = await open(file, "wx");
    await lockFile.writeFile(`${process.pid} ${startedAtTicks(process.pid)}`);
    await lockFile.close();
    return () => rm(file, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    const [pid = "", ticks = ""] = (await readFile(file, "utf8").catch(() => "")).split(" ");
    // An empty file belongs to a holder that is about to write its pid, unless the file is old.
    const isStale = pid === "" ? await isOld(file) : startedAtTicks(Number(pid)) !== ticks;
    if (isStale) await rm(file, { force: true });
    return null;
  }
}

const lockNameTimeoutMs = 10_000;

async function isOld(file: string): Promise<boolean> {
  const found = await stat(file).catch(() => null);
  return found !== null && Date.now() - found.mtimeMs > lockNameTimeoutMs;
}

const exists = (file: string) =>
  stat(file).then(
    () => true,
    () => false,
  );
