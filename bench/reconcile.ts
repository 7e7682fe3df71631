import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import type { BenchRun, BenchServer, DatabaseKind } from "./installation.ts";
import { type BenchLine, benchLine, median } from "./line.ts";
import { findPgbench, runPgbench } from "./pgbench.ts";
import { createManyWithoutHttp } from "./requests.ts";
import { moveStatements, pgbenchScript } from "./statement.ts";

interface Plan {
  few: number;
  many: number;
  rounds: number;
  idleMs: number;
}

/** An idle minute contains everything periodic: polls, heartbeats and one resync. */
const plans: Record<BenchRun["size"], Record<DatabaseKind, Plan>> = {
  small: {
    postgres: { few: 300, many: 1_500, rounds: 1, idleMs: 5_000 },
    embedded: { few: 300, many: 1_500, rounds: 1, idleMs: 5_000 },
  },
  full: {
    postgres: { few: 1_000, many: 10_000, rounds: 3, idleMs: 60_000 },
    // As many deployments as one machine holds.
    embedded: { few: 300, many: 1_500, rounds: 3, idleMs: 60_000 },
  },
};

const pgbenchClients = 8;
const deployTimeoutMs = 600_000;

/** Measures the rate of whole rollouts with simulated replicas, and the cost of settled deployments: G4. */
export async function reconcileBench(run: BenchRun): Promise<BenchLine[]> {
  const lines: BenchLine[] = [];
  const kinds = run.size === "small" ? run.kinds.slice(0, 1) : run.kinds;
  for (const kind of kinds) lines.push(...(await reconcileLines(run, kind, plans[run.size][kind])));
  return lines;
}

async function reconcileLines(run: BenchRun, kind: DatabaseKind, plan: Plan): Promise<BenchLine[]> {
  const measured: { few: Measured[]; many: Measured[] } = { few: [], many: [] };
  for (let round = 0; round < plan.rounds; round += 1) {
    const idleMs = round === plan.rounds - 1 ? plan.idleMs : 0;
    measured.few.push(await measure(run, kind, { count: plan.few, idleMs }));
    measured.many.push(await measure(run, kind, { count: plan.many, idleMs }));
  }
  return linesOf(measured, plan, { kind, movesPerS: await floorPerS(run, kind, plan.few) });
}

interface Measured {
  /** Deployments per second from accepted to DEPLOYED. */
  perS: number;
  idle: Idle | undefined;
}

interface Idle {
  /** Share of one core. */
  cpuPercent: number;
  queriesPerMinute: number;
}

/**
 * Writes the deployments first, as the API does, while no server runs. Then starts a whole server that finds
 * them. Times come from the database: from the first revision that left CREATING to the last that became DEPLOYED.
 */
async function measure(
  run: BenchRun,
  kind: DatabaseKind,
  { count, idleMs }: { count: number; idleMs: number },
): Promise<Measured> {
  await using installation = await run.install(kind);
  await createManyWithoutHttp(installation, count);
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "simulated" });
  try {
    await allDeployed(server, count);
    const { seconds } = await server.row<{ seconds: number }>(`
      select extract(epoch from max(created_at) filter (where data ->> 'to' = 'DEPLOYED')
                              - min(created_at) filter (where data ->> 'to' = 'QUEUED'))::float8 as seconds
        from events where kind = 'revision.status'`);
    return { perS: count / seconds, idle: idleMs === 0 ? undefined : await measureIdle(server, idleMs) };
  } finally {
    await server.stop();
  }
}

async function allDeployed(server: BenchServer, count: number): Promise<void> {
  const end = Date.now() + deployTimeoutMs;
  for (;;) {
    const { deployed } = await server.row<{ deployed: number }>(
      "select count(*)::int as deployed from deployments where active_revision_id is not null",
    );
    if (deployed === count) return;
    if (Date.now() > end) throw new Error(`${deployed} of ${count} were deployed in time`);
    await sleep(500);
  }
}

/**
 * After the work V8 collects garbage two or three more times, 0.4 s of CPU each with 10,000 deployments, and the
 * server returns the memory within 90 s. That belongs to the rollouts, not to the cost of settled deployments.
 */
const restMs = 90_000;

/** Waits until the last assignment is settled and the queue is empty. */
async function measureIdle(server: BenchServer, idleMs: number): Promise<Idle> {
  for (;;) {
    const { busy } = await server.row<{ busy: boolean }>(
      "select exists (select from reconcile_queue where lease_owner is not null or run_at <= now()) as busy",
    );
    if (!busy) break;
    await sleep(500);
  }
  await server.memory();
  await sleep(Math.min(restMs, idleMs));
  const before = await server.usage();
  const start = performance.now();
  await sleep(idleMs);
  const after = await server.usage();
  const tookMs = performance.now() - start;
  return {
    cpuPercent: ((after.cpuMs - before.cpuMs) / tookMs) * 100,
    queriesPerMinute: ((after.queries - before.queries) / tookMs) * 60_000,
  };
}

function linesOf(
  { few, many }: { few: Measured[]; many: Measured[] },
  plan: Plan,
  { kind, movesPerS }: { kind: DatabaseKind; movesPerS: number | null },
): BenchLine[] {
  const perS = (all: Measured[]) => median(all.map((one) => one.perS));
  const idle = (all: Measured[]) => all.at(-1)?.idle as Idle;
  const on = `on ${kind}`;
  return [
    benchLine({
      goal: "G4b",
      name: `rollouts of ${plan.many} deployments${movesPerS === null ? "" : ", against the status moves alone by pgbench"}, ${on}`,
      floor: movesPerS,
      ours: perS(many),
      unit: "1/s",
      target: kind === "postgres" ? { oursMin: 200 } : "none",
    }),
    benchLine({
      goal: "G4b",
      name: `time per 1,000 rollouts, of ${plan.many} against of ${plan.few}, ${on}`,
      floor: 1_000 / perS(few),
      ours: 1_000 / perS(many),
      unit: "s",
      target: { ratioMax: 1.2 },
    }),
    benchLine({
      goal: "G4a",
      name: `CPU of one core with ${plan.many} settled deployments, against with ${plan.few}, ${on}`,
      floor: idle(few).cpuPercent,
      ours: idle(many).cpuPercent,
      unit: "%",
      // Five seconds after the rollouts V8 still collects their garbage.
      target: plan.idleMs < restMs / 2 ? "none" : { oursMax: 2 },
    }),
    benchLine({
      goal: "G4a",
      name: `queries a minute with ${plan.many} settled deployments, against with ${plan.few}, ${on}`,
      floor: idle(few).queriesPerMinute,
      ours: idle(many).queriesPerMinute,
      unit: "1/min",
      target: { ratioMax: 1.1 },
    }),
  ];
}

/** Lets pgbench write the same status moves of as many deployments, without any logic in between. */
async function floorPerS(run: BenchRun, kind: DatabaseKind, count: number): Promise<number | null> {
  const pgbench = findPgbench();
  if (kind === "embedded" || pgbench === undefined) return null;
  await using installation = await run.install(kind);
  await createManyWithoutHttp(installation, count);
  const databaseUrl = installation.databaseUrl as string;
  await numberRevisions(databaseUrl);
  const runsPerClient = Math.floor(count / pgbenchClients);
  const id = (column: string) => `(select ${column} from numbered where n = :client_id * ${runsPerClient} + :turn)`;
  const statements = moveStatements({ deployment: id("deployment_id"), revision: id("id") });
  // A pgbench variable lives as long as its client.
  const script = `\\set turn :turn + 1\n${statements.map(pgbenchScript).join("")}`;
  const extent = { runsPerClient };
  return await runPgbench(pgbench, databaseUrl, { script, clients: pgbenchClients, extent, variables: { turn: 0 } });
}

async function numberRevisions(databaseUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("create table numbered as select row_number() over () as n, id, deployment_id from revisions");
    await client.query("alter table numbered add primary key (n)");
    await client.query("analyze");
  } finally {
    await client.end();
  }
}
