import { setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { BuildFailure } from "../failure.ts";
import { unpackArchive } from "../sources/archive.ts";
import type { DescriptionAnswer, DescriptionTask } from "./describe-apart.ts";
import { describeSource } from "./describe-source.ts";

/** On Linux a priority belongs to a thread, elsewhere to the whole process. */
const priority = 10;
if (process.platform === "linux") setPriority(priority);

const { directory, archive, configPath, target } = workerData as DescriptionTask;

async function answer(): Promise<DescriptionAnswer> {
  try {
    // The other side ends this thread in time.
    const { signal } = new AbortController();
    if (archive !== null) await unpackArchive(archive.file, directory, { limits: archive.limits, signal });
    return { description: await describeSource(directory, configPath, target) };
  } catch (error) {
    if (error instanceof BuildFailure) return { refusal: error.message };
    throw error;
  }
}

parentPort?.postMessage(await answer());
