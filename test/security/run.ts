import { spawn } from "node:child_process";
import { globSync } from "node:fs";
import path from "node:path";
import { filesToRun } from "../support/commit-part.ts";
import { findChromium, installPackages } from "../support/own-packages.ts";

/**
 * `npm run test:security [-- FILES] [--part-of N]`: attacks running servers as an outsider, a tenant and an agent would. Each test is named by
 * what must not happen. Pages of agents are opened in Chromium, and builds run on a container engine that is started for them.
 * Without a browser or an engine, the runner prints what is missing and skips those files.
 */
const all = filesToRun(process.argv.slice(2), globSync("test/security/*.test.ts").sort());
const containers = all.filter((file) => path.basename(file).startsWith("docker-"));
const browser = all.filter((file) => path.basename(file).startsWith("browser-"));
const plain = all.filter((file) => !containers.includes(file) && !browser.includes(file));

const counts = { passed: 0, failed: 0, skipped: 0 };
await runFiles("test/run.ts", plain, { PIERHEAD_TEST_DATABASE_URL: "none" });
if (browser.length > 0) {
  const chromium = findChromium();
  const missing =
    chromium === undefined ? "chromium (Debian: apt-get install chromium)" : installPackages("test/console");
  if (missing !== undefined) console.log(`SKIPPED security in a browser: ${missing}`);
  else {
    if ((await exitOf(["console/build.mjs", "dist/console"])) !== 0) counts.failed += 1;
    await runFiles("test/run.ts", browser, {
      PIERHEAD_TEST_CHROMIUM: chromium ?? "",
      PIERHEAD_TEST_DATABASE_URL: "none",
    });
  }
}
await runFiles("test/docker/suite.ts", containers, {});

const skipped = counts.skipped > 0 ? `, ${counts.skipped} skipped` : "";
console.log(`${counts.passed} passed, ${counts.failed} failed${skipped}`);
process.exitCode = counts.failed > 0 || counts.passed === 0 ? 1 : 0;

/** Runs files with a runner that ends with `N passed, N failed`, and adds its counts. */
async function runFiles(runner: string, files: string[], env: Record<string, string>): Promise<void> {
  if (files.length === 0) return;
  let output = "";
  const exitCode = await exitOf([runner, ...files], env, (text) => {
    output += text;
  });
  const ended = /^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$/m.exec(output);
  counts.passed += Number(ended?.[1] ?? 0);
  counts.skipped += Number(ended?.[3] ?? 0);
  const failed = Number(ended?.[2] ?? 0);
  const isSkipped = /^SKIPPED /m.test(output);
  counts.failed += exitCode !== 0 && failed === 0 && !isSkipped ? 1 : failed;
}

function exitOf(argv: string[], env: Record<string, string> = {}, onText?: (text: string) => void): Promise<number> {
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, argv, {
      stdio: ["ignore", onText === undefined ? "inherit" : "pipe", "inherit"],
      env: { ...process.env, ...env },
    });
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      process.stdout.write(text);
      onText?.(text);
    });
    child.on("error", reject);
    child.on("close", (code) => resolve(code ?? 1));
  });
}
