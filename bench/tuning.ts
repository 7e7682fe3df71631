import { existsSync } from "node:fs";
import { type TuningName, tuningNames } from "../src/server/tuning/switches.ts";
import type { BenchRun } from "./installation.ts";
import { type BenchLine, benchLine, median } from "./line.ts";
import { runOnce } from "./program.ts";
import { rssMbWith } from "./settled.ts";
import { program, startUp } from "./up.ts";

const plans = {
  small: { count: 100, rounds: 1, restMs: 1_000, commands: 3 },
  full: { count: 10_000, rounds: 3, restMs: 90_000, commands: 20 },
};

/** An adjustment that gains less than a tenth goes. A small run is too short to tell. */
const gainMin = { ratioMax: 0.9 };

/** Measures what each adjustment of `src/server/tuning` is worth: the server, or a command, without it and with it. */
export async function tuningBench(run: BenchRun): Promise<BenchLine[]> {
  if (!existsSync(program)) {
    process.stderr.write("SKIPPED tuning: dist/main.js is not there (npm run build)\n");
    return [];
  }
  const lines = [await commandLine(run)];
  if (!run.kinds.includes("postgres")) return lines;
  for (const name of tuningNames) if (name !== "compile-cache") lines.push(await memoryLine(run, name));
  return lines;
}

async function memoryLine(run: BenchRun, name: TuningName): Promise<BenchLine> {
  const { count, rounds, restMs } = plans[run.size];
  const taken = { off: [] as number[], on: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    // Every other round begins with the other one, because the first of two runs is slower.
    const order = round % 2 === 0 ? (["off", "on"] as const) : (["on", "off"] as const);
    for (const which of order) taken[which].push(await rssMbWith(run, { count, restMs }, environmentOf(which, name)));
  }
  return benchLine({
    goal: "G9",
    name: `memory with ${count} settled deployments, with ${name} against without, on postgres`,
    floor: median(taken.off),
    ours: median(taken.on),
    unit: "MB",
    target: run.size === "full" ? gainMin : "none",
  });
}

async function commandLine({ size }: BenchRun): Promise<BenchLine> {
  const up = await startUp({});
  const taken = { off: [] as number[], on: [] as number[] };
  for (let round = -1; round < plans[size].commands; round += 1) {
    for (const which of ["off", "on"] as const) {
      const keys = { PIERHEAD_URL: up.url, PIERHEAD_API_KEY: up.key, ...environmentOf(which, "compile-cache") };
      const { endMs } = await runOnce([program, "list", "--json"], keys);
      // The first round fills the cache.
      if (round >= 0) taken[which].push(endMs);
    }
  }
  await up.stop();
  return benchLine({
    goal: "G14",
    name: "pierhead list, with compile-cache against without",
    floor: median(taken.off),
    ours: median(taken.on),
    unit: "ms",
    target: size === "full" ? gainMin : "none",
  });
}

function environmentOf(which: "on" | "off", name: TuningName): Record<string, string> {
  return which === "off" ? { PIERHEAD_TUNING_OFF: name } : {};
}
