import { randomUUID } from "node:crypto";
import { readFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type Clock, systemClock } from "../../src/base/clock.ts";
import { createListenerClient } from "../../src/client/listener-client.ts";
import { ApiServer, type KubeAddress } from "../../src/compute/kubernetes/api/api-server.ts";
import type { LiveObject } from "../../src/compute/kubernetes/api/manifest.ts";
import type {
  ClusterPolicy,
  ClusterTraits,
  IsReached,
  IsRouted,
} from "../../src/compute/kubernetes/cluster-context.ts";
import { openKubernetesCluster } from "../../src/compute/kubernetes/kubernetes-cluster.ts";
import { discover } from "../../src/compute/kubernetes/watch/discover.ts";
import type { DeploymentReport, RevisionRun } from "../../src/contract/listeners/assignment.ts";
import type { ClusterRun, ClusterSizes } from "../../src/contract/listeners/cluster.ts";
import { clusterFleet } from "../../src/listener/clusters/cluster-fleet.ts";
import type { ClusterTraffic } from "../../src/listener/clusters/gateway-traffic.ts";
import { createListener, type Listener } from "../../src/listener/listener.ts";
import { createLogger, type Logger } from "../../src/telemetry/log.ts";
import { ControlPlane } from "../listener/control-plane.ts";
import { eventually } from "../support/eventually.ts";
import { type FakeNode, startFakeNode } from "./fake-node.ts";
import { type Plane, startPlane } from "./plane.ts";

/** A rollout with problems is given up after this time; the default is 2 minutes. */
const graceMs = 2_000;

const ownLogger = createLogger((process.env["PIERHEAD_LOG_LEVEL"] as "info" | undefined) ?? "silent");

export const policy: ClusterPolicy = {
  gateway: null,
  ingressClass: null,
  hasAgentGateway: false,
  agentGatewayHosts: [],
  agentsUrl: null,
  ownHosts: [],
  routeAnnotations: {},
  imagePullSecrets: [],
  builtImages: null,
  allowsRoot: false,
  allowsPrivileged: false,
  agentUser: 1000,
  postgresUser: 999,
  allowsNetworkVolumes: false,
  postgresImage: "127.0.0.1:1/postgres:16",
  redisImage: "127.0.0.1:1/redis:7",
  dataPolicy: "delete",
  snapshotClass: null,
};

/** One Kubernetes control plane with one node, for all tests of a file. */
export async function startWorld({
  podAddress,
}: {
  podAddress?: string;
} = {}): Promise<{ plane: Plane; node: FakeNode } & AsyncDisposable> {
  const program = process.env["PIERHEAD_TEST_KUBEPLANE"];
  if (program === undefined) throw new Error("run this by `npm run test:kubernetes`");
  const plane = await startPlane(program);
  const node = await startFakeNode(plane, podAddress);
  return {
    plane,
    node,
    async [Symbol.asyncDispose]() {
      await node[Symbol.asyncDispose]();
      await plane[Symbol.asyncDispose]();
    },
  };
}

export interface Site extends AsyncDisposable {
  namespace: string;
  controlPlane: ControlPlane;
  listener: Listener;
  /** Reads with the rights of an admin. */
  get<T = LiveObject>(kind: string, name: string): Promise<T | null>;
  list<T = LiveObject>(kind: string): Promise<T[]>;
  /** Waits until the listener has discovered what the cluster offers now. */
  rediscovered(holds: (traits: ClusterTraits) => boolean): Promise<unknown>;
  reported(deploymentId: string, holds: (report: DeploymentReport) => boolean): Promise<DeploymentReport>;
  /** Deploys and waits until the revision serves. */
  deployed(run: RevisionRun): Promise<{ deployment_id: string; slug: string }>;
}

interface SiteOptions {
  url?: string;
  /** API client of its listener. */
  reach?: (to: KubeAddress) => ApiServer;
  clock?: Clock;
  logger?: Logger;
  /** The requests that pass a gateway in the cluster. */
  traffic?: ClusterTraffic;
  /** Asks that gateway whether it serves a deployment. */
  isRouted?: IsRouted;
  /** Tells when requests reach the pods. */
  isReached?: IsReached;
  /** Uses the namespace of another site. */
  beside?: Site;
  listenerId?: string;
  /** Namespaces listed before its own. */
  firstNamespace?: string;
}

/** Creates a namespace with the shipped Role, and a listener there that follows a test control plane. */
export async function openSite(
  plane: Plane,
  changed: Partial<ClusterPolicy> = {},
  {
    url,
    reach = (to) => new ApiServer(to),
    clock = systemClock,
    logger = ownLogger,
    traffic,
    isRouted,
    isReached,
    beside,
    listenerId,
    firstNamespace,
  }: SiteOptions = {},
): Promise<Site> {
  const namespace = beside?.namespace ?? (await plane.newNamespace());
  if (beside === undefined) await grant(plane, namespace);
  const controlPlane = new ControlPlane();
  if (listenerId !== undefined) controlPlane.listenerId = listenerId;
  const address = plane.address("listener");
  const api = reach({ ...address, url: url ?? address.url });
  const cluster = await openKubernetesCluster({
    api,
    namespaces: firstNamespace === undefined ? [namespace] : [firstNamespace, namespace],
    discoverMs: 300,
    policy: { ...policy, ...changed },
    isRouted,
    isReached,
    logger,
  });
  const options = { logger, clock, metricsIntervalMs: 500, instanceId: randomUUID(), version: "0.0.0" };
  const client = createListenerClient(controlPlane.send);
  const listener = createListener(
    { client, ...options },
    clusterFleet({ cluster, graceMs, ...(traffic && { traffic }) }),
  );
  listener.start();
  const signal = () => AbortSignal.timeout(30_000);
  const site: Site = {
    namespace,
    controlPlane,
    listener,
    get: (kind, name) => plane.admin.get(kind, namespace, name, signal()),
    list: async (kind) => (await plane.admin.list(kind, namespace, {}, signal())).items as never,
    rediscovered: (holds) => eventually(() => discover(plane.admin, signal()), holds).then(() => sleep(1_000)),
    async reported(deploymentId, holds) {
      const before = controlPlane.reports.get(deploymentId);
      const since = controlPlane.history.length;
      // A state may end before the next poll: a failed target is taken back at once.
      const all = () => [
        ...(before === undefined ? [] : [before]),
        ...controlPlane.history.slice(since).filter((report) => report.deployment_id === deploymentId),
      ];
      const found = await eventually(
        () => all().find(holds) ?? all().at(-1),
        (report) => report !== undefined && holds(report),
        { timeoutMs: 60_000 },
      );
      return found as DeploymentReport;
    },
    async deployed(run) {
      const deployment_id = randomUUID();
      const slug = slugOf(deployment_id);
      const url = (run.cluster?.url ?? "").replace("{slug}", slug);
      const target = run.cluster == null ? run : { ...run, cluster: { ...run.cluster, url } };
      controlPlane.assign({ deployment_id, slug, target });
      await eventually(
        () => [controlPlane.assignments.get(deployment_id), controlPlane.reports.get(deployment_id)] as const,
        ([assignment, report]) =>
          assignment?.serving?.revision_id === run.revision_id &&
          report?.target_phase === "ready" &&
          report.generation === assignment.generation,
        { timeoutMs: 90_000, what: "deployed" },
      );
      return { deployment_id, slug };
    },
    async [Symbol.asyncDispose]() {
      await listener.stop();
      await cluster.close();
      if (beside !== undefined) return;
      await plane.admin.call({ method: "DELETE", path: `/api/v1/namespaces/${namespace}`, signal: signal() });
    },
  };
  return site;
}

const slugOf = (deploymentId: string) => `d-${deploymentId.slice(0, 8)}`;

/** Grants the rules of the chart's Role, so that the tests use what is shipped. */
export async function grant(plane: Plane, namespace: string, file = "rules.json"): Promise<void> {
  const rules = JSON.parse(await readFile(`deploy/helm/pierhead-listener/files/${file}`, "utf8"));
  const root = `/apis/rbac.authorization.k8s.io/v1/namespaces/${namespace}`;
  const signal = AbortSignal.timeout(30_000);
  const name = file === "rules.json" ? "pierhead-listener" : path.basename(file, ".json");
  const metadata = { name };
  await plane.admin.call({ method: "POST", path: `${root}/roles`, body: { metadata, rules }, signal });
  const roleRef = { apiGroup: "rbac.authorization.k8s.io", kind: "Role", name };
  const subjects = [{ apiGroup: "rbac.authorization.k8s.io", kind: "User", name: "listener" }];
  await plane.admin.call({
    method: "POST",
    path: `${root}/rolebindings`,
    body: { metadata, roleRef, subjects },
    signal,
  });
}

const small = { cpuCores: 0.1, cpuLimitCores: 0.2, memoryMib: 64, memoryLimitMib: 128 };

export const sizes: ClusterSizes = {
  ...{ ...small, minReplicas: 1, maxReplicas: 1 },
  queue: { ...small, minReplicas: 1, maxReplicas: 1 },
  redis: small,
  database: { ...small, storageGib: 1, connectionsMax: 50 },
};

/** Secrets with the addresses of an external database and Redis, so that only the agent itself is deployed. */
export const elsewhere = { POSTGRES_URI_CUSTOM: "postgresql://127.0.0.1:1/x", REDIS_URI_CUSTOM: "redis://127.0.0.1:1" };

export function newRun(
  site: { controlPlane: ControlPlane },
  image = "127.0.0.1:1/agent:1",
  parts: Partial<ClusterRun> = {},
  secrets: Record<string, string> = elsewhere,
): RevisionRun {
  const secret_set_id = randomUUID();
  site.controlPlane.secrets.set(secret_set_id, secrets);
  return {
    revision_id: randomUUID(),
    artifact: { kind: "image", digest: "sha256:0", uri: image, health_path: "/ok", rollout: "rolling" },
    env: { LANGSMITH_TENANT_ID: "t" },
    secret_set_id,
    min_replicas: 1,
    max_replicas: 1,
    cpu_limit_cores: 1,
    memory_limit_mib: 512,
    start_timeout_ms: 600_000,
    drain_timeout_ms: 1_000,
    cluster: {
      namespace: null,
      spec: {},
      sizes,
      secret_references: [],
      url: "https://agent.example.com",
      profile: "development",
      ...parts,
    },
  };
}
