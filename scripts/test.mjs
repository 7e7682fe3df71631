// npm test [-- FILES]: installs what is missing, checks types and style, builds, and runs the fast suite, which needs only
// Node and git. npm run test:api, test:e2e, test:faults and test:postgres run the other suites of scripts/suites.mjs.
// `--part-of N` runs one of N parts of the files, which the commit chooses.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { ensureInstalled, isBuildOld, node, root, runOrExit } from "./ensure.mjs";
import { filesOf, onPostgres, suites } from "./suites.mjs";

ensureInstalled();
if (process.execPath !== node && !process.versions.node.startsWith("24.")) {
  const again = spawnSync(node, ["scripts/test.mjs", ...process.argv.slice(2)], { cwd: root, stdio: "inherit" });
  process.exit(again.status ?? 1);
}
// Node 20, which may have started this, has no globSync.
const { globSync } = await import("node:fs");
const glob = (pattern) => globSync(pattern, { cwd: root, exclude: ["**/node_modules/**"] });

const named = process.argv[2] === "--suite" ? process.argv[3] : undefined;
const given = named === undefined ? process.argv.slice(2) : process.argv.slice(4);
const partAt = given.indexOf("--part-of");
const part = partAt < 0 ? [] : given.splice(partAt, 2);
const chosen = given;
const suite = named ?? "fast";
if (!suites.includes(suite)) {
  console.error(`There is no suite '${suite}'. Suites: ${suites.join(", ")}.`);
  process.exit(2);
}
if (chosen.length === 0 && suite === "fast") {
  runOrExit(node, ["scripts/check.mjs"]);
  runOrExit(node, ["scripts/build.mjs"]);
} else if (chosen.length === 0 && isBuildOld()) {
  runOrExit(node, ["scripts/build.mjs"]);
}
const files = chosen.length > 0 ? chosen.flatMap(glob).sort() : filesOf(suite, glob);
const usesPostgres = (file) => readFileSync(file, "utf8").includes("support/database.ts");
const options = chosen.length > 0 ? [] : optionsOf(suite);
const run = suite === "postgres" && chosen.length === 0 ? files.filter(usesPostgres) : files;
const ended = spawnSync(node, ["test/run.ts", ...options, ...part, ...run], { cwd: root, stdio: "inherit" });
process.exit(ended.status ?? 1);

/** `fast` and `api` run on the embedded database only. `postgres` runs the same tests on PostgreSQL. */
function optionsOf(name) {
  if (name === "postgres") return ["--only", onPostgres.source];
  return name === "fast" || name === "api" ? ["--without", onPostgres.source] : [];
}
