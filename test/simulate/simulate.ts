import { once } from "node:events";
import { parseArgs } from "node:util";
import { Worker } from "node:worker_threads";
import type { Asked, Told } from "./histories.ts";

// npm run simulate -- [--seeds N] [--seed FIRST] [--threads N]: seeded histories of a whole installation on virtual time.
// A failing seed is named, and run again with `--seeds 1 --seed <it>`.
const { values } = parseArgs({
  options: {
    seeds: { type: "string", default: "2000" },
    seed: { type: "string", default: "1" },
    threads: { type: "string", default: "1" },
  },
});
const [first, seeds, threads] = [Number(values.seed), Number(values.seeds), Number(values.threads)];
const failuresMax = 10;
/** What processes that die leave waiting stays in memory, about 45 kB a history: it goes with the thread. */
const seedsOfThread = 2_000;

const totals = new Map<string, number>();
let [passed, failed, next] = [0, 0, first];
await Promise.all(Array.from({ length: threads }, runThreads));
for (const [what, count] of [...totals].sort()) console.log(`${String(count).padStart(9)}  ${what}`);
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed === seeds ? 0 : 1);

/** One thread after the other, until there is nothing left to take. */
async function runThreads(): Promise<void> {
  while (next < first + seeds && failed < failuresMax) {
    const asked: Asked = { first: next, seeds: Math.min(seedsOfThread, first + seeds - next) };
    next += asked.seeds;
    const thread = new Worker(new URL("./histories.ts", import.meta.url), { workerData: asked });
    thread.on("message", (told: Told) => {
      note(told);
      if (failed === failuresMax) void thread.terminate();
    });
    await once(thread, "exit");
  }
}

function note({ seed, counts, failure }: Told): void {
  for (const [what, count] of Object.entries(counts)) totals.set(what, (totals.get(what) ?? 0) + count);
  if (failure === null) passed += 1;
  else {
    failed += 1;
    console.log(`seed ${seed} failed: npm run simulate -- --seeds 1 --seed ${seed}\n${failure}`);
  }
  if ((passed + failed) % 10_000 === 0) console.log(`${passed + failed} seeds, ${failed} failed`);
}
