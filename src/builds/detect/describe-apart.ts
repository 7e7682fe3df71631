import path from "node:path";
import { Worker } from "node:worker_threads";
import type { BuildTarget } from "../build.ts";
import { BuildFailure } from "../failure.ts";
import type { ArchiveLimits } from "../sources/archive.ts";
import { nothingFound, type SourceDescription } from "./describe-source.ts";

/** A source that strangers wrote. */
export interface DescriptionTask {
  /** Absolute root of the source. */
  directory: string;
  /** Unpacked into the directory first; null: the source is there. */
  archive: { file: string; limits: ArchiveLimits } | null;
  /** As in a build; null: the root of the source decides. */
  configPath: string | null;
  target: BuildTarget["kind"];
}

export type DescriptionAnswer = { description: SourceDescription } | { refusal: string };

/** What a description may take of memory. The largest source that it reads needs a third. */
const memoryMibMax = 384;

/**
 * Describes a source like `describeSource`, in a thread of its own at low priority. However long a source occupies it, this process goes on
 * with its other work, and at the deadline or above its memory the thread ends.
 * @throws BuildFailure if the archive is refused; the reason of the signal when it aborts.
 */
export async function describeApart(
  task: DescriptionTask,
  { timeoutMs, signal }: { timeoutMs: number; signal: AbortSignal },
): Promise<SourceDescription> {
  signal.throwIfAborted();
  // The same extension as this file: .ts when run from the sources, .js when built.
  const file = new URL(`./description-thread${path.extname(import.meta.filename)}`, import.meta.url);
  const thread = new Worker(file, {
    workerData: task,
    execArgv: [],
    name: "description of a source",
    resourceLimits: { maxOldGenerationSizeMb: memoryMibMax },
  });
  const { promise, resolve, reject } = Promise.withResolvers<DescriptionAnswer | null>();
  thread.once("message", resolve);
  thread.once("error", (error: NodeJS.ErrnoException) =>
    error.code === "ERR_WORKER_OUT_OF_MEMORY" ? resolve(null) : reject(error),
  );
  thread.once("exit", () => resolve(null));
  const deadline = setTimeout(() => resolve(null), timeoutMs);
  const stop = () => reject(signal.reason);
  signal.addEventListener("abort", stop, { once: true });
  try {
    const answer = await promise;
    if (answer === null) return tooHard;
    if ("refusal" in answer) throw new BuildFailure("ArchiveRefused", answer.refusal);
    return answer.description;
  } finally {
    clearTimeout(deadline);
    signal.removeEventListener("abort", stop);
    await thread.terminate();
  }
}

const tooHard: SourceDescription = {
  ...nothingFound,
  problem: {
    reason: "ConfigMissing",
    message:
      "The source takes too long to look into, so no server was recognized. Add a langgraph.json, or a pierhead.json with the start command of any other server.",
  },
};
