import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, readFile, rename } from "node:fs/promises";
import { homedir } from "node:os";
import path from "node:path";

/** As in go.mod; the API server reports this version. */
const kubernetesVersion = "1.34.10";

const here = import.meta.dirname;

/**
 * Builds the control plane as one program from the modules of Kubernetes, cached in `~/.cache` by the digest of its
 * sources. The first build takes 8 to 10 minutes of CPU and 3 GB of disk, which Go's own cache uses, too.
 * @param withNode also the kubelet and kube-proxy, which take some minutes more
 * @returns its path, or the reason why there is none
 */
export async function buildKubeplane({ withNode = false } = {}): Promise<{ path: string } | { missing: string }> {
  const given = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (given !== undefined) return existsSync(given) ? { path: given } : { missing: `no program ${given}` };
  const target = path.join(
    homedir(),
    ".cache",
    "pierhead-test",
    `kube${withNode ? "node" : "plane"}-${await digest(withNode)}`,
  );
  if (existsSync(target)) return { path: target };
  await mkdir(path.dirname(target), { recursive: true });
  const made = `${target}.${process.pid}`;
  const [major, minor] = kubernetesVersion.split(".");
  const names = { gitVersion: `v${kubernetesVersion}`, gitMajor: major, gitMinor: minor };
  const flags = Object.entries(names).map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`);
  // Low priority: everything else on this machine comes first.
  const go = spawn(
    "nice",
    [
      "-n",
      "19",
      "go",
      "build",
      ...(withNode ? ["-tags", "node"] : []),
      "-trimpath",
      "-ldflags",
      ["-s -w", ...flags].join(" "),
      "-o",
      made,
      ".",
    ],
    {
      cwd: here,
      env: { ...process.env, CGO_ENABLED: "0" },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  let output = "";
  go.stderr.on("data", (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-4_000);
  });
  const failed = once(go, "error").then(([error]) => (error as Error).message);
  const ended = once(go, "close").then(([code]) => (code === 0 ? null : `go build ended with ${code}: ${output}`));
  const failure = await Promise.race([failed, ended]);
  if (failure !== null) return { missing: `the control plane cannot be built: ${failure}` };
  await rename(made, target);
  return { path: target };
}

async function digest(withNode: boolean): Promise<string> {
  const hash = createHash("sha256").update(kubernetesVersion);
  const sources = ["main.go", "go.mod", "go.sum", ...(withNode ? ["node_parts.go"] : [])];
  for (const name of sources) hash.update(await readFile(path.join(here, name)));
  return hash.digest("hex").slice(0, 16);
}

// `node test/kubeplane/build.ts`: for CI, which builds in the background while other suites run.
if (process.argv[1] === import.meta.filename) {
  const beganAt = Date.now();
  const built = await buildKubeplane();
  console.log("missing" in built ? built.missing : `${built.path} in ${Math.round((Date.now() - beganAt) / 1_000)} s`);
  process.exitCode = "missing" in built ? 1 : 0;
}
