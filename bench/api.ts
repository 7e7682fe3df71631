import { type ChildProcess, fork } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { FloorSettings } from "./floor-process.ts";
import { type BenchRun, copyEmbedded, type DatabaseKind, type Installation } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";
import { runLoad } from "./load.ts";
import { findPgbench, runPgbench } from "./pgbench.ts";
import { createBody, createWithoutHttp, httpRequest } from "./requests.ts";
import { createStatement, pgbenchScript, readStatement, type Statement } from "./statement.ts";

/** Enough connections to keep the server busy. With 16, it was idle for a quarter of the time. */
const connections = 64;
/** Also measured, to show the result with fewer connections. */
const fewConnections = 16;
/** PostgreSQL's best on two cores: 16 clients write no more, 64 write a quarter less. */
const pgbenchClients = 8;
/** Seconds of a round. pgbench accepts whole seconds only. */
const plans = { small: { rounds: 1, load: 0.5, pgbench: 1 }, full: { rounds: 3, load: 3, pgbench: 3 } };

/** Measures what HTTP, keys, tenants, rules and serialization add to the SQL of one read and one create: G1 and G2. */
export async function apiBench(run: BenchRun): Promise<BenchLine[]> {
  const lines: BenchLine[] = [];
  for (const kind of run.kinds) lines.push(...(await apiLines(run, kind)));
  return lines;
}

async function apiLines(run: BenchRun, kind: DatabaseKind): Promise<BenchLine[]> {
  await using installation = await run.install(kind);
  const settings = await prepare(installation);
  const isEmbedded = installation.databaseUrl === undefined;
  const dataDir = isEmbedded ? await copyEmbedded(installation) : installation.dataDir;
  const floor = await startFloor({ ...settings, dataDir });
  try {
    return [
      ...(await readLines(installation, { settings, floor, plan: plans[run.size] })),
      ...(await createLines(installation, { settings, floor, plan: plans[run.size] })),
    ];
  } finally {
    floor.child.disconnect();
    await once(floor.child, "exit");
  }
}

interface Settings extends FloorSettings {
  deploymentId: string;
}

/** One deployment to read. The embedded database allows one opener, so its floor gets a copy. */
async function prepare(installation: Installation): Promise<Settings> {
  const { databaseUrl } = installation;
  const { db, sealer, close } = await installation.open();
  try {
    const { id } = await createWithoutHttp(db, sealer, installation);
    const read = await readStatement(installation, id);
    const create = await createStatement({ db, sealer }, installation);
    return { databaseUrl, dataDir: installation.dataDir, deploymentId: id, read, create };
  } finally {
    await close();
  }
}

interface Floor {
  child: ChildProcess;
  port: number;
}

async function startFloor(settings: FloorSettings): Promise<Floor> {
  const program = fileURLToPath(new URL("floor-process.ts", import.meta.url));
  const child = fork(program, [JSON.stringify(settings)]);
  const [{ port }] = (await once(child, "message")) as [{ port: number }];
  return { child, port };
}

interface Against {
  settings: Settings;
  floor: Floor;
  plan: (typeof plans)[BenchRun["size"]];
}

async function readLines(installation: Installation, { settings, floor, plan }: Against): Promise<BenchLine[]> {
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "none" });
  try {
    const request = httpRequest("GET", `/v2/deployments/${settings.deploymentId}`, installation.adminKey);
    const load = (port: number, count?: number) => loadRound(port, { request, seconds: plan.load, count });
    const measured = await measureRounds(plan.rounds, {
      pgbench: pgbenchOf(installation, settings.read, plan.pgbench),
      floor: () => load(floor.port),
      ours: () => load(server.port),
      few: () => load(server.port, fewConnections),
    });
    return readTable(measured, `on ${installation.kind}`);
  } finally {
    await server.stop();
  }
}

function readTable({ pgbench, floor, ours, few }: Parties<Round>, on: string): BenchLine[] {
  const rate = { goal: "G1", ours: ours.perS, unit: "1/s" };
  const what = `GET a deployment, ${connections} at once`;
  const lines = [
    benchLine({
      ...rate,
      name: `${what}, against node:http + pg, ${on}`,
      floor: floor.perS,
      target: { ratioMin: 0.5 },
    }),
    benchLine({
      goal: "G1",
      name: `p99 of that GET at full load, ${on}`,
      floor: floor.p99Ms,
      ours: ours.p99Ms,
      unit: "ms",
      target: { oursMax: 25 },
    }),
  ];
  if (pgbench === undefined) return lines;
  const against = `against pgbench with the same SQL, ${on}`;
  return [
    benchLine({ ...rate, name: `${what}, ${against}`, floor: pgbench.perS, target: { ratioMin: 0.25 } }),
    benchLine({ ...fewRate("G1", few), name: `GET, ${fewConnections} at once, ${against}`, floor: pgbench.perS }),
    ...lines,
  ];
}

const fewRate = (goal: string, { perS }: Round) => ({ goal, ours: perS, unit: "1/s", target: "none" as const });

/** The API alone, as on a machine whose reconcilers run elsewhere. Other benches measure what follows a create. */
async function createLines(installation: Installation, { settings, floor, plan }: Against): Promise<BenchLine[]> {
  const server = await installation.start("api");
  try {
    const request = () =>
      httpRequest("POST", "/v2/deployments", installation.adminKey, createBody(`bench-${randomUUID()}`));
    const load = (port: number, count?: number) => loadRound(port, { request, seconds: plan.load, count });
    const measured = await measureRounds(plan.rounds, {
      pgbench: pgbenchOf(installation, settings.create, plan.pgbench),
      floor: () => load(floor.port),
      ours: () => load(server.port),
      few: () => load(server.port, fewConnections),
    });
    const { pgbench, ours, few } = measured;
    const than = pgbench === undefined ? "node:http + pg" : "pgbench writing the same rows";
    const against = `against ${than}, on ${installation.kind}`;
    const { perS } = pgbench ?? measured.floor;
    return [
      benchLine({
        goal: "G2",
        name: `POST a deployment, ${connections} at once, ${against}`,
        floor: perS,
        ours: ours.perS,
        unit: "1/s",
        target: { ratioMin: 0.5 },
      }),
      benchLine({ ...fewRate("G2", few), name: `POST, ${fewConnections} at once, ${against}`, floor: perS }),
    ];
  } finally {
    await server.stop();
  }
}

interface Round {
  perS: number;
  p99Ms: number;
}

/** `few`: our API with few connections. */
type Parties<T> = { pgbench: T | undefined; floor: T; ours: T; few: T };

/** Runs all in turns, several times, so that a disturbance of the machine hits all of them. The first turn warms up. */
async function measureRounds(rounds: number, parties: Parties<() => Promise<Round>>): Promise<Parties<Round>> {
  const measured = { pgbench: [] as Round[], floor: [] as Round[], ours: [] as Round[], few: [] as Round[] };
  for (let round = 0; round <= rounds; round += 1) {
    for (const name of ["pgbench", "floor", "ours", "few"] as const) {
      const result = await parties[name]?.();
      if (round > 0 && result !== undefined) measured[name].push(result);
    }
  }
  const middle = (all: Round[]) => ({
    perS: median(all.map(({ perS }) => perS)),
    p99Ms: median(all.map(({ p99Ms }) => p99Ms)),
  });
  return {
    pgbench: parties.pgbench && middle(measured.pgbench),
    floor: middle(measured.floor),
    ours: middle(measured.ours),
    few: middle(measured.few),
  };
}

async function loadRound(
  port: number,
  {
    request,
    seconds,
    count = connections,
  }: { request: string | (() => string); seconds: number; count: number | undefined },
): Promise<Round> {
  const load = await runLoad({ port, request, connections: count, durationMs: seconds * 1_000 });
  if (load.failed > 0) throw new Error(`${load.failed} of ${load.requests} requests failed`);
  return { perS: load.requestsPerS, p99Ms: percentile(load.latenciesMs, 99) };
}

function pgbenchOf({ databaseUrl }: Installation, statement: Statement, seconds: number) {
  if (databaseUrl === undefined) return undefined;
  const pgbench = findPgbench();
  if (pgbench === undefined) {
    process.stderr.write("SKIPPED pgbench: it is not installed\n");
    return undefined;
  }
  const script = pgbenchScript(statement);
  return async (): Promise<Round> => {
    const extent = { durationS: seconds };
    const perS = await runPgbench(pgbench, databaseUrl, { script, clients: pgbenchClients, extent });
    return { perS, p99Ms: Number.NaN };
  };
}
