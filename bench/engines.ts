import { startAegraWorld } from "../test/engines/aegra-world.ts";
import { packageDir, type Replica, startReplica } from "../test/engines/replicas.ts";
import { redisSkipped } from "../test/provision/redis-server.ts";
import { installPackages } from "../test/support/own-packages.ts";
import { startPostgresServer } from "../test/support/postgres-server.ts";
import { toBeEnded } from "./endings.ts";
import type { BenchRun } from "./installation.ts";
import { type BenchLine, type BenchTarget, benchLine, median, percentile } from "./line.ts";

const plans = {
  small: { rounds: 1, loadMs: 4_000, singles: 30 },
  full: { rounds: 3, loadMs: 10_000, singles: 100 },
};

const clients = 16;
const steps = 3;
const warmUps = 20;

/**
 * Measures the durable engines against those that they replace, in turns: runs of three steps on new threads by
 * `POST /threads/{id}/runs/wait`, from sixteen clients at once and from one.
 */
export async function enginesBench(run: BenchRun): Promise<BenchLine[]> {
  if (!run.kinds.includes("postgres")) {
    process.stderr.write("SKIPPED engines: PostgreSQL is not installed\n");
    return [];
  }
  const plan = plans[run.size];
  // Building the two agents in Python takes longer than all small benches together may.
  return [...(await javascriptLines(plan)), ...(run.size === "full" ? await pythonLines(plan) : [])];
}

type Plan = (typeof plans)["full"];

async function javascriptLines(plan: Plan): Promise<BenchLine[]> {
  const missing = installPackages(packageDir);
  if (missing !== undefined) {
    process.stderr.write(`SKIPPED engines for JavaScript: ${missing}\n`);
    return [];
  }
  // With fsync, as the database of the servers.
  const postgres = await startPostgresServer({ durable: true });
  const endPostgres = toBeEnded(async () => postgres?.stop());
  const [file, ours] = [
    await startReplica("file"),
    await startReplica("postgres", { connectionString: postgres?.url ?? "" }),
  ];
  const endServers = toBeEnded(() => endAll([file, ours]));
  const figures = await compare(plan, file, ours);
  await endServers();
  await endPostgres();
  return linesOf("E1", "LangGraph.js", figures, { perS: { ratioMin: 0.6 }, alone: { ratioMax: 1.5 } });
}

/** One replica of each, built and run by Pierhead and asked without it. */
async function pythonLines(plan: Plan): Promise<BenchLine[]> {
  if (redisSkipped !== undefined) {
    process.stderr.write(`SKIPPED engines for Python: ${redisSkipped}\n`);
    return [];
  }
  const world = await startAegraWorld({ durable: true });
  const end = toBeEnded(() => world[Symbol.asyncDispose]());
  const [memory, ours] = [await world.deployed("memory"), await world.deployed("aegra")];
  const figures = await compare(plan, memory, ours);
  await end();
  return linesOf("E2", "LangGraph for Python", figures, { perS: "none", alone: "none" });
}

interface Figures {
  perS: number[];
  loaded: number[];
  alone: number[];
}

type Server = Pick<Replica, "url">;

async function compare({ rounds, loadMs, singles }: Plan, floor: Server, ours: Server): Promise<[Figures, Figures]> {
  const sideOf = (server: Server) => ({ server, perS: [] as number[], loaded: [] as number[], alone: [] as number[] });
  const sides: [ReturnType<typeof sideOf>, ReturnType<typeof sideOf>] = [sideOf(floor), sideOf(ours)];
  for (const { server } of sides) for (let n = 0; n < warmUps; n += 1) await runOnce(server);
  for (let round = 0; round < rounds; round += 1) {
    for (const { server, perS, loaded } of sides) {
      const { latenciesMs, durationMs } = await load(server, loadMs);
      perS.push(latenciesMs.length / (durationMs / 1_000));
      loaded.push(median(latenciesMs));
    }
    // One run of each in turn, because the speed of the machine changes.
    for (let n = 0; n < singles; n += 1) for (const { server, alone } of sides) alone.push(await runOnce(server));
  }
  return sides;
}

function linesOf(
  goal: string,
  what: string,
  [floor, ours]: [Figures, Figures],
  targets: { perS: BenchTarget; alone: BenchTarget },
): BenchLine[] {
  const line = (name: string, unit: string, of: (figures: Figures) => number, target: BenchTarget) =>
    benchLine({ goal, name: `${what}: ${name}`, floor: of(floor), ours: of(ours), unit, target });
  return [
    line(`runs of ${steps} steps, ${clients} clients`, "runs/s", ({ perS }) => median(perS), targets.perS),
    line(`p50 of runs.wait, ${clients} clients`, "ms", ({ loaded }) => median(loaded), "none"),
    line("p50 of runs.wait, one client", "ms", ({ alone }) => median(alone), targets.alone),
    line("p95 of runs.wait, one client", "ms", ({ alone }) => percentile(alone, 95), "none"),
  ];
}

async function load(server: Server, durationMs: number): Promise<{ latenciesMs: number[]; durationMs: number }> {
  const latenciesMs: number[] = [];
  const start = performance.now();
  const client = async () => {
    while (performance.now() < start + durationMs) latenciesMs.push(await runOnce(server));
  };
  await Promise.all(Array.from({ length: clients }, client));
  return { latenciesMs, durationMs: performance.now() - start };
}

/** @returns the milliseconds of the run, without the thread that it is on. */
async function runOnce({ url }: Server): Promise<number> {
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
