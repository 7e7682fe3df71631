import { randomUUID } from "node:crypto";
import { mkdtemp, readdir, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import pg from "pg";
import { type Client, createClient } from "../../src/client/client.ts";
import { startPostgresServer } from "../postgres-server.ts";
import { type ServerProcess, startServerProcess } from "../storm/server-process.ts";

/**
 * npm run soak [-- --minutes 20] [--per-minute 20] [--postgres]: one server under steady deploys, updates, rollbacks, reads
 * and deletes of simulated replicas. Memory, open files and the database are looked at all the time: what grows in the
 * second half is what would grow for days. A day: `-- --minutes 1440`. Ends with the line `N passed, N failed`.
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

/** So many live at a time; the oldest goes for each that comes. */
const aliveMax = 50;
const samplesWanted = 60;

interface Sample {
  atMs: number;
  rssMib: number;
  openFiles: number;
  databaseMib: number;
}

/**
 * Per thousand deploys, which is what a slope of a short soak can tell: at 20 a minute a day has 29 thousand. Each leaves
 * about 30 rows of events, revisions, audit and log behind, which housekeeping forgets after days.
 */
const growthMax = { rssMib: 10, openFiles: 2, databaseMib: 60 } as const;

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
    const { rssMib, openFiles, databaseMib } = samples.at(-1) as Sample;
    console.log(
      `${(atMs / 60_000).toFixed(1)} min, ${round + 1} deploys: ${rssMib} MiB, ${openFiles} files, database ${databaseMib} MiB`,
    );
  }
  return samples;
}

/** A deploy, an update, a rollback, and what a person would look at. */
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
  return {
    rssMib: Math.round(rssKib / 1024),
    openFiles: (await readdir(`/proc/${pid}/fd`)).length,
    databaseMib: Math.round(
      (await (postgres === undefined ? sizeOf(path.join(dataDir, "database")) : askSize(postgres.url))) / 2 ** 20,
    ),
  };
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

/** Per hour, by least squares over the second half. */
function slope(samples: Sample[], read: (sample: Sample) => number): number {
  const half = samples.slice(Math.floor(samples.length / 2));
  const mean = (of: (sample: Sample) => number) => half.reduce((sum, sample) => sum + of(sample), 0) / half.length;
  const [at, value] = [mean(({ atMs }) => atMs), mean(read)];
  const up = half.reduce((sum, sample) => sum + (sample.atMs - at) * (read(sample) - value), 0);
  const along = half.reduce((sum, sample) => sum + (sample.atMs - at) ** 2, 0);
  return (up / along) * 3_600_000;
}

function report(samples: Sample[]): boolean {
  const thousandsPerHour = 3_600_000 / pauseMs / 1_000;
  let failed = 0;
  for (const [name, most] of Object.entries(growthMax) as [keyof typeof growthMax, number][]) {
    const perThousand = slope(samples, (sample) => sample[name]) / thousandsPerHour;
    const holds = perThousand <= most;
    if (!holds) failed += 1;
    console.log(
      `${holds ? "ok    " : "FAILED"} ${name}: ${perThousand.toFixed(1)} more per 1,000 deploys, ${most} at most`,
    );
  }
  console.log(`${3 - failed} passed, ${failed} failed`);
  return failed === 0;
}
