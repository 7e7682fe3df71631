import { parseArgs } from "node:util";
import { runHistory } from "./history.ts";

// npm run simulate -- [--seeds N] [--seed FIRST]: seeded histories of a whole installation on virtual time. A failing
// seed is named, and run again with `--seeds 1 --seed <it>`.
const { values } = parseArgs({
  options: { seeds: { type: "string", default: "2000" }, seed: { type: "string", default: "1" } },
});
const [first, seeds] = [Number(values.seed), Number(values.seeds)];
const totals = new Map<string, number>();
let failed = 0;
for (let seed = first; seed < first + seeds; seed++) {
  try {
    const counts = await runHistory(seed);
    for (const [what, count] of Object.entries(counts)) totals.set(what, (totals.get(what) ?? 0) + count);
  } catch (error) {
    failed += 1;
    console.log(`seed ${seed} failed: npm run simulate -- --seeds 1 --seed ${seed}`);
    console.log(error instanceof Error ? error.stack : error);
    if (failed === 10) break;
  }
}
for (const [what, count] of [...totals].sort()) console.log(`${String(count).padStart(9)}  ${what}`);
console.log(`${seeds - failed} passed, ${failed} failed`);
process.exit(failed === 0 ? 0 : 1);
