import { spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { buildKubeplane } from "../kubeplane/build.ts";
import { findHelm } from "../kubeplane/helm.ts";
import { filesToRun } from "../support/commit-part.ts";
import { buildkitMissing, compileBuildkit } from "./buildkit.ts";
import { compilePolicyEngine, policyEngineMissing } from "./policy-engine.ts";
import { nodeMissing } from "./real-node.ts";

/**
 * `npm run test:cluster [-- FILES] [--part-of N]`: runs deployments on a real node, with a kubelet and containerd. `--part-of N` runs
 * one of N parts, which the commit chooses, so that all files are run in turn. The programs that it compiles are kept.
 */
/** Files that take long are far apart, so that no part gets two of them. */
const all = [
  "updates",
  "databases",
  "builds",
  "failures",
  "gateway",
  "chart-registry",
  "move",
  "first-revisions",
  "policies",
  "programs",
  "install",
].map((name) => `test/cluster/${name}.test.ts`);
const buildkitUsers = ["builds", "chart-registry", "install"];

const files = filesToRun(process.argv.slice(2), all);
console.log(files.join(" "));
const usesBuildkit = files.some((file) => buildkitUsers.includes(path.basename(file, ".test.ts")));
const usesPolicies = files.some((file) => file.endsWith("/policies.test.ts"));
const missing = nodeMissing() ?? (usesBuildkit ? buildkitMissing : null) ?? (usesPolicies ? policyEngineMissing : null);
const built = missing === null ? await buildKubeplane({ withNode: true }) : { missing };
if ("missing" in built) console.log(`SKIPPED cluster: ${built.missing}`);
else {
  // Outside the time limit of a file.
  if (usesBuildkit) await compileBuildkit();
  if (usesPolicies) await compilePolicyEngine();
  const env = { ...process.env, PIERHEAD_TEST_KUBEPLANE: built.path, PIERHEAD_TEST_HELM: (await findHelm()) ?? "" };
  let [passed, failed] = [0, 0];
  // One after the other, because a machine has room for one node.
  for (const file of files) {
    const beganAtMs = performance.now();
    const tests = spawn(process.execPath, ["test/run.ts", "--timeout-minutes", "12", file], {
      stdio: ["inherit", "pipe", "inherit"],
      env,
    });
    let output = "";
    tests.stdout.on("data", (chunk: Buffer) => {
      process.stdout.write(chunk);
      output = (output + chunk.toString()).slice(-1_000);
    });
    const [exitCode] = await once(tests, "close");
    const [, passedHere, failedHere] = /^(\d+) passed, (\d+) failed/m.exec(output) ?? [];
    passed += Number(passedHere ?? 0);
    failed += Math.max(Number(failedHere ?? 0), exitCode === 0 ? 0 : 1);
    console.log(`${file}: ${Math.round((performance.now() - beganAtMs) / 1_000)} s`);
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exitCode = failed === 0 && passed > 0 ? 0 : 1;
}
