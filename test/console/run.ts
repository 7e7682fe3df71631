import { spawnSync } from "node:child_process";
import path from "node:path";
import { filesToRun } from "../support/commit-part.ts";
import { findChromium, installPackages } from "../support/own-packages.ts";

/**
 * npm run test:console [-- FILES] [--part-of N]: tests the console in a real browser, on a real server with real agents, and prints its figures (G16).
 * `--screenshots DIRECTORY` takes the pictures of docs/guides/console.md instead. Without a browser or its packages the runner
 * prints what is missing and skips the suite.
 */
const here = import.meta.dirname;
const chromium = findChromium();
const missing = chromium === undefined ? "chromium (Debian: apt-get install chromium)" : installPackages(here);
if (missing !== undefined) console.log(`SKIPPED console: ${missing}`);
else {
  runOrExit(["console/build.mjs", "dist/console"]);
  runOrExit(["node_modules/typescript/bin/tsc", "-p", here, "--pretty", "false"]);
  const at = process.argv.indexOf("--screenshots");
  const names =
    at < 0
      ? [
          "environment",
          "audit",
          "replica-limits",
          "list",
          "trial",
          "alerts",
          "log-search",
          "approvals",
          "flows",
          "parts",
          "concurrent-use",
          "chat",
          "agent-auth",
          "integrations",
          "listeners",
          "everyday",
          "security",
          "pages",
          "layout",
          "scale",
        ]
      : ["screenshots"];
  const all = names.map((name) => path.join(here, `${name}.test.ts`));
  const files = at < 0 ? filesToRun(process.argv.slice(2), all) : all;
  const pictures = at < 0 ? {} : { PIERHEAD_TEST_SCREENSHOTS: path.resolve(process.argv[at + 1] ?? "screenshots") };
  const env = { ...process.env, ...pictures, PIERHEAD_TEST_CHROMIUM: chromium, PIERHEAD_TEST_DATABASE_URL: "none" };
  process.exitCode = spawnSync(process.execPath, ["test/run.ts", ...files], { stdio: "inherit", env }).status ?? 1;
}

function runOrExit(argv: string[]): void {
  const { status } = spawnSync(process.execPath, argv, { stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}
