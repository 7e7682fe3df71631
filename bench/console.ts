import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import path from "node:path";
import { text } from "node:stream/consumers";
import { type Sql, sql } from "../src/store/engine/sql.ts";
import { findChromium, installPackages } from "../test/support/own-packages.ts";
import { toBeEnded } from "./endings.ts";
import { fillDeployments } from "./fill.ts";
import type { BenchRun, Installation } from "./installation.ts";
import { type BenchLine, benchLine, median, percentile } from "./line.ts";

export interface ConsolePlan {
  /** Loads of the list, each first in a new browser profile and then again. */
  loads: number;
  /** Lines that the log page shows before it is scrolled through. */
  shownLines: number;
  scrollMs: number;
  /** Times that each interaction is repeated. */
  interactions: number;
}

/** What `test/console/measure.ts` prints. Times are milliseconds of the browser's clock. */
export interface ConsoleFigures {
  firstVisitMs: number[];
  usableMs: number[];
  /** The requests of that page alone, one after the other, from the same browser. */
  requestsMs: number[];
  firstViewBytes: number;
  shownLines: number;
  frameMs: number[];
  plainFrameMs: number[];
  paintMs: number[];
  plainPaintMs: number[];
}

const deployments = 10_000;
const logLines = { small: 50_000, full: 1_000_000 };
const plans: Record<BenchRun["size"], ConsolePlan> = {
  small: { loads: 3, shownLines: 3_000, scrollMs: 2_000, interactions: 1 },
  full: { loads: 10, shownLines: 50_000, scrollMs: 10_000, interactions: 5 },
};

/** Measures the console in a real browser: the list, the log explorer, the first view and interactions. G16. */
export async function consoleBench(run: BenchRun): Promise<BenchLine[]> {
  const directory = path.resolve("test/console");
  const chromium = findChromium();
  const missing =
    chromium === undefined
      ? "chromium is not installed (Debian: apt-get install chromium)"
      : existsSync("dist/console/index.html")
        ? installPackages(directory)
        : "dist/console is not there (npm run build)";
  if (chromium === undefined || missing !== undefined) {
    process.stderr.write(`SKIPPED console: ${missing}\n`);
    return [];
  }
  const kind = run.kinds[0] ?? "embedded";
  await using installation = await run.install(kind);
  await fill(installation, logLines[run.size]);
  const server = await installation.start("server", { PIERHEAD_COMPUTE: "none" });
  const figures = await measure({ chromium, directory, url: server.url, key: installation.adminKey }, plans[run.size]);
  await server.stop();
  return linesOf(figures, { kind, lines: logLines[run.size] });
}

async function fill(installation: Installation, lines: number): Promise<void> {
  const { db, close } = await installation.open();
  try {
    await fillDeployments(db, installation, deployments);
    for (let from = 1; from <= lines; from += batchLines) {
      await db.query(insertedLines(installation.workspaceId, from, Math.min(lines, from + batchLines - 1)));
    }
    await db.query(sql`analyze`);
  } finally {
    await close();
  }
}

/** Lines of one statement, because statements have a time limit. */
const batchLines = 20_000;

/** Lines of the newest 200 deployments: ten a second, of all levels, every fifth one a JSON object. */
function insertedLines(workspaceId: string, from: number, to: number): Sql {
  return sql`
    with d as (select id, latest_revision_id as revision_id, row_number() over (order by created_at desc) - 1 as place
                 from deployments where tenant_id = ${workspaceId} order by created_at desc limit 200)
    insert into log_entries (tenant_id, deployment_id, revision_id, kind, replica_id, stream, level, logged_at, message)
    select ${workspaceId}::uuid, d.id, d.revision_id, 'deploy', 'replica-' || n % 3, 'stdout',
           case when n % 50 = 0 then 40 when n % 20 = 0 then 30 else 20 end, now() - n * interval '100 milliseconds',
           case when n % 5 = 0 then '{"msg":"run finished","run_id":"' || md5(n::text)::uuid || '","run_exec_ms":' || n % 5000 || '}'
                else 'INFO Background run succeeded [langgraph_runtime.worker] run_exec_ms=' || n % 5000 end
      from generate_series(${sql.literal(from)}, ${sql.literal(to)}) n join d on d.place = n % 200`;
}

/** Runs the browser in a program of its own, because its packages are those of `test/console`. */
async function measure(
  at: { chromium: string; directory: string; url: string; key: string },
  plan: ConsolePlan,
): Promise<ConsoleFigures> {
  const child = spawn(process.execPath, [path.join(at.directory, "measure.ts"), at.url, JSON.stringify(plan)], {
    env: { ...process.env, PIERHEAD_TEST_CHROMIUM: at.chromium, PIERHEAD_API_KEY: at.key },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const stop = toBeEnded(async () => {
    child.kill();
    await ended;
  });
  const printed = await text(child.stdout);
  await stop();
  if (child.exitCode !== 0) throw new Error(`the browser's measurements ended with exit code ${child.exitCode}`);
  return JSON.parse(printed) as ConsoleFigures;
}

function linesOf(figures: ConsoleFigures, { kind, lines }: { kind: string; lines: number }): BenchLine[] {
  const goal = "G16";
  const floor = median(figures.requestsMs);
  const usable = { goal, floor, unit: "ms", target: { oursMax: 1_000 } } as const;
  return [
    benchLine({
      ...usable,
      name: `list of ${deployments} deployments usable, first visit, on ${kind}, against its requests alone`,
      ours: median(figures.firstVisitMs),
    }),
    benchLine({ ...usable, name: "the same, with scripts and styles in the cache", ours: median(figures.usableMs) }),
    benchLine({
      ...{ goal, name: "scripts and styles of the first view, gzipped", floor: null, unit: "kB" },
      ...{ ours: figures.firstViewBytes / 1_024, target: { oursMax: 250 } },
    }),
    benchLine({
      goal,
      name: `log explorer over ${lines} lines, ${figures.shownLines} shown: longest frame while scrolling, against plain text`,
      floor: Math.max(...figures.plainFrameMs),
      ours: Math.max(...figures.frameMs),
      unit: "ms",
      target: { oursMax: 50 },
    }),
    benchLine({
      goal,
      name: `interaction to next paint, p95 of ${figures.paintMs.length}, against a button that changes a text`,
      floor: percentile(figures.plainPaintMs, 95),
      ours: percentile(figures.paintMs, 95),
      unit: "ms",
      target: { oursMax: 100 },
    }),
  ];
}
