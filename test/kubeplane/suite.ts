import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync } from "node:fs";
import { filesToRun } from "../support/commit-part.ts";
import { buildKubeplane } from "./build.ts";
import { findHelm } from "./helm.ts";

/**
 * `npm run test:kubernetes [-- FILES] [--part-of N]`: runs the tests that need a Kubernetes control plane, which is built from its modules
 * when needed, or which PIERHEAD_TEST_KUBEPLANE names.
 */
const built = await buildKubeplane();
if ("missing" in built) console.log(`SKIPPED kubernetes: ${built.missing}`);
else {
  const files = filesToRun(process.argv.slice(2), globSync("test/kubeplane/*.test.ts").sort());
  const helm = await findHelm();
  const env = {
    ...process.env,
    PIERHEAD_TEST_KUBEPLANE: built.path,
    ...(helm !== null && { PIERHEAD_TEST_HELM: helm }),
  };
  const tests = spawn(process.execPath, ["test/run.ts", ...files], { stdio: "inherit", env });
  const [exitCode] = await once(tests, "exit");
  process.exitCode = exitCode ?? 1;
}
