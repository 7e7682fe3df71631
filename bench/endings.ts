import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

/** Clean-ups to run at the end, also when the run is interrupted. The last one runs first. */
const endings = new Set<() => Promise<void>>();

/** @returns a function that runs the clean-up early. Calling it again does nothing. */
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

/** Runs the remaining clean-ups. A failing one does not stop the others. */
export async function endAll(): Promise<void> {
  for (const end of [...endings].reverse()) {
    await end().catch((error: unknown) => process.stderr.write(`could not be ended: ${error}\n`));
  }
}

/** A signal interrupted the run. */
export class Interrupted extends Error {
  override readonly name = "Interrupted";
}

/** Rejects with Interrupted on Ctrl-C or a supervisor's SIGTERM. */
export function interruption(): Promise<never> {
  const { promise, reject } = Promise.withResolvers<never>();
  for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
    process.on(signal, () => reject(new Interrupted(`stopped by ${signal}`)));
  }
  return promise;
}

/** Makes one directory for everything that this process and its children write, and deletes it with the run. */
export async function useOwnDirectory(): Promise<void> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-bench-"));
  // PostgreSQL runs as a user of its own and needs to enter its directory.
  await chmod(directory, 0o711);
  process.env["TMPDIR"] = directory;
  toBeEnded(() => rm(directory, { recursive: true, force: true, maxRetries: 3 }));
}
