import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createWriteStream, existsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, rmdir, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Plane } from "../kubeplane/plane.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startClusterDns } from "./cluster-dns.ts";
import { ImageMaker, imagesMissing, pushPause } from "./images.ts";
import { policyEngineFlags, removePolicies } from "./policy-engine.ts";

/** Address of the node and of its DNS, on the loopback interface only. */
export const address = "10.99.0.1";
const nodeName = "node-1";
const bridge = "pierhead-kube0";
const pluginDirectory = "/usr/lib/cni";

/** Programs that a real node needs and this machine lacks; null: none is missing. */
export function nodeMissing(): string | null {
  if (process.getuid?.() !== 0) return "root";
  const files = ["/usr/bin/containerd", "/usr/sbin/runc", "/usr/sbin/nft", "/usr/bin/docker-registry", "/usr/sbin/ip"];
  const missing = [...files, `${pluginDirectory}/bridge`, `${pluginDirectory}/host-local`].filter(
    (file) => !existsSync(file),
  );
  if (missing.length > 0) {
    const packages = "containerd runc nftables iproute2 docker-registry containernetworking-plugins";
    return `${missing.join(", ")} (apt-get install ${packages})`;
  }
  return imagesMissing;
}

export interface RealNode extends AsyncDisposable {
  images: ImageMaker;
  directory: string;
}

/** Lets containerd speak HTTP to a registry, which it does only for loopback names otherwise. */
export async function allowHttp({ directory }: Pick<RealNode, "directory">, registry: string): Promise<void> {
  const hosts = path.join(directory, "hosts", registry);
  await mkdir(hosts, { recursive: true });
  await writeFile(path.join(hosts, "hosts.toml"), `[host."http://${registry}"]\n`);
}

/**
 * A node with containerd, kubelet, kube-proxy, DNS and a registry, beside a control plane. Waits while another process of this machine
 * has one.
 * @param policyEngine program that enforces NetworkPolicies; null: nothing does
 */
export async function startRealNode(
  plane: Plane,
  program: string,
  policyEngine: string | null = null,
): Promise<RealNode> {
  const turn = await takeTurn();
  const directory = path.join(plane.directory, "node");
  const at = (name: string) => path.join(directory, name);
  for (const name of ["cni", "registry", "images", "kubelet", "run"]) await mkdir(at(name), { recursive: true });
  const children: ChildProcess[] = [];
  const start = (command: string, flags: string[], name = path.basename(command)) => {
    const child = spawn(command, flags, { stdio: ["ignore", "pipe", "pipe"], cwd: directory });
    const log = createWriteStream(at(`${name}.log`));
    child.stdout?.pipe(log);
    child.stderr?.pipe(log);
    children.push(child);
  };
  const socket = at("run/containerd.sock");
  const node: RealNode = {
    images: new ImageMaker(`${address}:${await freePort()}`, at("images")),
    directory,
    async [Symbol.asyncDispose]() {
      for (const child of children.toReversed().slice(0, -2)) await end(child);
      removeContainers(socket);
      for (const child of children) await end(child);
      if (policyEngine !== null) removePolicies();
      await removeTraces(directory);
      turn.close();
    },
  };
  try {
    execFileSync("ip", ["addr", "replace", `${address}/32`, "dev", "lo"]);
    forwardPods("-I");
    const registry = node.images.registry;
    await writeFile(at("registry.yml"), registryConfig(registry, at("registry")));
    start("docker-registry", ["serve", at("registry.yml")]);
    await eventually(
      () =>
        fetch(`http://${registry}/v2/`).then(
          (answer) => answer.ok,
          () => false,
        ),
      (isUp) => isUp,
      { timeoutMs: 30_000, what: "the registry" },
    );
    await allowHttp(node, registry);
    const pause = await pushPause(node.images);
    await writeFile(at("cni/10-bridge.conflist"), JSON.stringify(cniConfig(at("ipam"))));
    await writeFile(at("containerd.toml"), containerdConfig(at, pause));
    start("containerd", ["--config", at("containerd.toml")]);
    await eventually(
      () => existsSync(socket),
      (isUp) => isUp,
      { timeoutMs: 30_000, what: "containerd" },
    );
    await writeFile(at("kubelet.json"), JSON.stringify(kubeletConfig(at, socket)));
    await writeFile(at("proxy.json"), JSON.stringify(proxyConfig(path.join(plane.directory, "kubeconfig"))));
    const dns = await startClusterDns(plane.admin, address);
    const stop = node[Symbol.asyncDispose].bind(node);
    node[Symbol.asyncDispose] = () => dns[Symbol.asyncDispose]().then(stop);
    const kubeconfig = path.join(plane.directory, "kubeconfig");
    const flags = [`--config=${at("kubelet.json")}`, `--kubeconfig=${kubeconfig}`, `--hostname-override=${nodeName}`];
    start(program, ["kubelet", ...flags, `--node-ip=${address}`, `--root-dir=${at("kubelet")}`], "kubelet");
    start(program, ["kube-proxy", `--config=${at("proxy.json")}`], "kube-proxy");
    await eventually(
      () =>
        plane.admin.call<{ items: NodeView[] }>({
          method: "GET",
          path: "/api/v1/nodes",
          signal: AbortSignal.timeout(10_000),
        }),
      ({ items }) => items.some(isReady),
      { timeoutMs: 120_000, what: "a ready node" },
    );
    // It reads the addresses of its node once.
    if (policyEngine !== null) start(policyEngine, policyEngineFlags(kubeconfig, nodeName), "policies");
    return node;
  } catch (error) {
    for (const name of ["containerd", "kubelet", "kube-proxy"]) {
      const log = await readFile(at(`${name}.log`), "utf8").catch(() => "");
      console.error(`${name}: ${log.slice(-2_000)}`);
    }
    await node[Symbol.asyncDispose]();
    throw error;
  }
}

/**
 * Nodes of one machine share an address, a bridge and the rules of kube-proxy, and each removes them at its end. The abstract socket goes
 * away with its process, whatever ends it.
 */
async function takeTurn(): Promise<Server> {
  const listen = () =>
    new Promise<Server | null>((resolve) => {
      const server = createServer().unref();
      server.once("error", () => resolve(null)).listen("\0pierhead-test-node", () => resolve(server));
    });
  const server = await eventually(listen, (taken) => taken !== null, {
    ...{ timeoutMs: 600_000, what: "the end of another node on this machine" },
  });
  return server as Server;
}

interface NodeView {
  spec: { taints?: object[] };
  status: { conditions?: { type: string; status: string }[] };
}

const isReady = ({ spec, status }: NodeView) =>
  (spec.taints ?? []).length === 0 &&
  (status.conditions ?? []).some(({ type, status: holds }) => type === "Ready" && holds === "True");

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  child.kill("SIGTERM");
  const forced = setTimeout(() => child.kill("SIGKILL"), 5_000);
  await once(child, "exit");
  clearTimeout(forced);
}

/** Ends what containerd still runs: its shims outlive it. */
function removeContainers(socket: string): void {
  const ctr = (...args: string[]) => {
    try {
      return execFileSync("ctr", ["-a", socket, "-n", "k8s.io", ...args], {
        encoding: "utf8",
        stdio: ["ignore", "pipe", "ignore"],
      });
    } catch {
      return "";
    }
  };
  for (const id of ctr("tasks", "ls", "-q").split("\n").filter(Boolean)) ctr("tasks", "delete", "--force", id);
}

/**
 * Inserts (`-I`) or deletes (`-D`) rules that let pods of the bridge reach each other. A Docker daemon that ran before on this machine
 * leaves a policy behind that drops this traffic.
 */
function forwardPods(change: "-I" | "-D"): void {
  for (const direction of ["-i", "-o"]) run("iptables", change, "FORWARD", direction, bridge, "-j", "ACCEPT");
}

/** Runs a program whose failure does not matter: what it removes may be gone, or it is not installed. */
function run(command: string, ...args: string[]): void {
  try {
    execFileSync(command, args, { stdio: "ignore" });
  } catch {
    // See above.
  }
}

/** Removes mounts, addresses, rules, network namespaces and control groups that a node leaves behind. */
async function removeTraces(directory: string): Promise<void> {
  const mounts = (await readFile("/proc/mounts", "utf8")).split("\n").map((line) => line.split(" ")[1] ?? "");
  for (const mount of mounts.toReversed()) if (mount.startsWith(`${directory}/`)) run("umount", "-l", mount);
  run("nft", "delete", "table", "ip", "kube-proxy");
  run("nft", "delete", "table", "ip6", "kube-proxy");
  forwardPods("-D");
  run("ip", "link", "delete", bridge);
  run("ip", "addr", "delete", `${address}/32`, "dev", "lo");
  await removeGroups();
  await rm(directory, { recursive: true, force: true });
}

async function removeGroups(): Promise<void> {
  for (const controller of await readdir("/sys/fs/cgroup").catch(() => [])) {
    const root = `/sys/fs/cgroup/${controller}/kubepods`;
    if (!existsSync(root)) continue;
    const below = await readdir(root, { recursive: true, withFileTypes: true });
    const groups = below.filter((one) => one.isDirectory()).map((one) => path.join(one.parentPath, one.name));
    for (const group of [root, ...groups].toSorted((a, b) => b.length - a.length)) {
      await rmdir(group).catch(() => sleep(0));
    }
  }
}

const registryConfig = (registry: string, directory: string) =>
  JSON.stringify({
    version: "0.1",
    log: { level: "error" },
    storage: { filesystem: { rootdirectory: directory }, delete: { enabled: true } },
    http: { addr: registry },
  });

const cniConfig = (ipam: string) => ({
  cniVersion: "1.0.0",
  name: "kube",
  plugins: [
    {
      type: "bridge",
      bridge,
      isGateway: true,
      hairpinMode: true,
      ipam: {
        type: "host-local",
        dataDir: ipam,
        ranges: [[{ subnet: "10.244.0.0/24" }]],
        routes: [{ dst: "0.0.0.0/0" }],
      },
    },
  ],
});

/** The score for the killer of processes stays, because a container's root may not lower it. */
const containerdConfig = (at: (name: string) => string, pause: string) => `version = 2
root = "${at("containerd")}"
state = "${at("run/state")}"
[grpc]
  address = "${at("run/containerd.sock")}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "${pause}"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "${pluginDirectory}"
    conf_dir = "${at("cni")}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = "${at("hosts")}"
`;

const kubeletConfig = (at: (name: string) => string, socket: string) => ({
  apiVersion: "kubelet.config.k8s.io/v1beta1",
  kind: "KubeletConfiguration",
  address,
  port: 18504,
  healthzPort: 0,
  authentication: { anonymous: { enabled: true }, webhook: { enabled: false } },
  authorization: { mode: "AlwaysAllow" },
  cgroupDriver: "cgroupfs",
  failCgroupV1: false,
  failSwapOn: false,
  containerRuntimeEndpoint: `unix://${socket}`,
  clusterDNS: [address],
  clusterDomain: "cluster.local",
  resolvConf: "/etc/resolv.conf",
  podLogsDir: at("pod-logs"),
  volumePluginDir: at("volume-plugins"),
  imageGCHighThresholdPercent: 100,
  imageGCLowThresholdPercent: 99,
  evictionHard: { "memory.available": "100Mi" },
  makeIPTablesUtilChains: false,
});

/** Traffic between pods through a Service is masqueraded: on one bridge, answers would bypass the node. */
const proxyConfig = (kubeconfig: string) => ({
  apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
  kind: "KubeProxyConfiguration",
  bindAddress: "127.0.0.1",
  healthzBindAddress: "",
  metricsBindAddress: "",
  hostnameOverride: nodeName,
  mode: "nftables",
  nodePortAddresses: [`${address}/32`],
  nftables: { masqueradeAll: true },
  clusterCIDR: "10.244.0.0/16",
  conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
  clientConnection: { kubeconfig },
});
