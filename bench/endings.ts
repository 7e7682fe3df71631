import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

/** What was begun and must be ended, also when the run is interrupted: the last one first. */
const endings = new Set<() => Promise<void>>();

/** @returns ends it; to be called when it is no longer needed, once or more often. */
export function toBeEnded(end: () => Promise<void>): () => Promise<void> {
  let ended: Promise<void> | undefined;
  const once = () => {
    endings.delete(once);
    ended ??= end();
    return ended;
  };
  endings.add(once);
  return once;
}

/** Ends what still goes on. What fails to end does not keep the rest from it. */
export async function endAll(): Promise<void> {
  for (const end of [...endings].reverse()) {
    await end().catch((error: unknown) => process.stderr.write(`could not be ended: ${error}\n`));
  }
}

/** Somebody wants the run to stop. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
}

/** Rejects with Interrupted at Ctrl-C, or when a supervisor asks for an end. */
export function interruption(): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => reject(new Interrupted(`stopped by ${signal}`)));
  }
  return promise;
}

/** Everything that this process and its children write goes into one directory, which goes with the run. */
export async function useOwnDirectory(): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-bench-"));
  // PostgreSQL runs as a user of its own, in a directory of its own inside.
  await chmod(directory, 0o711);
  process.env["TMPDIR"] = directory;
  toBeEnded(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }));
}
