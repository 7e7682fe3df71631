import { availableParallelism } from "node:os";
import path from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { parseArgs } from "node:util";
import { filesToRun } from "./support/commit-part.ts";
import { postgresSkipped, startPostgresServer } from "./support/postgres-server.ts";

/**
 * Runs the given test files, each in a process of its own, and ends with the line `N passed, N failed`. `--only PATTERN` runs
 * the tests whose names match, `--without PATTERN` the others. The slowest files are listed before the last line. `--part-of N` runs one of
 * N parts of the files, which the commit chooses.
 *
 * A file that hangs is killed after `--timeout-minutes`, 10 by default. The slowest file takes about 2, so this limit measures
 * nothing.
 *
 * With `CI` in the environment, files that failed run once more when all others have ended. A test that passed in one of the two
 * runs is printed as `FLAKY` and counts as passed: a machine that two suites share must not decide whether a commit is good.
 */
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string" },
    without: { type: "string" },
    "part-of": { type: "string", default: "1" },
    "timeout-minutes": { type: "string", default: "10" },
  },
});

const files = filesToRun(["--part-of", values["part-of"], ...positionals], []);

/** More failing files than this are no accident of the machine. */
const retriedFilesMax = 5;

interface Outcome {
  passed: number;
  skipped: number;
  /** Failed tests, each as `FILE: NAME`. */
  failures: string[];
  /** Tests that passed, in the same form. */
  passes: Set<string>;
  /** Paths of the files with failed tests. */
  failedFiles: Set<string>;
  durations: { name: string; ms: number }[];
}

// All files share one PostgreSQL (support/database.ts). A file that runs alone starts its own.
const isNeeded = values.without === undefined && process.env["PIERHEAD_TEST_DATABASE_URL"] === undefined;
const server = isNeeded ? await startPostgresServer() : undefined;
process.env["PIERHEAD_TEST_DATABASE_URL"] ??= server?.url ?? "none";
if (isNeeded && server === undefined) console.log(postgresSkipped);

// Each file and each program it starts loads much of the project. The cache saves an eighth of the processor time of a run.
process.env["NODE_COMPILE_CACHE"] ??= path.resolve("node_modules/.cache/compiled");

// A file waits about as long as it works: on two cores, three files at a time took 154 s and two took 177 s.
const first = await runFiles(files, Math.max(3, Math.floor(availableParallelism() / 2)));
const again = [...first.failedFiles];
const isRetried = process.env["CI"] !== undefined && again.length > 0 && again.length <= retriedFilesMax;
const second = isRetried ? await runFiles(again, 1) : undefined;
await server?.stop();

const slowest = first.durations.sort((a, b) => b.ms - a.ms).slice(0, 8);
if (first.durations.length > 8)
  console.log(`slowest: ${slowest.map(({ name, ms }) => `${name} ${Math.round(ms / 1_000)} s`).join(", ")}`);
// A test that did not run again, because its file ended before it, is not cured. A file that ended early is, if it ran to its end.
const isCured = (failure: string) => {
  if (second === undefined) return false;
  const file = again.find((one) => failure.endsWith(`: ${one}`));
  if (file === undefined) return second.passes.has(failure);
  return !second.failures.includes(failure) && [...second.passes].some((one) => one.startsWith(`${file}: `));
};
const endedEarly = (second?.failures ?? []).filter((one) => again.some((file) => one.endsWith(`: ${file}`)));
const failures = [...new Set([...first.failures.filter((one) => !isCured(one)), ...endedEarly])];
const flaky = new Set([...first.failures, ...(second?.failures ?? [])].filter((one) => !failures.includes(one)));
for (const failure of flaky) console.log(`FLAKY ${failure}`);
for (const failure of failures) console.log(`FAILED ${failure}`);
const passed = first.passed + first.failures.filter((one) => flaky.has(one)).length;
const { skipped } = first;
console.log(`${passed} passed, ${failures.length} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exitCode = failures.length > 0 || passed === 0 ? 1 : 0;

function runFiles(chosen: string[], concurrency: number): Promise<Outcome> {
  const outcome: Outcome = {
    passed: 0,
    skipped: 0,
    failures: [],
    passes: new Set(),
    failedFiles: new Set(),
    durations: [],
  };
  const stream = run({
    ...{ files: chosen, concurrency, timeout: Number(values["timeout-minutes"]) * 60_000 },
    ...(values.only !== undefined && { testNamePatterns: [new RegExp(values.only)] }),
    ...(values.without !== undefined && { testSkipPatterns: [new RegExp(values.without)] }),
  });
  stream.on("test:pass", (event) => {
    if (event.details.type === "suite") return;
    if (chosen.some((file) => event.name.endsWith(file))) return;
    if (event.skip !== undefined) outcome.skipped += 1;
    else {
      outcome.passed += 1;
      outcome.passes.add(`${event.file ?? ""}: ${event.name}`);
    }
  });
  stream.on("test:fail", (event) => {
    if (event.details.type === "suite") return;
    // A file that ends before its tests do is reported under its own path.
    const file = event.file ?? chosen.find((one) => event.name.endsWith(one));
    outcome.failures.push(`${file ?? ""}: ${event.name}`);
    if (file !== undefined) outcome.failedFiles.add(file);
  });
  stream.on("test:summary", ({ file, duration_ms }) => {
    if (file !== undefined) outcome.durations.push({ name: path.relative(process.cwd(), file), ms: duration_ms });
  });
  stream.compose(new spec()).pipe(process.stdout);
  return new Promise((resolve) => stream.once("end", () => setImmediate(() => resolve(outcome))));
}
