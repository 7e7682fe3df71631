import { availableParallelism } from "node:os";
import path from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { parseArgs } from "node:util";
import { postgresSkipped, startPostgresServer } from "./support/postgres-server.ts";

/**
 * Runs the given test files, each in a process of its own, and ends with the line `N passed, N failed`. `--only PATTERN` runs
 * the tests whose names match, `--without PATTERN` the others. The slowest files are listed before the last line.
 *
 * A file that hangs is killed after `--timeout-minutes`, 10 by default. The slowest file takes about 2, so this limit measures
 * nothing.
 */
const { values, positionals: files } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string" },
    without: { type: "string" },
    "timeout-minutes": { type: "string", default: "10" },
  },
});
const counts = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];
const durations: { name: string; ms: number }[] = [];

// All files share one PostgreSQL (support/database.ts). A file that runs alone starts its own.
const isNeeded = values.without === undefined && process.env["PIERHEAD_TEST_DATABASE_URL"] === undefined;
const server = isNeeded ? await startPostgresServer() : undefined;
process.env["PIERHEAD_TEST_DATABASE_URL"] ??= server?.url ?? "none";
if (isNeeded && server === undefined) console.log(postgresSkipped);

// Each file and each program it starts loads much of the project. The cache saves an eighth of the processor time of a run.
process.env["NODE_COMPILE_CACHE"] ??= path.resolve("node_modules/.cache/compiled");

// A file waits about as long as it works: on two cores, three files at a time took 154 s and two took 177 s.
const concurrency = Math.max(3, Math.floor(availableParallelism() / 2));
const stream = run({
  ...{ files, concurrency, timeout: Number(values["timeout-minutes"]) * 60_000 },
  ...(values.only !== undefined && { testNamePatterns: [new RegExp(values.only)] }),
  ...(values.without !== undefined && { testSkipPatterns: [new RegExp(values.without)] }),
});
stream.on("test:pass", (event) => {
  if (event.details.type === "suite") return;
  if (files.some((file) => event.name.endsWith(file))) return;
  if (event.skip !== undefined) counts.skipped += 1;
  else counts.passed += 1;
});
stream.on("test:fail", (event) => {
  if (event.details.type === "suite") return;
  counts.failed += 1;
  failures.push(`${event.file ?? ""}: ${event.name}`);
});
stream.on("test:summary", ({ file, duration_ms }) => {
  if (file !== undefined) durations.push({ name: path.relative(process.cwd(), file), ms: duration_ms });
});
stream.compose(new spec()).pipe(process.stdout);
stream.on("end", () => {
  process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
  setImmediate(async () => {
    await server?.stop();
    const slowest = durations.sort((a, b) => b.ms - a.ms).slice(0, 8);
    if (durations.length > 8)
      console.log(`slowest: ${slowest.map(({ name, ms }) => `${name} ${Math.round(ms / 1_000)} s`).join(", ")}`);
    for (const failure of failures) console.log(`FAILED ${failure}`);
    console.log(
      `${counts.passed} passed, ${counts.failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}`,
    );
  });
});
