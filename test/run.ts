import { availableParallelism } from "node:os";
import path from "node:path";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { postgresSkipped, startPostgresServer } from "./support/postgres-server.ts";

/**
 * Runs the given test files, each in a process of its own, and ends with the line `N passed, N failed`.
 * A file that hangs is killed: 10 minutes is far above the slowest one (about 2), so it measures nothing.
 */
const files = process.argv.slice(2);
const counts = { passed: 0, failed: 0, skipped: 0 };
const failures: string[] = [];

// One PostgreSQL for all files that want one (test/support/database.ts); alone, a file starts its own.
const isAsked = process.env["PIERHEAD_TEST_DATABASE_URL"] === undefined;
const server = isAsked ? await startPostgresServer() : undefined;
process.env["PIERHEAD_TEST_DATABASE_URL"] ??= server?.url ?? "none";
if (isAsked && server === undefined) console.log(postgresSkipped);

// Each file, and each program that it starts, loads much of the project: an eighth of all the processor a run takes.
process.env["NODE_COMPILE_CACHE"] ??= path.resolve("node_modules/.cache/compiled");

// A file waits as long as it works. On two cores three of them took 154 s where two took 177.
const concurrency = Math.max(3, Math.floor(availableParallelism() / 2));
const stream = run({ files, concurrency, timeout: 600_000 });
stream.on("test:pass", (event) => {
  if (event.details.type === "suite" || files.some((file) => event.name.endsWith(file))) return;
  if (event.skip !== undefined) counts.skipped += 1;
  else counts.passed += 1;
});
stream.on("test:fail", (event) => {
  if (event.details.type === "suite") return;
  counts.failed += 1;
  failures.push(`${event.file ?? ""}: ${event.name}`);
});
stream.compose(new spec()).pipe(process.stdout);
stream.on("end", () => {
  process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;
  setImmediate(async () => {
    await server?.stop();
    for (const failure of failures) console.log(`FAILED ${failure}`);
    console.log(
      `${counts.passed} passed, ${counts.failed} failed${counts.skipped > 0 ? `, ${counts.skipped} skipped` : ""}`,
    );
  });
});
