import { packageDir, type Replica, startReplica } from "../test/engines/replicas.ts";
import { installPackages } from "../test/support/own-packages.ts";
import { startPostgresServer } from "../test/support/postgres-server.ts";
import { toBeEnded } from "./endings.ts";
import type { BenchRun } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";

const plans = {
  small: { rounds: 1, loadMs: 4_000, singles: 30 },
  full: { rounds: 3, loadMs: 10_000, singles: 100 },
};

const clients = 16;
const steps = 3;
const warmUps = 20;

/**
 * Measures the LangGraph.js server on PostgreSQL against the same server on files, in turns: runs of three steps on new threads
 * by `POST /threads/{id}/runs/wait`, from sixteen clients at once and from one.
 */
export async function enginesBench(run: BenchRun): Promise<BenchLine[]> {
  const missing = run.kinds.includes("postgres") ? installPackages(packageDir) : "PostgreSQL is not installed";
  if (missing !== undefined) {
    process.stderr.write(`SKIPPED engines: ${missing}\n`);
    return [];
  }
  const { rounds, loadMs, singles } = plans[run.size];
  // With fsync, as the database of the servers.
  const postgres = await startPostgresServer({ durable: true });
  const endPostgres = toBeEnded(async () => postgres?.stop());
  const servers = {
    file: await startReplica("file"),
    postgres: await startReplica("postgres", { connectionString: postgres?.url ?? "" }),
  };
  const endServers = toBeEnded(() => endAll(Object.values(servers)));
  const names = ["file", "postgres"] as const;
  const perS = { file: [] as number[], postgres: [] as number[] };
  const loaded = { file: [] as number[], postgres: [] as number[] };
  const alone = { file: [] as number[], postgres: [] as number[] };
  for (const name of names) for (let n = 0; n < warmUps; n += 1) await runOnce(servers[name]);
  for (let round = 0; round < rounds; round += 1) {
    for (const name of names) {
      const { latenciesMs, durationMs } = await load(servers[name], loadMs);
      perS[name].push(latenciesMs.length / (durationMs / 1_000));
      loaded[name].push(median(latenciesMs));
    }
    // One run of each in turn, because the speed of the machine changes.
    for (let n = 0; n < singles; n += 1) for (const name of names) alone[name].push(await runOnce(servers[name]));
  }
  await endServers();
  await endPostgres();
  const line = (
    name: string,
    unit: string,
    floor: number,
    ours: number,
    target: Parameters<typeof benchLine>[0]["target"],
  ) => benchLine({ goal: "E1", name, floor, ours, unit, target });
  const p95 = (values: number[]) => percentile(values, 95);
  return [
    line(`runs of ${steps} steps, ${clients} clients`, "runs/s", median(perS.file), median(perS.postgres), {
      ratioMin: 0.6,
    }),
    line(`p50 of runs.wait, ${clients} clients`, "ms", median(loaded.file), median(loaded.postgres), "none"),
    line("p50 of runs.wait, one client", "ms", median(alone.file), median(alone.postgres), { ratioMax: 1.5 }),
    line("p95 of runs.wait, one client", "ms", p95(alone.file), p95(alone.postgres), "none"),
  ];
}

async function load(server: Replica, durationMs: number): Promise<{ latenciesMs: number[]; durationMs: number }> {
  const latenciesMs: number[] = [];
  const start = performance.now();
  const client = async () => {
    while (performance.now() < start + durationMs) latenciesMs.push(await runOnce(server));
  };
  await Promise.all(Array.from({ length: clients }, client));
  return { latenciesMs, durationMs: performance.now() - start };
}

/** @returns the milliseconds of the run, without the thread that it is on. */
async function runOnce({ url }: Replica): Promise<number> {
  const post = async (path: string, body: object) => {
    const headers = { "content-type": "application/json" };
    const answer = await fetch(`${url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    if (!answer.ok) throw new Error(`POST ${path} answered ${answer.status}: ${await answer.text()}`);
    return (await answer.json()) as { thread_id?: string; done?: number[] };
  };
  const { thread_id } = await post("/threads", {});
  const sentAt = performance.now();
  const { done } = await post(`/threads/${thread_id}/runs/wait`, { assistant_id: "steps", input: { total: steps } });
  if (done?.length !== steps) throw new Error(`a run of ${steps} steps ended with ${JSON.stringify(done)}`);
  return performance.now() - sentAt;
}

async function endAll(replicas: Replica[]): Promise<void> {
  for (const { process } of replicas) process.kill("SIGKILL");
  await Promise.all(replicas.map(({ ended }) => ended));
}
