import { spawn } from "node:child_process";
import { once } from "node:events";
import { buildKubeplane } from "../kubeplane/build.ts";
import { findHelm } from "../kubeplane/helm.ts";
import { buildkitMissing } from "./buildkit.ts";
import { nodeMissing } from "./real-node.ts";

/** `npm run test:cluster`: runs deployments on a real node, with a kubelet and containerd. By hand; not part of `.ci/run`. */
const missing = nodeMissing() ?? buildkitMissing;
const built = missing === null ? await buildKubeplane({ withNode: true }) : { missing };
if ("missing" in built) console.log(`SKIPPED cluster: ${built.missing}`);
else {
  const env = { ...process.env, PIERHEAD_TEST_KUBEPLANE: built.path, PIERHEAD_TEST_HELM: (await findHelm()) ?? "" };
  // One after the other, because a machine has room for one node.
  for (const file of ["cluster", "gateway", "builds"].map((name) => `test/cluster/${name}.test.ts`)) {
    const tests = spawn(process.execPath, ["test/run.ts", file], { stdio: "inherit", env });
    const [exitCode] = await once(tests, "exit");
    if (exitCode !== 0) process.exitCode = exitCode ?? 1;
  }
}
