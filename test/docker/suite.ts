import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { Engine } from "../../src/compute/docker/engine/engine.ts";
import { filesToRun } from "../support/commit-part.ts";
import { importNodeImage } from "./base-image.ts";
import { missingForDockerd, startDockerd } from "./dockerd.ts";

/**
 * `npm run test:docker [-- FILES] [--part-of N]`: runs the tests that need a container engine, on one that is started for them, or on
 * the one in PIERHEAD_TEST_DOCKER_HOST.
 */
const given = process.env["PIERHEAD_TEST_DOCKER_HOST"];
const missing = given === undefined ? missingForDockerd() : null;
if (missing === null) await runAll();
else console.log(`SKIPPED docker: ${missing}`);

async function runAll(): Promise<void> {
  const dockerd = given === undefined ? await startDockerd() : undefined;
  try {
    const host = dockerd?.host ?? (given as string);
    const engine = await new Engine(host).open();
    await importNodeImage(engine);
    engine.close();
    const files = filesToRun(process.argv.slice(2), globSync("test/docker/*.test.ts").sort());
    const env = { ...process.env, PIERHEAD_TEST_DOCKER_HOST: host };
    const tests = spawn(process.execPath, ["test/run.ts", ...files], { stdio: "inherit", env });
    const [exitCode] = await once(tests, "exit");
    process.exitCode = exitCode ?? 1;
  } finally {
    await dockerd?.stop();
  }
}
