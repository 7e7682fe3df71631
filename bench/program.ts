import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import type { BenchRun, DatabaseKind } from "./installation.ts";
import { type BenchLine, benchLine, median } from "./line.ts";
import { settledLines } from "./settled.ts";
import { program, rssMbOf, startUp, type Up } from "./up.ts";

const samples = { small: 3, full: 20 };
const starts = { small: 1, full: 3 };

/** By then the server has returned most of the memory that its start used. */
const restMs = { small: 1_000, full: 15_000 };

/** Measures the installed program: commands, start, memory, and what a browser loads. G9, G14, G15, G16. */
export async function programBench(run: BenchRun): Promise<BenchLine[]> {
  if (!existsSync(program)) {
    process.stderr.write("SKIPPED program: dist/main.js is not there (npm run build)\n");
    return [];
  }
  const lines: BenchLine[] = [];
  for (const kind of run.kinds.toReversed()) lines.push(...(await startLines(run, kind)));
  return [...lines, ...(await settledLines(run))];
}

async function startLines(run: BenchRun, kind: DatabaseKind): Promise<BenchLine[]> {
  const taken: { readyMs: number; rssMb: number }[] = [];
  const commands: BenchLine[] = [];
  for (let round = 0; round < starts[run.size]; round += 1) {
    await using database = kind === "embedded" ? null : await run.install(kind);
    const up = await startUp(
      database === null ? {} : { DATABASE_URL: database.databaseUrl as string, PIERHEAD_DATA_DIR: database.dataDir },
    );
    await sleep(restMs[run.size]);
    taken.push({ readyMs: up.readyMs, rssMb: rssMbOf(up.child) });
    if (kind === "embedded" && round === 0) commands.push(...(await commandLines(run, up)), await scriptLine(up.url));
    await up.stop();
  }
  const bare = spawn(process.execPath, ["--input-type=module", "-e", bareServer], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(bare, "exit");
  await once(bare.stdout, "data");
  const floor = rssMbOf(bare);
  bare.kill();
  await ended;
  return [
    ...commands,
    ...(kind === "embedded" ? [readyLine(taken.map(({ readyMs }) => readyMs))] : []),
    benchLine({
      goal: "G9",
      name: `memory of a control plane without deployments against node:http + pg that serve nothing, on ${kind}`,
      floor,
      ours: median(taken.map(({ rssMb }) => rssMb)),
      unit: "MB",
      target: { oursMax: kind === "embedded" ? 450 : 150 },
    }),
  ];
}

const readyLine = (readyMs: number[]) =>
  benchLine({
    goal: "G15",
    name: "up in an empty directory to ready",
    floor: null,
    ours: median(readyMs) / 1_000,
    unit: "s",
    target: { oursMax: 5 },
  });

const bareServer = `
import { createServer } from "node:http";
import pg from "pg";
createServer((request, response) => response.end()).listen(0, "127.0.0.1", () => console.log(typeof pg.Pool));`;

async function commandLines({ size }: BenchRun, { url, key }: Up): Promise<BenchLine[]> {
  const environment = { PIERHEAD_URL: url, PIERHEAD_API_KEY: key };
  const taken = { nothing: [] as Ran[], help: [] as Ran[], list: [] as Ran[] };
  for (let round = -1; round < samples[size]; round += 1) {
    const nothing = await runOnce(["-e", "0"], {});
    const help = await runOnce([program, "--help"], environment);
    const list = await runOnce([program, "list", "--json"], environment);
    if (round < 0) continue;
    taken.nothing.push(nothing);
    taken.help.push(help);
    taken.list.push(list);
  }
  const floor = median(taken.nothing.map(({ endMs }) => endMs));
  return [["pierhead --help", taken.help] as const, ["pierhead list", taken.list] as const].flatMap(([name, ran]) => [
    benchLine({
      goal: "G14",
      name: `${name} against node -e 0, to its end`,
      floor,
      ours: median(ran.map(({ endMs }) => endMs)),
      unit: "ms",
      target: { ratioMax: 2.5 },
    }),
    benchLine({
      goal: "G14",
      name: `${name}, first output`,
      floor,
      ours: median(ran.map(({ firstMs }) => firstMs)),
      unit: "ms",
      target: { oursMax: 100 },
    }),
  ]);
}

export interface Ran {
  firstMs: number;
  endMs: number;
}

export async function runOnce(args: string[], environment: Record<string, string>): Promise<Ran> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, args, {
    env: { ...process.env, ...environment },
    stdio: ["ignore", "pipe", "ignore"],
  });
  let firstMs = Number.NaN;
  child.stdout.once("data", () => {
    firstMs = performance.now() - startedAt;
  });
  child.stdout.resume();
  const [exitCode] = await once(child, "close");
  if (exitCode !== 0) throw new Error(`node ${args.join(" ")} ended with exit code ${exitCode}`);
  return { firstMs, endMs: performance.now() - startedAt };
}

/** Counts the scripts that the list page names. A browser measures what it loads later (test/console/scale.test.ts). */
async function scriptLine(url: string): Promise<BenchLine> {
  const page = await fetch(`${url}/host/deployments`).then((answer) => answer.text());
  const scripts = [...page.matchAll(/(?:src|href)="([^"]+\.js)"/g)].map(([, file]) => new URL(file as string, url));
  let bytes = 0;
  for (const script of scripts) bytes += gzipSync(await fetch(script).then((answer) => answer.arrayBuffer())).length;
  if (bytes === 0) throw new Error("the console has no scripts");
  const name = "scripts of the console's first page, gzipped";
  return benchLine({ goal: "G16", name, floor: null, ours: bytes / 1_024, unit: "kB", target: { oursMax: 300 } });
}
