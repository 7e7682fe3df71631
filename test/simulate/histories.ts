import { setImmediate } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { runHistory } from "./history.ts";

/** The seeds that a thread runs. */
export interface Job {
  first: number;
  seeds: number;
}

/** The result of one seed. */
export interface Result {
  seed: number;
  /** How often each event happened. */
  counts: Record<string, number>;
  /** null: it passed. */
  failure: string | null;
}

const { first, seeds } = workerData as Job;
for (let seed = first; seed < first + seeds; seed++) {
  parentPort?.postMessage(await run(seed));
  // Deadlines that are still pending are real timers. Without a turn of the event loop none of them ever fires.
  await setImmediate();
}
// Do not wait for the deadlines of the last histories.
process.exit();

async function run(seed: number): Promise<Result> {
  try {
    return { seed, counts: await runHistory(seed), failure: null };
  } catch (error) {
    return { seed, counts: {}, failure: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
