import type { Manifest } from "../api/manifest.ts";
import type { ClusterPolicy } from "../cluster-context.ts";
import type { DatabaseMode, Workload } from "../workload.ts";
import { labelsOf, selectorOf } from "./names.ts";
import { resourcesOf } from "./render-pods.ts";
import { containerSecurity, podSecurityOf } from "./render-security.ts";

/**
 * User `redis` of the official images. As root, their entry point would change to that user, which needs capabilities that
 * these pods do not have.
 */
const redisUser = 999;

const redisPort = 6379;
const postgresPort = 5432;

/** Renders Redis without a disk: the docs promise no user data in it, so a new one may start empty. */
export function renderRedis(workload: Workload, policy: ClusterPolicy): Manifest[] {
  const { slug, cluster, deploymentId } = workload;
  const name = `${slug}-redis`;
  const metadata = { name, namespace: cluster.namespace as string, labels: labelsOf(workload, "redis") };
  const selector = selectorOf(deploymentId, "redis");
  const maxMemoryMib = Math.floor(cluster.sizes.redis.memoryLimitMib * 0.8);
  const container = {
    name: "redis",
    image: policy.redisImage,
    args: [
      "--save",
      "",
      "--appendonly",
      "no",
      "--maxmemory",
      `${maxMemoryMib}mb`,
      "--requirepass",
      "$(REDIS_PASSWORD)",
    ],
    env: [{ name: "REDIS_PASSWORD", valueFrom: { secretKeyRef: { name, key: "password" } } }],
    ports: [{ name: "redis", containerPort: redisPort, protocol: "TCP" }],
    resources: resourcesOf(cluster.sizes.redis, cluster.spec.redis_cpu != null),
    readinessProbe: { tcpSocket: { port: "redis" }, periodSeconds: 5 },
    securityContext: containerSecurity,
  };
  return [
    {
      apiVersion: "apps/v1",
      kind: "Deployment",
      metadata,
      spec: {
        replicas: 1,
        strategy: { type: "Recreate" },
        selector: { matchLabels: selector },
        template: { metadata: { labels: metadata.labels }, spec: podOf(container, redisUser, policy) },
      },
    },
    serviceOf(metadata, selector, redisPort, "redis"),
    onlyForAgents(workload, "redis", redisPort),
  ];
}

/** Renders PostgreSQL with one replica and a disk, or a cluster of an operator where one is installed. */
export function renderPostgres(workload: Workload, mode: DatabaseMode, policy: ClusterPolicy): Manifest[] {
  const { slug, cluster, deploymentId } = workload;
  const { database } = cluster.sizes;
  const name = `${slug}-postgres`;
  const metadata = { name, namespace: cluster.namespace as string, labels: labelsOf(workload, "postgres") };
  const sharedBuffersMib = Math.max(16, Math.floor(database.memoryMib / 4));
  if (mode === "cnpg") return [cnpgCluster(workload, metadata, sharedBuffersMib)];
  const selector = selectorOf(deploymentId, "postgres");
  const container = {
    name: "postgres",
    image: policy.postgresImage,
    args: ["-c", `max_connections=${database.connectionsMax}`, "-c", `shared_buffers=${sharedBuffersMib}MB`],
    env: [
      { name: "POSTGRES_USER", value: "agent" },
      { name: "POSTGRES_DB", value: "agent" },
      { name: "PGDATA", value: "/var/lib/postgresql/data/pgdata" },
      { name: "POSTGRES_PASSWORD", valueFrom: { secretKeyRef: { name, key: "password" } } },
    ],
    ports: [{ name: "postgres", containerPort: postgresPort, protocol: "TCP" }],
    resources: resourcesOf(database, cluster.spec.db_cpu != null),
    readinessProbe: { tcpSocket: { port: "postgres" }, periodSeconds: 5 },
    securityContext: containerSecurity,
    volumeMounts: [{ name: "data", mountPath: "/var/lib/postgresql/data" }],
  };
  return [
    {
      apiVersion: "apps/v1",
      kind: "StatefulSet",
      metadata,
      spec: {
        replicas: 1,
        serviceName: name,
        selector: { matchLabels: selector },
        persistentVolumeClaimRetentionPolicy: { whenDeleted: "Retain", whenScaled: "Retain" },
        template: { metadata: { labels: metadata.labels }, spec: podOf(container, policy.postgresUser, policy) },
        volumeClaimTemplates: [
          {
            metadata: { name: "data", labels: selector },
            spec: {
              accessModes: ["ReadWriteOnce"],
              resources: { requests: { storage: `${database.storageGib}Gi` } },
            },
          },
        ],
      },
    },
    { ...serviceOf(metadata, selector, postgresPort, "postgres") },
    onlyForAgents(workload, "postgres", postgresPort),
  ];
}

/** Database images may be in a registry of the operator's, like those of agents. */
const podOf = (container: object, user: number, { imagePullSecrets }: ClusterPolicy) => ({
  automountServiceAccountToken: false,
  securityContext: podSecurityOf(user),
  enableServiceLinks: false,
  ...(imagePullSecrets.length > 0 && { imagePullSecrets: imagePullSecrets.map((name) => ({ name })) }),
  containers: [container],
});

function cnpgCluster({ cluster }: Workload, metadata: Manifest["metadata"], sharedBuffersMib: number): Manifest {
  const { database } = cluster.sizes;
  return {
    apiVersion: "postgresql.cnpg.io/v1",
    kind: "Cluster",
    metadata,
    spec: {
      instances: cluster.profile === "production" ? 2 : 1,
      storage: { size: `${database.storageGib}Gi` },
      resources: resourcesOf(database, cluster.spec.db_cpu != null),
      postgresql: {
        parameters: { max_connections: String(database.connectionsMax), shared_buffers: `${sharedBuffersMib}MB` },
      },
      bootstrap: { initdb: { database: "agent", owner: "agent" } },
    },
  };
}

function serviceOf(
  metadata: Manifest["metadata"],
  selector: Record<string, string>,
  port: number,
  portName: string,
): Manifest {
  const ports = [{ name: portName, port, targetPort: portName, protocol: "TCP" }];
  return { apiVersion: "v1", kind: "Service", metadata, spec: { type: "ClusterIP", selector, ports } };
}

/** Allows connections to a database only from the server and the workers of its own deployment. */
function onlyForAgents(workload: Workload, component: "redis" | "postgres", port: number): Manifest {
  const { deploymentId, slug, cluster } = workload;
  const from = (["server", "queue"] as const).map((part) => ({
    podSelector: { matchLabels: selectorOf(deploymentId, part) },
  }));
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: {
      name: `${slug}-${component}`,
      namespace: cluster.namespace as string,
      labels: labelsOf(workload, component),
    },
    spec: {
      podSelector: { matchLabels: selectorOf(deploymentId, component) },
      policyTypes: ["Ingress"],
      ingress: [{ from, ports: [{ port, protocol: "TCP" }] }],
    },
  };
}
