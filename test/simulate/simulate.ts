import { once } from "node:events";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import type { Job, Result } from "./histories.ts";

// npm run simulate -- [--seeds N] [--seed FIRST] [--threads N]: runs seeded histories of a whole installation on virtual time.
// It prints each failing seed. Reproduce one with `--seeds 1 --seed SEED`.
const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "2000" },
    seed: { type: "string", default: "1" },
    threads: { type: "string", default: "1" },
  },
});
const [first, seeds, threads] = [Number(values.seed), Number(values.seeds), Number(values.threads)];
const failuresMax = 10;
/** Promises of dead processes stay in memory, about 45 kB per history, until their thread ends. */
const seedsPerThread = 2_000;

const totals = new Map<string, number>();
let [passed, failed, next] = [0, 0, first];
await Promise.all(Array.from({ length: threads }, runThreads));
for (const [event, count] of [...totals].sort()) console.log(`${String(count).padStart(9)}  ${event}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed === seeds ? 0 : 1);

/** Runs one thread after another until no seeds are left. */
async function runThreads(): Promise<void> {
  while (next < first + seeds && failed < failuresMax) {
    const job: Job = { first: next, seeds: Math.min(seedsPerThread, first + seeds - next) };
    next += job.seeds;
    const thread = new Worker(new URL("./histories.ts", import.meta.url), { workerData: job });
    thread.on("message", (result: Result) => {
      record(result);
      if (failed === failuresMax) void thread.terminate();
    });
    await once(thread, "exit");
  }
}

function record({ seed, counts, failure }: Result): void {
  for (const [event, count] of Object.entries(counts)) totals.set(event, (totals.get(event) ?? 0) + count);
  if (failure === null) passed += 1;
  else {
    failed += 1;
    console.log(`seed ${seed} failed: npm run simulate -- --seeds 1 --seed ${seed}\n${failure}`);
  }
  if ((passed + failed) % 10_000 === 0) console.log(`${passed + failed} seeds, ${failed} failed`);
}
