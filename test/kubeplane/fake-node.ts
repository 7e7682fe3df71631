import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import type { ApiServer } from "../../src/compute/kubernetes/api/api-server.ts";
import type { Plane } from "./plane.ts";

/**
 * A kubelet without containers: its pods run at once, or do what the name of their image says:
 * `.../pull-fails`, `crashes`, `never-ready`, `start-fails`, `out-of-memory`, `fills-disk` (runs for a moment, then it is evicted),
 * `needs-model-key` (crashes without MODEL_KEY in its Secret). It answers the API server's calls for logs.
 */
export interface FakeNode extends AsyncDisposable {
  name: string;
  /** Output of the container of a pod. Unless a test sets it, lines with `{pod}`. */
  logs: Map<string, string[]>;
  /** Makes the pods of an image crash that runs. */
  crash(image: string): void;
  /** Sets the number of cores. */
  resize(cpu: string): Promise<void>;
}

interface Pod {
  metadata: { name: string; namespace: string; uid: string; deletionTimestamp?: string; resourceVersion: string };
  spec: { nodeName?: string; containers: Container[]; initContainers?: Container[] };
  status: { phase?: string; startTime?: string };
}

interface Container {
  name: string;
  image: string;
  envFrom?: { secretRef?: { name: string } }[];
}

const nodeName = "node-1";

/** A pod that fills its disk is below its limit for so long. */
const belowLimitMs = 300;

/** @param podAddress address of every pod. Kubernetes sends no traffic to one of the loopback range. */
export async function startFakeNode(plane: Plane, podAddress = "127.0.0.1"): Promise<FakeNode> {
  const { admin } = plane;
  const stopping = new AbortController();
  const { signal } = stopping;
  const logs = new Map<string, string[]>();
  const crashing = new Set<string>();
  const server = createServer(plane.tls, (request, response) => {
    const [, kind, , pod = ""] = (request.url ?? "").split("?")[0]?.split("/") ?? [];
    if (kind !== "containerLogs") return void response.writeHead(404).end();
    const lines = logs.get(pod) ?? [`hello from ${pod}`];
    const query = new URL(request.url ?? "", "https://node").searchParams;
    const stamp = (index: number) => `2026-01-01T00:00:${String(index).padStart(2, "0")}.000000000Z `;
    const output = lines.map((line, index) => (query.get("timestamps") === "true" ? stamp(index) : "") + line);
    response.writeHead(200, { "content-type": "text/plain" }).end(`${output.join("\n")}\n`);
  });
  server.listen(0, "127.0.0.1");
  await new Promise((resolve) => server.once("listening", resolve));
  await register(admin, (server.address() as AddressInfo).port, signal);
  const seen = new Map<string, string>();
  const loop = (async () => {
    while (!signal.aborted) {
      await turn({ admin, seen, podAddress, crashing, logs, signal }).catch(() => {});
      await sleep(50, undefined, { signal }).catch(() => {});
    }
  })();
  const lease = (async () => {
    while (!signal.aborted) {
      await beat(admin, signal).catch(() => {});
      await sleep(5_000, undefined, { signal }).catch(() => {});
    }
  })();
  return {
    name: nodeName,
    logs,
    crash: (image) => void crashing.add(image),
    async resize(cpu) {
      const status = { capacity: { cpu }, allocatable: { cpu } };
      const path = `/api/v1/nodes/${nodeName}/status`;
      await admin.call({ method: "PATCH", path, body: { status }, type: "merge", signal });
    },
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await Promise.all([loop, lease]);
      server.closeAllConnections();
      server.close();
    },
  };
}

async function register(admin: ApiServer, port: number, signal: AbortSignal): Promise<void> {
  const body = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: nodeName, labels: { "kubernetes.io/hostname": nodeName } },
  };
  await admin.call({ method: "POST", path: "/api/v1/nodes", body, signal });
  const capacity = { cpu: "64", memory: "256Gi", pods: "500" };
  const status = {
    capacity,
    allocatable: capacity,
    conditions: [
      {
        type: "Ready",
        status: "True",
        reason: "Fake",
        lastHeartbeatTime: new Date().toISOString(),
        lastTransitionTime: new Date().toISOString(),
      },
    ],
    addresses: [{ type: "InternalIP", address: "127.0.0.1" }],
    daemonEndpoints: { kubeletEndpoint: { Port: port } },
  };
  await admin.call({
    method: "PATCH",
    path: `/api/v1/nodes/${nodeName}/status`,
    body: { status },
    type: "merge",
    signal,
  });
  // The controller removes the not-ready taint of a new node once it has seen that the node is ready.
  await admin.call({
    method: "PATCH",
    path: `/api/v1/nodes/${nodeName}`,
    body: { spec: { taints: null } },
    type: "merge",
    signal,
  });
  await beat(admin, signal);
}

/** The controllers consider a node alive while its lease is renewed. */
async function beat(admin: ApiServer, signal: AbortSignal): Promise<void> {
  const metadata = { name: nodeName, namespace: "kube-node-lease" };
  const renewTime = new Date().toISOString().replace("Z", "000Z");
  const spec = { holderIdentity: nodeName, leaseDurationSeconds: 40, renewTime };
  const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
  await admin.apply(body, signal, { manager: "fake-node" });
}

interface Kubelet {
  admin: ApiServer;
  /** What was last written about each pod. */
  seen: Map<string, string>;
  /** As in the options of the node. */
  podAddress: string;
  crashing: ReadonlySet<string>;
  logs: Map<string, string[]>;
  signal: AbortSignal;
}

async function turn({ admin, seen, podAddress, crashing, logs, signal }: Kubelet): Promise<void> {
  const path = "/api/v1/pods";
  const query = { fieldSelector: `spec.nodeName=${nodeName}` };
  const { items } = await admin.call<{ items: Pod[] }>({ method: "GET", path, query, signal });
  for (const pod of items) {
    const { name, namespace, uid, deletionTimestamp } = pod.metadata;
    const own = `/api/v1/namespaces/${namespace}/pods/${name}`;
    if (deletionTimestamp !== undefined) {
      const body = { gracePeriodSeconds: 0, preconditions: { uid } };
      await admin.call({ method: "DELETE", path: own, body, signal }).catch(() => {});
      continue;
    }
    const named = fateOf(pod);
    const isCrashing = pod.spec.containers.some(({ image }) => crashing.has(image));
    const hasKey = named === "needs-model-key" && (await hasModelKey(admin, pod, signal));
    const isBelowLimit =
      named === "fills-disk" && Date.now() < Date.parse(pod.status.startTime ?? "3000-01-01") + belowLimitMs;
    const fate = isCrashing ? "loops" : hasKey || isBelowLimit ? "runs" : named;
    if (fate === "needs-model-key") logs.set(name, ["Error: MODEL_KEY is not set"]);
    if (seen.get(uid) === fate) continue;
    const body = { status: statusOf(pod, fate, podAddress) };
    await admin.call({ method: "PATCH", path: `${own}/status`, body, type: "merge", signal }).then(
      () => seen.set(uid, fate),
      () => {},
    );
  }
}

async function hasModelKey(admin: ApiServer, { metadata, spec }: Pod, signal: AbortSignal): Promise<boolean> {
  const names = spec.containers.flatMap(({ envFrom = [] }) => envFrom.map(({ secretRef }) => secretRef?.name ?? ""));
  const secrets = names.map((name) => admin.get<{ data?: object }>("Secret", metadata.namespace, name, signal));
  return (await Promise.all(secrets)).some((secret) => "MODEL_KEY" in (secret?.data ?? {}));
}

const fates = [
  "pull-fails",
  "crashes",
  "never-ready",
  "start-fails",
  "out-of-memory",
  "fills-disk",
  "needs-model-key",
] as const;
/** `loops`: it served before. */
type Fate = (typeof fates)[number] | "runs" | "loops";

function fateOf({ spec }: Pod): Fate {
  const images = [...spec.containers, ...(spec.initContainers ?? [])].map(({ image }) => image);
  return fates.find((fate) => images.some((image) => image.includes(fate))) ?? "runs";
}

function statusOf({ spec }: Pod, fate: Fate, podAddress: string): object {
  const at = new Date().toISOString();
  // As the kubelet writes it. The limit can come from a LimitRange.
  const message = "Pod ephemeral local storage usage exceeds the total limit of containers 64Mi. ";
  if (fate === "fills-disk") return { phase: "Failed", reason: "Evicted", message, startTime: at };
  const isReady = fate === "runs";
  const isLoop = fate === "loops" || fate === "needs-model-key";
  const condition = (type: string, holds: boolean) => ({
    type,
    status: holds ? "True" : "False",
    lastTransitionTime: at,
  });
  const conditions = ["Initialized", "PodScheduled"].map((type) => condition(type, true));
  const containerStatuses = spec.containers.map(({ name, image }) => {
    const isOwn = image.includes(fate) || spec.containers.length === 1;
    const state = isOwn ? stateOf(fate, image, at) : { state: { running: { startedAt: at } } };
    return {
      name,
      image,
      imageID: image,
      ready: isReady,
      started: isReady,
      restartCount: isLoop || fate === "crashes" ? 3 : 0,
      ...state,
    };
  });
  return {
    phase: isReady || isLoop || fate === "never-ready" ? "Running" : "Pending",
    conditions: [...conditions, condition("ContainersReady", isReady), condition("Ready", isReady)],
    containerStatuses,
    podIP: podAddress,
    podIPs: [{ ip: podAddress }],
    hostIP: "127.0.0.1",
    startTime: at,
  };
}

function stateOf(fate: Fate, image: string, at: string): object {
  const ended = (exitCode: number, reason: string) => ({
    terminated: { exitCode, reason, startedAt: at, finishedAt: at },
  });
  switch (fate) {
    case "pull-fails":
      return { state: { waiting: { reason: "ImagePullBackOff", message: `Back-off pulling image "${image}"` } } };
    case "crashes":
      return {
        state: { waiting: { reason: "CrashLoopBackOff", message: "back-off 10s" } },
        lastState: ended(3, "Error"),
      };
    case "loops":
    case "needs-model-key":
      return {
        state: { waiting: { reason: "CrashLoopBackOff", message: "back-off 40s" } },
        lastState: ended(3, "Error"),
      };
    case "start-fails":
      return { state: { waiting: { reason: "CreateContainerConfigError", message: 'secret "nowhere" not found' } } };
    case "out-of-memory":
      return { state: { waiting: { reason: "CrashLoopBackOff" } }, lastState: ended(137, "OOMKilled") };
    default:
      return { state: { running: { startedAt: at } } };
  }
}
