import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { BenchRun } from "./installation.ts";
import { type BenchLine, benchLine, median } from "./line.ts";
import { createManyWithoutHttp } from "./requests.ts";
import { rssMbOf, startUp, type Up } from "./up.ts";

const plans = {
  small: { few: 30, many: 300, rounds: 1, restMs: 1_000 },
  full: { few: 1_000, many: 10_000, rounds: 3, restMs: 90_000 },
};

const deployTimeoutMs = 600_000;

/**
 * Measures the memory that settled deployments use in the installed program, simulated replicas included: G9. The memory of one
 * is the difference of many and few, because both include the compiled code of rollouts, which is 10 to 20 MB.
 */
export async function settledLines(run: BenchRun): Promise<BenchLine[]> {
  if (!run.kinds.includes("postgres")) return [];
  const { few, many, rounds, restMs } = plans[run.size];
  const taken = { few: [] as number[], many: [] as number[] };
  for (let round = 0; round < rounds; round += 1) {
    taken.few.push(await rssMbWith(run, { count: few, restMs }));
    taken.many.push(await rssMbWith(run, { count: many, restMs }));
  }
  const [floor, ours] = [median(taken.few), median(taken.many)];
  return [
    benchLine({
      goal: "G9",
      name: `memory of a control plane with ${many} settled deployments and their simulated replicas against with ${few}, on postgres`,
      ...{ floor, ours, unit: "MB", target: { oursMax: 200 } },
    }),
    benchLine({
      goal: "G9",
      name: "the same for each settled deployment more, on postgres",
      ...{ floor: null, ours: Math.max(0, ((ours - floor) * 1_024) / (many - few)), unit: "kB" },
      target: run.size === "small" ? "none" : { oursMax: 5 },
    }),
  ];
}

/** Writes the deployments while no server runs, then starts the program, which rolls them out. */
export async function rssMbWith(
  run: BenchRun,
  { count, restMs }: { count: number; restMs: number },
  environment: Record<string, string> = {},
): Promise<number> {
  await using installation = await run.install("postgres");
  await createManyWithoutHttp(installation, count);
  const databaseUrl = installation.databaseUrl as string;
  const up = await startUp({
    DATABASE_URL: databaseUrl,
    PIERHEAD_DATA_DIR: installation.dataDir,
    PIERHEAD_COMPUTE: "simulated",
    ...environment,
  });
  try {
    await allSettled(databaseUrl, count);
    return await restingRssMb(up, restMs);
  } finally {
    await up.stop();
  }
}

async function allSettled(databaseUrl: string, count: number): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    for (const end = performance.now() + deployTimeoutMs; ; ) {
      const { rows } = await client.query(`
        select (select count(*)::int from deployments where active_revision_id is not null) as deployed,
               exists (select from reconcile_queue where lease_owner is not null or run_at <= now()) as busy`);
      if (rows[0].deployed === count && !rows[0].busy) return;
      if (performance.now() > end) throw new Error(`${rows[0].deployed} of ${count} were deployed in time`);
      await sleep(500);
    }
  } finally {
    await client.end();
  }
}

/** Waits while memory falls: the idle program returns what the rollouts used. */
async function restingRssMb({ child }: Up, restMs: number): Promise<number> {
  let least = rssMbOf(child);
  for (let leastAt = performance.now(); performance.now() - leastAt < restMs; ) {
    await sleep(500);
    const now = rssMbOf(child);
    if (now > least - 1) continue;
    least = now;
    leastAt = performance.now();
  }
  return least;
}
