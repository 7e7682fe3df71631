import { execFile } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Threads of pgbench: one per core of the smallest supported machine. Its clients mostly wait for the server. */
const threads = 2;

/** @returns pgbench of the newest installed PostgreSQL or from the PATH; undefined when it is missing. */
export function findPgbench(): string | undefined {
  const packaged = "/usr/lib/postgresql";
  const versions = existsSync(packaged) ? readdirSync(packaged).sort((a, b) => Number(b) - Number(a)) : [];
  const places = [
    ...versions.map((version) => path.join(packaged, version, "bin")),
    ...(process.env["PATH"] ?? "").split(path.delimiter),
  ];
  return places.map((place) => path.join(place, "pgbench")).find((file) => existsSync(file));
}

type Extent = { durationS: number } | { runsPerClient: number };

/**
 * Runs a SQL script as prepared statements, as fast as PostgreSQL answers.
 * @param extent run time, or number of runs per client.
 * @returns runs of the script per second, without connection time.
 */
export async function runPgbench(
  pgbench: string,
  databaseUrl: string,
  options: { script: string; clients: number; extent: Extent; variables?: Record<string, number> },
): Promise<number> {
  const { script, clients, extent, variables = {} } = options;
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-pgbench-"));
  try {
    const file = path.join(directory, "script.sql");
    await writeFile(file, script);
    const length = "durationS" in extent ? ["-T", `${extent.durationS}`] : ["-t", `${extent.runsPerClient}`];
    const mode = ["--no-vacuum", "--protocol=prepared", `--client=${clients}`, `--jobs=${threads}`];
    const set = Object.entries(variables).map(([name, value]) => `--define=${name}=${value}`);
    const { stdout } = await run(pgbench, [...mode, ...length, ...set, `--file=${file}`, databaseUrl]);
    const found = /tps = ([\d.]+)/.exec(stdout);
    if (found === null || /number of failed transactions: [1-9]/.test(stdout)) throw new Error(stdout);
    return Number(found[1]);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}
