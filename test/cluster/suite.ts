import { spawn } from "node:child_process";
import { once } from "node:events";
import { buildKubeplane } from "../kubeplane/build.ts";
import { nodeMissing } from "./real-node.ts";

/** `npm run test:cluster`: runs deployments on a real node, with a kubelet and containerd. By hand; not part of `.ci/run`. */
const missing = nodeMissing();
const built = missing === null ? await buildKubeplane({ withNode: true }) : { missing };
if ("missing" in built) console.log(`SKIPPED cluster: ${built.missing}`);
else {
  const env = { ...process.env, PIERHEAD_TEST_KUBEPLANE: built.path };
  const tests = spawn(process.execPath, ["test/run.ts", "test/cluster/cluster.test.ts"], { stdio: "inherit", env });
  const [exitCode] = await once(tests, "exit");
  process.exitCode = exitCode ?? 1;
}
