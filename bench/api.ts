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

const rounds = 3;
const connections = 16;
const pgbenchClients = 8;
/** pgbench counts in whole seconds. */
const roundS = { small: { load: 0.5, pgbench: 1 }, full: { load: 3, pgbench: 3 } };

/** What HTTP, keys, tenants, rules and serialising add to the SQL of one read and one create: G1 and G2. */
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
      ...(await readLines(installation, { settings, floor, seconds: roundS[run.size] })),
      await createLine(installation, { settings, floor, seconds: roundS[run.size] }),
    ];
  } finally {
    floor.child.disconnect();
    await once(floor.child, "exit");
  }
}

interface Settings extends FloorSettings {
  deploymentId: string;
}

/** One deployment to read, and for the embedded database a copy of everything: it has one opener. */
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
  seconds: { load: number; pgbench: number };
}

async function readLines(installation: Installation, { settings, floor, seconds }: Against): Promise<BenchLine[]> {
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "none" });
  try {
    const request = httpRequest("GET", `/v2/deployments/${settings.deploymentId}`, installation.adminKey);
    const pgbench = pgbenchOf(installation, settings.read, seconds.pgbench);
    const measured = await measureRounds({
      pgbench,
      floor: () => loadRound(floor.port, request, seconds.load),
      ours: () => loadRound(server.port, request, seconds.load),
    });
    const on = `on ${installation.kind}`;
    const ours = measured.ours.perS;
    const rate = { goal: "G1", ours, unit: "1/s" };
    const lines = [
      benchLine({
        ...rate,
        name: `GET a deployment against node:http + pg, ${on}`,
        floor: measured.floor.perS,
        target: { ratioMin: 0.5 },
      }),
      benchLine({
        goal: "G1",
        name: `p99 of that GET at full load, ${on}`,
        floor: measured.floor.p99Ms,
        ours: measured.ours.p99Ms,
        unit: "ms",
        target: { oursMax: 25 },
      }),
    ];
    if (measured.pgbench === undefined) return lines;
    const name = `GET a deployment against pgbench with the same SQL, ${on}`;
    return [benchLine({ ...rate, name, floor: measured.pgbench.perS, target: { ratioMin: 0.25 } }), ...lines];
  } finally {
    await server.stop();
  }
}

/** The API alone, as where reconcilers run elsewhere: what follows a create is measured by the other benches. */
async function createLine(installation: Installation, { settings, floor, seconds }: Against): Promise<BenchLine> {
  const server = await installation.start("api");
  try {
    const request = () =>
      httpRequest("POST", "/v2/deployments", installation.adminKey, createBody(`bench-${randomUUID()}`));
    const {
      pgbench,
      floor: bare,
      ours,
    } = await measureRounds({
      pgbench: pgbenchOf(installation, settings.create, seconds.pgbench),
      floor: () => loadRound(floor.port, request, seconds.load),
      ours: () => loadRound(server.port, request, seconds.load),
    });
    const than = pgbench === undefined ? "node:http + pg" : "pgbench writing the same rows";
    return benchLine({
      goal: "G2",
      name: `POST a deployment against ${than}, on ${installation.kind}`,
      floor: (pgbench ?? bare).perS,
      ours: ours.perS,
      unit: "1/s",
      target: { ratioMin: 0.5 },
    });
  } finally {
    await server.stop();
  }
}

interface Round {
  perS: number;
  p99Ms: number;
}

type Parties<T> = { pgbench: T | undefined; floor: T; ours: T };

/** All in turn, several times: what disturbs the machine disturbs all of them. The first turn warms up. */
async function measureRounds(parties: Parties<() => Promise<Round>>): Promise<Parties<Round>> {
  const measured = { pgbench: [] as Round[], floor: [] as Round[], ours: [] as Round[] };
  for (let round = 0; round <= rounds; round += 1) {
    for (const name of ["pgbench", "floor", "ours"] as const) {
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
  };
}

async function loadRound(port: number, request: string | (() => string), seconds: number): Promise<Round> {
  const load = await runLoad({ port, request, connections, durationMs: seconds * 1_000 });
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
