import { mkdir, open, readFile, rm, stat } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { startedAtTicks } from "../worker/processes.ts";

/**
 * Makes a directory that all builds of this machine share, unless it is there. One installer at a time over all workers;
 * the others wait for it.
 * @param install must make the directory complete in its last step.
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

/** Does something that no other worker of this machine is at meanwhile; the others wait for their turn. */
export async function inTurn<T>({ signal }: { signal: AbortSignal }, name: string, act: () => Promise<T>): Promise<T> {
  for (;;) {
    const release = await takeLock(`${name}.lock`);
    if (release !== null) return await act().finally(release);
    await sleep(250, undefined, { signal });
  }
}

/**
 * The lock names its holder, so that one whose holder died is taken over. Two that do so at once both install into one
 * directory at worst, and the last step of the second fails.
 * @returns null when another one holds it.
 */
async function takeLock(file: string): Promise<(() => Promise<void>) | null> {
  await mkdir(path.dirname(file), { recursive: true });
  try {
    const lockFile = await open(file, "wx");
    await lockFile.writeFile(`${process.pid} ${startedAtTicks(process.pid)}`);
    await lockFile.close();
    return () => rm(file, { force: true });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
    const [pid = "", ticks = ""] = (await readFile(file, "utf8").catch(() => "")).split(" ");
    // An empty file belongs to a holder that is about to write its name, unless it is old.
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
