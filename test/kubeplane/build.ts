import { existsSync } from "node:fs";
import { buildGoProgram } from "../support/go-program.ts";

/** As in go.mod; the API server reports this version. */
const kubernetesVersion = "1.34.10";

/**
 * Builds the control plane as one program from the modules of Kubernetes, cached in `~/.cache` by the digest of its
 * sources. The first build takes 8 to 10 minutes of CPU and 3 GB of disk, which Go's own cache uses, too.
 * @param withNode also the kubelet and kube-proxy, which take some minutes more
 * @returns its path, or the reason why there is none
 */
export async function buildKubeplane({ withNode = false } = {}): Promise<{ path: string } | { missing: string }> {
  const given = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (given !== undefined) return existsSync(given) ? { path: given } : { missing: `no program ${given}` };
  const [major, minor] = kubernetesVersion.split(".");
  const names = { gitVersion: `v${kubernetesVersion}`, gitMajor: major, gitMinor: minor };
  const flags = Object.entries(names).map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`);
  return buildGoProgram({
    name: withNode ? "kubenode" : "kubeplane",
    directory: import.meta.dirname,
    version: kubernetesVersion,
    sources: ["main.go", "go.mod", "go.sum", ...(withNode ? ["node_parts.go"] : [])],
    args: [...(withNode ? ["-tags", "node"] : []), "-ldflags", ["-s -w", ...flags].join(" "), "."],
  });
}

// `node test/kubeplane/build.ts`: for CI, which builds in the background while other suites run.
if (process.argv[1] === import.meta.filename) {
  const beganAt = Date.now();
  const built = await buildKubeplane();
  console.log("missing" in built ? built.missing : `${built.path} in ${Math.round((Date.now() - beganAt) / 1_000)} s`);
  process.exitCode = "missing" in built ? 1 : 0;
}
