import { setImmediate } from "node:timers/promises";
import { parentPort, workerData } from "node:worker_threads";
import { runHistory } from "./history.ts";

/** What a thread that runs histories is asked. */
export interface Asked {
  first: number;
  seeds: number;
}

/** What it tells of each. */
export interface Told {
  seed: number;
  /** How often something happened. */
  counts: Record<string, number>;
  /** null: it passed. */
  failure: string | null;
}

const { first, seeds } = workerData as Asked;
for (let seed = first; seed < first + seeds; seed++) {
  parentPort?.postMessage(await tell(seed));
  // Deadlines that were left pending are real timers: without a turn of the event loop none ever fires.
  await setImmediate();
}
// Those of the last histories need not be waited for.
process.exit();

async function tell(seed: number): Promise<Told> {
  try {
    return { seed, counts: await runHistory(seed), failure: null };
  } catch (error) {
    return { seed, counts: {}, failure: error instanceof Error ? (error.stack ?? error.message) : String(error) };
  }
}
