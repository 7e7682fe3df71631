import { type ChildProcess, spawn } from "node:child_process";
import { generateKeyPairSync, randomBytes } from "node:crypto";
import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiServer, type KubeAddress } from "../../src/compute/kubernetes/api/api-server.ts";
import type { Manifest } from "../../src/compute/kubernetes/api/manifest.ts";
import { freePort } from "../support/free-port.ts";

/** Groups of the users whose tokens the API server knows. */
const users = { admin: "system:masters", listener: "", node: "system:nodes" } as const;

/** A real Kubernetes control plane on loopback: etcd, API server, controllers, scheduler. No kubelet. */
export interface Plane extends AsyncDisposable {
  /** Address and token of a user. */
  address(user: keyof typeof users): KubeAddress;
  admin: ApiServer;
  directory: string;
  caFile: string;
  tokenFile(user: keyof typeof users): string;
  /** Certificate of the fake kubelet, which the API server does not verify. */
  tls: { cert: string; key: string };
  newNamespace(): Promise<string>;
  /** Compacts etcd: it forgets all previous versions. */
  compact(): Promise<void>;
  /** Suspends or resumes the controllers. While suspended, Deployments and other objects are not processed. */
  freezeControllers(isFrozen: boolean): void;
  /** Kills the API server with SIGKILL and starts it again on the same data after `downMs`. */
  restartApiServer(downMs: number): Promise<void>;
}

export async function startPlane(program: string): Promise<Plane> {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-plane-"));
  const ports = { etcd: await freePort(), peer: await freePort(), api: await freePort() };
  const at = (name: string) => path.join(directory, name);
  const children = new Map<string, ChildProcess>();
  const start = (part: string, flags: string[]) => {
    const child = spawn(program, [part, ...flags], { stdio: ["ignore", "pipe", "pipe"], cwd: directory });
    const log = createWriteStream(at(`${part}.log`), { flags: "a" });
    child.stdout?.pipe(log);
    child.stderr?.pipe(log);
    children.set(part, child);
  };
  const tokens = await writeCredentials(at);
  const url = `https://127.0.0.1:${ports.api}`;
  start("etcd", etcdFlags(at, ports));
  const startApiServer = () => start("kube-apiserver", apiServerFlags(at, ports));
  startApiServer();
  const caFile = at("certs/apiserver.crt");
  const ca = await readWhenThere(caFile);
  const address = (user: keyof typeof users): KubeAddress => ({ url, ca, token: async () => tokens[user] });
  const admin = new ApiServer(address("admin"));
  await waitUntilReady(admin, () => readFile(at("kube-apiserver.log"), "utf8"));
  await writeFile(at("kubeconfig"), JSON.stringify(kubeconfig(url, ca, tokens.admin)));
  start("kube-controller-manager", controllerFlags(at));
  start("kube-scheduler", [`--kubeconfig=${at("kubeconfig")}`, "--leader-elect=false", "--secure-port=0"]);
  return {
    address,
    admin,
    directory,
    caFile,
    tokenFile: (user) => at(`token-${user}`),
    tls: { cert: ca, key: await readFile(at("certs/apiserver.key"), "utf8") },
    async newNamespace() {
      const name = `t-${randomBytes(5).toString("hex")}`;
      const body = { apiVersion: "v1", kind: "Namespace", metadata: { name } };
      await admin.call({ method: "POST", path: "/api/v1/namespaces", body, signal: AbortSignal.timeout(30_000) });
      return name;
    },
    async compact() {
      const ask = async (path: string, body: object) => {
        const answer = await fetch(`http://127.0.0.1:${ports.etcd}/v3/${path}`, {
          method: "POST",
          body: JSON.stringify(body),
          signal: AbortSignal.timeout(30_000),
        });
        if (!answer.ok) throw new Error(`etcd answered ${answer.status}: ${await answer.text()}`);
        return answer.json();
      };
      const { header } = (await ask("maintenance/status", {})) as { header: { revision: string } };
      await ask("kv/compaction", { revision: header.revision, physical: true });
    },
    freezeControllers(isFrozen) {
      children.get("kube-controller-manager")?.kill(isFrozen ? "SIGSTOP" : "SIGCONT");
    },
    async restartApiServer(downMs) {
      const child = children.get("kube-apiserver") as ChildProcess;
      child.kill("SIGKILL");
      await once(child, "exit");
      await sleep(downMs);
      startApiServer();
      await waitUntilReady(admin, () => readFile(at("kube-apiserver.log"), "utf8"));
    },
    async [Symbol.asyncDispose]() {
      admin.close();
      for (const part of ["kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"]) {
        const child = children.get(part);
        if (child === undefined || child.exitCode !== null || child.signalCode !== null) continue;
        child.kill("SIGKILL");
        await once(child, "exit");
      }
      await rm(directory, { recursive: true, force: true });
    },
  };
}

type At = (name: string) => string;

async function writeCredentials(at: At): Promise<Record<keyof typeof users, string>> {
  const { privateKey, publicKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
  await writeFile(at("sa.key"), privateKey.export({ type: "pkcs8", format: "pem" }));
  await writeFile(at("sa.pub"), publicKey.export({ type: "spki", format: "pem" }));
  const tokens = { admin: newToken(), listener: newToken(), node: newToken() };
  const lines = Object.entries(tokens).map(
    ([user, token]) => `${token},${userName(user)},${user},"${users[user as keyof typeof users]}"`,
  );
  await writeFile(at("tokens.csv"), lines.join("\n"));
  for (const [user, token] of Object.entries(tokens)) await writeFile(at(`token-${user}`), token);
  return tokens;
}

const newToken = () => randomBytes(16).toString("hex");
const userName = (user: string) => (user === "node" ? "system:node:node-1" : user);

const etcdFlags = (at: At, { etcd, peer }: { etcd: number; peer: number }) => [
  `--data-dir=${at("etcd")}`,
  "--unsafe-no-fsync",
  `--listen-client-urls=http://127.0.0.1:${etcd}`,
  `--advertise-client-urls=http://127.0.0.1:${etcd}`,
  `--listen-peer-urls=http://127.0.0.1:${peer}`,
  `--initial-advertise-peer-urls=http://127.0.0.1:${peer}`,
  `--initial-cluster=default=http://127.0.0.1:${peer}`,
  "--log-level=warn",
];

const apiServerFlags = (at: At, { etcd, api }: { etcd: number; api: number }) => [
  `--etcd-servers=http://127.0.0.1:${etcd}`,
  "--bind-address=127.0.0.1",
  "--advertise-address=127.0.0.1",
  `--secure-port=${api}`,
  `--cert-dir=${at("certs")}`,
  `--token-auth-file=${at("tokens.csv")}`,
  "--authorization-mode=Node,RBAC",
  `--service-account-key-file=${at("sa.pub")}`,
  `--service-account-signing-key-file=${at("sa.key")}`,
  "--service-account-issuer=https://kubernetes.default.svc",
  "--service-cluster-ip-range=10.96.0.0/16",
  "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
  "--kubelet-preferred-address-types=InternalIP",
  "--profiling=false",
];

const controllerFlags = (at: At) => [
  `--kubeconfig=${at("kubeconfig")}`,
  `--service-account-private-key-file=${at("sa.key")}`,
  `--root-ca-file=${at("certs/apiserver.crt")}`,
  "--use-service-account-credentials",
  "--leader-elect=false",
  "--secure-port=0",
  "--controllers=*,-node-ipam-controller,-cloud-node-lifecycle-controller,-node-route-controller,-service-lb-controller",
];

const kubeconfig = (server: string, ca: string, token: string) => ({
  apiVersion: "v1",
  kind: "Config",
  clusters: [{ name: "plane", cluster: { server, "certificate-authority-data": Buffer.from(ca).toString("base64") } }],
  users: [{ name: "admin", user: { token } }],
  contexts: [{ name: "plane", context: { cluster: "plane", user: "admin" } }],
  "current-context": "plane",
});

async function readWhenThere(file: string): Promise<string> {
  for (let tries = 0; tries < 600; tries++) {
    const text = await readFile(file, "utf8").catch(() => "");
    if (text.includes("END CERTIFICATE")) return text;
    await sleep(100);
  }
  throw new Error(`${file} was never written`);
}

async function waitUntilReady(admin: ApiServer, log: () => Promise<string>): Promise<void> {
  const end = Date.now() + 120_000;
  for (;;) {
    try {
      // Ready includes that its own roles exist.
      const answer = await admin.open({ method: "GET", path: "/readyz", signal: AbortSignal.timeout(5_000) });
      answer.resume();
      return;
    } catch (error) {
      if (Date.now() > end)
        throw new Error(`the API server is not ready: ${(error as Error).message}\n${(await log()).slice(-2_000)}`);
      await sleep(100);
    }
  }
}

/** Creates objects that a test needs. */
export async function make(api: ApiServer, path: string, body: object): Promise<Manifest> {
  return api.call({ method: "POST", path, body, signal: AbortSignal.timeout(30_000) });
}
