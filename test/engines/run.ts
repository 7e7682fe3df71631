import { spawnSync } from "node:child_process";
import { globSync } from "node:fs";
import path from "node:path";
import { redisSkipped } from "../provision/redis-server.ts";
import { filesToRun } from "../support/commit-part.ts";
import { installPackages } from "../support/own-packages.ts";
import { findBinaries, postgresSkipped } from "../support/postgres-server.ts";

/**
 * npm run test:engine [-- FILES] [--part-of N]: the engines on a real PostgreSQL, with the JavaScript SDK. The packages are those of the lock file of the
 * engine for LangGraph.js. Aegra also needs Redis and Python 3.12.
 */
const packageDir = path.resolve(import.meta.dirname, "../../engines/langgraph-js-postgres");
if (findBinaries() === undefined) console.log(postgresSkipped);
else {
  const missing = installPackages(packageDir);
  if (missing !== undefined) console.log(`SKIPPED engine: ${missing}`);
  else process.exitCode = typesAreRight() ? runTests() : 1;
}

/** The type check of the repository leaves the engine out, because its packages need not be installed. */
function typesAreRight(): boolean {
  const compiler = path.join(packageDir, "node_modules/typescript/bin/tsc");
  return spawnSync(process.execPath, [compiler, "-p", packageDir, "--noEmit"], { stdio: "inherit" }).status === 0;
}

function runTests(): number {
  const isSkipped = (file: string) => redisSkipped !== undefined && path.basename(file) === "aegra.test.ts";
  if (redisSkipped !== undefined) console.log(`SKIPPED aegra: ${redisSkipped}`);
  const files = filesToRun(process.argv.slice(2), globSync("test/engines/*.test.ts").sort());
  const env = { ...process.env, PIERHEAD_TEST_DATABASE_URL: "none" };
  return (
    spawnSync(process.execPath, ["test/run.ts", ...files.filter((file) => !isSkipped(file))], { stdio: "inherit", env })
      .status ?? 1
  );
}
