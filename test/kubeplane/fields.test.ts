import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";
import { ApiServer } from "../../src/compute/kubernetes/api/api-server.ts";
import type { Manifest } from "../../src/compute/kubernetes/api/manifest.ts";
import { checkWorkload } from "../../src/compute/kubernetes/apply/check-workload.ts";
import type { ClusterTraits } from "../../src/compute/kubernetes/cluster-context.ts";
import { render } from "../../src/compute/kubernetes/render/render.ts";
import type { Workload } from "../../src/compute/kubernetes/workload.ts";
import { ResourceSpec } from "../../src/contract/deployments/resource-spec.ts";
import { effectiveSizes } from "../../src/domain/sizes.ts";
import { policy, startWorld } from "./harness.ts";

const bare: ClusterTraits = {
  hasMetrics: true,
  hasKeda: false,
  hasCnpg: false,
  hasSnapshots: false,
  hasGatewayApi: false,
  version: "v1.34",
};

function workloadWith(spec: ResourceSpec, namespace = "agents"): Workload {
  return {
    deploymentId: randomUUID(),
    tenantId: randomUUID(),
    revisionId: randomUUID(),
    slug: "sentinel-1234abcd",
    ...{
      listenerId: randomUUID(),
      isServing: false,
      maySleep: false,
      generation: 1,
      epoch: 1,
      image: "127.0.0.1:1/agent:1",
      healthPath: "/ok",
      secrets: {},
    },
    env: { PIERHEAD_CORE_COMMAND: "/core" },
    startTimeoutMs: 60_000,
    drainTimeoutMs: 10_000,
    cluster: {
      namespace,
      spec,
      sizes: effectiveSizes(null, spec),
      secret_references: [],
      url: "https://agent.example.com",
      profile: "production",
    },
  };
}

function rendered(spec: ResourceSpec, namespace?: string): Manifest[] {
  const workload = workloadWith(spec, namespace);
  const open = { ...policy, allowsNetworkVolumes: true, ingressClass: "nginx" };
  checkWorkload(workload, open);
  const { data, rest } = render(workload, { traits: bare, policy: open, database: "plain" });
  return [...data, ...rest];
}

/** Sets all fields, each to a unique value. */
const sentinels = {
  min_scale: 3,
  max_scale: 7,
  cpu: 1.1,
  cpu_limit: 1.2,
  memory_mb: 1101,
  memory_limit_mb: 1102,
  queue_min_scale: 4,
  queue_max_scale: 9,
  queue_cpu: 1.3,
  queue_cpu_limit: 1.4,
  queue_memory_mb: 1103,
  queue_memory_limit_mb: 1104,
  redis_cpu: 1.5,
  redis_cpu_limit: 1.6,
  redis_memory_mb: 1105,
  redis_memory_limit_mb: 1106,
  core_cpu: 1.7,
  core_cpu_limit: 1.8,
  core_memory_mb: 1107,
  core_memory_limit_mb: 1108,
  db_cpu: 1.9,
  db_cpu_limit: 2.1,
  db_memory_mb: 1109,
  db_memory_limit_mb: 1110,
  db_storage_gi: 11,
  db_max_connections: 123,
  labels: { "example.com/team": "sentinel-label" },
  annotations: { "example.com/note": "sentinel-annotation" },
  service_account_name: "sentinel-account",
  image_pull_secrets: [{ name: "sentinel-pull" }],
  volumes: [{ name: "sentinel-volume", emptyDir: { sizeLimit: "17Mi" } }],
  volume_mounts: [{ name: "sentinel-volume", mountPath: "/sentinel", readOnly: true }],
  init_containers: [{ name: "sentinel-init", image: "127.0.0.1:1/init:1", command: ["true"] }],
  sidecars: [
    {
      name: "sentinel-sidecar",
      image: "127.0.0.1:1/sidecar:1",
      imagePullPolicy: "Never",
      workingDir: "/w",
      ...{ args: ["-v"], env: [{ name: "S", value: "1" }], envFrom: [{ configMapRef: { name: "sentinel-config" } }] },
      resources: { limits: { memory: "19Mi" }, requests: { cpu: "13m" } },
      securityContext: { runAsUser: 4321 },
    },
  ],
} as const satisfies ResourceSpec;

type Find = (manifests: Manifest[]) => unknown;

// biome-ignore lint/suspicious/noExplicitAny: manifests of every kind.
const at = (manifests: Manifest[], kind: string, suffix = ""): any =>
  manifests.find((one) => one.kind === kind && one.metadata.name === `sentinel-1234abcd${suffix}`);
const resources = (
  suffix: string,
  side: "requests" | "limits",
  of: "cpu" | "memory",
  container = 0,
  kind = "Deployment",
): Find => {
  return (manifests) => at(manifests, kind, suffix)?.spec.template.spec.containers[container]?.resources[side][of];
};
const pod = (manifests: Manifest[], suffix = "") => at(manifests, "Deployment", suffix).spec.template.spec;
const both =
  (find: (spec: ReturnType<typeof pod>) => unknown): Find =>
  (manifests) =>
    JSON.stringify(find(pod(manifests))) === JSON.stringify(find(pod(manifests, "-queue"))) && find(pod(manifests));

/** Added to the security context of every extra container. */
const restricted = { allowPrivilegeEscalation: false, capabilities: { drop: ["ALL"] } };

/** Where each field of a resource spec ends up. A field that is missing here fails the test below. */
const places: Record<keyof typeof sentinels, [Find, unknown]> = {
  min_scale: [(all) => at(all, "HorizontalPodAutoscaler").spec.minReplicas, 3],
  max_scale: [(all) => at(all, "HorizontalPodAutoscaler").spec.maxReplicas, 7],
  cpu: [resources("", "requests", "cpu"), "1100m"],
  cpu_limit: [resources("", "limits", "cpu"), "1200m"],
  memory_mb: [resources("", "requests", "memory"), "1101Mi"],
  memory_limit_mb: [resources("", "limits", "memory"), "1102Mi"],
  queue_min_scale: [(all) => at(all, "HorizontalPodAutoscaler", "-queue").spec.minReplicas, 4],
  queue_max_scale: [(all) => at(all, "HorizontalPodAutoscaler", "-queue").spec.maxReplicas, 9],
  queue_cpu: [resources("-queue", "requests", "cpu"), "1300m"],
  queue_cpu_limit: [resources("-queue", "limits", "cpu"), "1400m"],
  queue_memory_mb: [resources("-queue", "requests", "memory"), "1103Mi"],
  queue_memory_limit_mb: [resources("-queue", "limits", "memory"), "1104Mi"],
  redis_cpu: [resources("-redis", "requests", "cpu"), "1500m"],
  redis_cpu_limit: [resources("-redis", "limits", "cpu"), "1600m"],
  redis_memory_mb: [resources("-redis", "requests", "memory"), "1105Mi"],
  redis_memory_limit_mb: [resources("-redis", "limits", "memory"), "1106Mi"],
  core_cpu: [resources("", "requests", "cpu", 1), "1700m"],
  core_cpu_limit: [resources("-queue", "limits", "cpu", 1), "1800m"],
  core_memory_mb: [resources("", "requests", "memory", 1), "1107Mi"],
  core_memory_limit_mb: [resources("-queue", "limits", "memory", 1), "1108Mi"],
  db_cpu: [resources("-postgres", "requests", "cpu", 0, "StatefulSet"), "1900m"],
  db_cpu_limit: [resources("-postgres", "limits", "cpu", 0, "StatefulSet"), "2100m"],
  db_memory_mb: [resources("-postgres", "requests", "memory", 0, "StatefulSet"), "1109Mi"],
  db_memory_limit_mb: [resources("-postgres", "limits", "memory", 0, "StatefulSet"), "1110Mi"],
  db_storage_gi: [
    (all) => at(all, "StatefulSet", "-postgres").spec.volumeClaimTemplates[0].spec.resources.requests.storage,
    "11Gi",
  ],
  db_max_connections: [
    (all) => at(all, "StatefulSet", "-postgres").spec.template.spec.containers[0].args.includes("max_connections=123"),
    true,
  ],
  labels: [(all) => [...new Set(all.map((one) => one.metadata.labels?.["example.com/team"]))].join(), "sentinel-label"],
  annotations: [
    (all) => at(all, "Deployment", "-queue").spec.template.metadata.annotations["example.com/note"],
    "sentinel-annotation",
  ],
  service_account_name: [both((spec) => spec.serviceAccountName), "sentinel-account"],
  image_pull_secrets: [both((spec) => spec.imagePullSecrets), [{ name: "sentinel-pull" }]],
  volumes: [both((spec) => spec.volumes), sentinels.volumes],
  volume_mounts: [both((spec) => spec.containers[0].volumeMounts), sentinels.volume_mounts],
  init_containers: [
    both((spec) => spec.initContainers),
    sentinels.init_containers.map((one) => ({ ...one, securityContext: restricted })),
  ],
  sidecars: [
    both((spec) => spec.containers.slice(2)),
    sentinels.sidecars.map((one) => ({ ...one, securityContext: { ...restricted, ...one.securityContext } })),
  ],
};

/** Stored and returned, but without effect (contract 2.4). */
const unused = /^(orchestrator|executor)_/;

/** Listeners do not get it: it decides whether they get `queue_*`. */
const settledBefore = ["workers"];

let world: Awaited<ReturnType<typeof startWorld>>;
before(async () => {
  world = await startWorld();
});
after(() => world[Symbol.asyncDispose]());

test("every field of a resource spec is found in the manifests", () => {
  const fields = Object.keys(ResourceSpec.properties).filter(
    (field) => !unused.test(field) && !settledBefore.includes(field),
  );
  assert.deepEqual(fields.toSorted(), Object.keys(places).toSorted(), "a field is missing in `places`");
  const manifests = rendered(sentinels);
  for (const [field, [find, expected]] of Object.entries(places)) assert.deepEqual(find(manifests), expected, field);
});

test("a real API server accepts every field, and a second apply changes nothing", async () => {
  const namespace = await world.plane.newNamespace();
  const signal = AbortSignal.timeout(60_000);
  const api = new ApiServer(world.plane.address("admin"));
  const versions: string[][] = [];
  const manifests = rendered(sentinels, namespace);
  assert.ok(manifests.length >= 14, String(manifests.length));
  for (let turn = 0; turn < 2; turn++) {
    versions.push([]);
    for (const manifest of manifests) {
      const there = await api.apply(manifest, signal);
      // Controllers write status into these, which changes their version.
      if (["ServiceAccount", "Service", "NetworkPolicy", "Ingress", "PodDisruptionBudget"].includes(manifest.kind)) {
        versions.at(-1)?.push(`${manifest.kind} ${there.metadata.resourceVersion}`);
      }
    }
  }
  assert.deepEqual(versions[0], versions[1]);
  api.close();
});

test("uses the kinds of installed operators instead of plain workloads", () => {
  const all = { ...bare, hasKeda: true, hasCnpg: true, hasGatewayApi: true };
  const context = {
    traits: all,
    policy: { ...policy, gateway: { namespace: "infra", name: "web" } },
    database: "cnpg",
  } as const;
  const { data, rest } = render(workloadWith(sentinels), context);
  const kinds = [...data, ...rest].map(({ kind }) => kind).toSorted();
  for (const kind of ["Cluster", "ScaledObject", "TriggerAuthentication", "HTTPRoute"])
    assert.ok(kinds.includes(kind), kind);
  assert.equal(kinds.includes("StatefulSet") || kinds.includes("Ingress"), false);
  const server = rest.find(({ kind, metadata }) => kind === "Deployment" && metadata.name === "sentinel-1234abcd");
  assert.match(JSON.stringify(server), /"name":"sentinel-1234abcd-postgres-app","key":"uri"/);
});
