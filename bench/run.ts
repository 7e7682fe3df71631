import { inspect, parseArgs } from "node:util";
import { partOfCommit } from "../test/support/commit-part.ts";
import { apiBench } from "./api.ts";
import { backupBench } from "./backup.ts";
import { bodiesBench } from "./bodies.ts";
import { buildsBench } from "./builds.ts";
import { consoleBench } from "./console.ts";
import { deployBench } from "./deploy.ts";
import { dockerBench } from "./docker.ts";
import { endAll, Interrupted, interruption, useOwnDirectory } from "./endings.ts";
import { enginesBench } from "./engines.ts";
import { gatewayBench } from "./gateway.ts";
import { type BenchRun, startBenchRun } from "./installation.ts";
import { isolationBench } from "./isolation.ts";
import { type BenchLine, printLine } from "./line.ts";
import { listenersBench } from "./listeners.ts";
import { logsBench } from "./logs.ts";
import { programBench } from "./program.ts";
import { reconcileBench } from "./reconcile.ts";
import { saveResults, tableOf } from "./report.ts";
import { storeBench } from "./store.ts";
import { tuningBench } from "./tuning.ts";
import { watchBench } from "./watch.ts";

/**
 * `npm run bench -- [NAME...] [--size small|full] [--part-of N] [--json] [--save]`: runs the named benches, or all; with
 * `--part-of N` one of N parts, which the commit chooses, so that all parts run in turn. The table goes to
 * stdout; with `--json` to stderr, and one JSON object a line to stdout. `--save` writes it into `bench/results.md`.
 * `PIERHEAD_TEST_DATABASE_URL` names a PostgreSQL to use instead of starting one.
 */
const benches: Record<string, (run: BenchRun) => Promise<BenchLine[]>> = {
  api: apiBench,
  backup: backupBench,
  bodies: bodiesBench,
  builds: buildsBench,
  console: consoleBench,
  deploy: deployBench,
  docker: dockerBench,
  engines: enginesBench,
  gateway: gatewayBench,
  isolation: isolationBench,
  listeners: listenersBench,
  logs: logsBench,
  program: programBench,
  reconcile: reconcileBench,
  store: storeBench,
  tuning: tuningBench,
  watch: watchBench,
};

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    json: { type: "boolean", default: false },
    save: { type: "boolean", default: false },
    size: { type: "string", default: "full" },
    "part-of": { type: "string", default: "1" },
  },
});
const { size } = options;
const unknown = positionals.find((name) => !(name in benches));
if (unknown !== undefined) fail(`There is no bench '${unknown}'; there are ${Object.keys(benches).join(", ")}.`);
const parts = Number(options["part-of"]);
if (!Number.isInteger(parts) || parts < 1) fail(`--part-of is a number from 1 on, not '${options["part-of"]}'.`);
if (size !== "small" && size !== "full") fail(`--size is small or full, not '${size}'.`);

let exitCode = 0;
try {
  await Promise.race([interruption(), runBenches()]);
} catch (error) {
  exitCode = error instanceof Interrupted ? 130 : 1;
  process.stderr.write(`${error instanceof Interrupted ? error.message : inspect(error)}\n`);
} finally {
  await endAll();
}
process.exit(exitCode);

async function runBenches(): Promise<void> {
  await useOwnDirectory();
  await using run = await startBenchRun(size as BenchRun["size"], process.env["PIERHEAD_TEST_DATABASE_URL"]);
  if (!run.kinds.includes("postgres")) process.stderr.write("SKIPPED postgres: it is not installed\n");
  const part = partOfCommit(parts);
  const names = positionals.length > 0 ? positionals : Object.keys(benches);
  if (parts > 1) process.stderr.write(`This commit runs part ${part + 1} of ${parts}. Without --part-of, all run.\n`);
  for (const name of names.filter((_, index) => index % parts === part)) {
    const lines = (await benches[name]?.(run)) ?? [];
    if (options.json) for (const line of lines) printLine(line);
    (options.json ? process.stderr : process.stdout).write(`${name}\n${tableOf(lines)}\n`);
    if (options.save) await saveResults(name, lines, { size: run.size, database: run.database });
  }
}

function fail(message: string): never {
  process.stderr.write(`${message}\n`);
  process.exit(2);
}
