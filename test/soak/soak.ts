import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, readlink, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import pg from "pg";
import { type Client, createClient } from "../../src/client/client.ts";
import { type ServerProcess, startServerProcess } from "../storm/server-process.ts";
import { startPostgresServer } from "../support/postgres-server.ts";

/**
 * npm run soak [-- --minutes 20] [--per-minute 20] [--postgres]: runs one server under steady deploys, updates, rollbacks, reads
 * and deletes of simulated replicas. Samples memory, open files and the database all the time. A figure that grows from
 * the third quarter to the last would grow for days. One day is `-- --minutes 1440`. Ends with the line `N passed, N failed`.
 */
const { values: options } = parseArgs({
  options: {
    minutes: { type: "string", default: "20" },
    "per-minute": { type: "string", default: "20" },
    postgres: { type: "boolean", default: false },
  },
});
const minutes = Number(options.minutes);
const pauseMs = 60_000 / Number(options["per-minute"]);

/** Deployments alive at a time. Each new one replaces the oldest. */
const aliveMax = 50;
const samplesWanted = 60;

interface Sample {
  atMs: number;
  rssMib: number;
  /** Without those of the embedded database, which keeps about 220 table files open once it has read them. */
  openFiles: number;
  /** Size of the tables without the write-ahead log, which is bounded. */
  databaseMib: number;
  /** Size of the embedded database's log; 0 for PostgreSQL, which bounds its own. */
  walMib: number;
}

/** Upkeep checks once a minute and writes a checkpoint after 64 MiB. Until then log files are kept for reuse. */
const walMibMax = 200;

/**
 * How much the lowest value of the last quarter may exceed that of the quarter before, as a share. The lowest of
 * many, because memory that waits for collection is not growth. The database keeps about 50 kB per deploy (revisions, events,
 * audit, log lines), which housekeeping deletes after days.
 */
const growthMax = { rssMib: 0.05, openFiles: 0.05, databaseMib: 0.25 } as const;

const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-soak-"));
const postgres = options.postgres ? await startPostgresServer() : undefined;
if (options.postgres && postgres === undefined) {
  console.log("SKIPPED soak: PostgreSQL is not installed");
  process.exit(0);
}
const server = await startServerProcess(dataDir, {
  PORT: "0",
  PIERHEAD_COMPUTE: "simulated",
  PIERHEAD_RATE_LIMIT: "0",
  ...(postgres !== undefined && { DATABASE_URL: postgres.url }),
});
if (server === undefined) throw new Error("the server did not start");
try {
  process.exitCode = report(await soak(server)) ? 0 : 1;
} finally {
  await server.stop();
  await postgres?.stop();
  await rm(dataDir, { recursive: true, force: true });
}

async function soak({ url, apiKey, child }: ServerProcess): Promise<Sample[]> {
  const client = createClient({ baseUrl: url, apiKey });
  const beganAt = performance.now();
  const endMs = minutes * 60_000;
  const alive: string[] = [];
  const samples: Sample[] = [];
  for (let round = 0; performance.now() - beganAt < endMs; round += 1) {
    const dueMs = round * pauseMs;
    await sleep(Math.max(0, dueMs - (performance.now() - beganAt)));
    alive.push(await live(client));
    if (alive.length > aliveMax) await client.deleteDeployment({ deployment_id: alive.shift() as string });
    const atMs = performance.now() - beganAt;
    if (atMs < (samples.length * endMs) / samplesWanted) continue;
    samples.push({ atMs, ...(await look(child.pid as number)) });
    const { rssMib, openFiles, databaseMib, walMib } = samples.at(-1) as Sample;
    console.log(
      `${(atMs / 60_000).toFixed(1)} min, ${round + 1} deploys: ${rssMib} MiB, ${openFiles} files, database ${databaseMib} MiB, its log ${walMib} MiB`,
    );
  }
  return samples;
}

/** A deploy, an update, a rollback, and the reads of a person. */
async function live(client: Client): Promise<string> {
  const image = (tag: number) => ({ image_uri: `registry.example/team/agent:${tag}` });
  const made = await client.createDeployment({
    body: {
      name: `soak-${randomUUID()}`,
      source: "internal_docker",
      source_config: { deployment_type: "dev" },
      source_revision_config: image(1),
      secrets: [{ name: "SOAK", value: randomUUID() }],
    },
  });
  const ids = { deployment_id: made.id };
  const settled = (revision_id: string | null) =>
    client.waitForRevision({ ...ids, revision_id: revision_id as string });
  await settled(made.latest_revision_id);
  const changed = await client.patchDeployment({ ...ids, body: { source_revision_config: image(2) } });
  await settled(changed.latest_revision_id);
  const back = await client.redeployRevision({ ...ids, revision_id: made.latest_revision_id as string });
  await settled(back.latest_revision_id);
  await client.listDeployments({ limit: 20, name_contains: "soak" });
  await client.listRevisions(ids);
  await client.getDeploymentLogs({ ...ids, type: "deploy" });
  return made.id;
}

async function look(pid: number): Promise<Omit<Sample, "atMs">> {
  const status = await readFile(`/proc/${pid}/status`, "utf8");
  const rssKib = Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1]);
  const mibOf = (bytes: number) => Math.round(bytes / 2 ** 20);
  const directory = path.join(dataDir, "database");
  const walBytes = postgres === undefined ? await sizeOf(path.join(directory, "pg_wal")) : 0;
  return {
    rssMib: Math.round(rssKib / 1024),
    openFiles: await countOpen(pid, directory),
    databaseMib: mibOf(postgres === undefined ? (await sizeOf(directory)) - walBytes : await askSize(postgres.url)),
    walMib: mibOf(walBytes),
  };
}

/** Counts the descriptors of a process, including sockets and pipes, except files in this directory. */
async function countOpen(pid: number, directory: string): Promise<number> {
  const names = await readdir(`/proc/${pid}/fd`);
  // A descriptor that was just closed has no target.
  const targets = await Promise.all(names.map((name) => readlink(`/proc/${pid}/fd/${name}`).catch(() => directory)));
  return targets.filter((target) => !target.startsWith(directory)).length;
}

async function askSize(url: string): Promise<number> {
  const database = new pg.Client({ connectionString: url });
  await database.connect();
  const { rows } = await database
    .query("select pg_database_size(current_database())::float8 as bytes")
    .finally(() => database.end());
  return rows[0].bytes;
}

async function sizeOf(directory: string): Promise<number> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true });
  let bytes = 0;
  for (const entry of entries) {
    if (!entry.isFile()) continue;
    bytes += (await stat(path.join(entry.parentPath, entry.name)).catch(() => undefined))?.size ?? 0;
  }
  return bytes;
}

function lowest(samples: Sample[], quarter: number, read: (sample: Sample) => number): number {
  const size = samples.length / 4;
  return Math.min(...samples.slice(Math.floor(quarter * size), Math.floor((quarter + 1) * size)).map(read));
}

function report(samples: Sample[]): boolean {
  let failed = 0;
  for (const [name, most] of Object.entries(growthMax) as [keyof typeof growthMax, number][]) {
    const [before, last] = [2, 3].map((quarter) => lowest(samples, quarter, (sample) => sample[name])) as [
      number,
      number,
    ];
    const holds = last <= before * (1 + most);
    if (!holds) failed += 1;
    console.log(`${holds ? "ok    " : "FAILED"} ${name}: ${before} in the third quarter, ${last} in the last`);
  }
  const walMib = Math.max(...samples.map((sample) => sample.walMib));
  if (walMib > walMibMax) failed += 1;
  console.log(`${walMib > walMibMax ? "FAILED" : "ok    "} walMib: ${walMib} at most, ${walMibMax} allowed`);
  console.log(`${4 - failed} passed, ${failed} failed`);
  return failed === 0;
}
