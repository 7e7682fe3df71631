import { homedir } from "node:os";
import path from "node:path";
import { scaleDownAfterMs } from "../domain/limits.ts";
import { dockerDiskMib, registryAuthFile } from "./docker-settings.ts";
import { logSettings } from "./log-settings.ts";
import { tracesSettings } from "./otel.ts";
import {
  directory,
  type Environment,
  flag,
  oneOf,
  optional,
  optionalKey,
  type Read,
  readSettings,
  text,
  whole,
} from "./setting.ts";
import { tuningOff } from "./tuning/switches.ts";

/** All variables that `pierhead listener` reads. */
export const listenerSettings = {
  url: optional("PIERHEAD_URL", "required", "Address of the control plane."),
  key: optionalKey("PIERHEAD_LISTENER_KEY", "required, unless the file is set", "Key of this listener."),
  keyFile: optional(
    "PIERHEAD_LISTENER_KEY_FILE",
    "none",
    "File with the key. It is read for each call, so a replaced key needs no restart.",
  ),
  compute: oneOf(
    "PIERHEAD_COMPUTE",
    ["kubernetes", "process", "docker", "simulated"] as const,
    "Compute on which this listener runs agents.",
  ),
  port: whole("PORT", 8125, 0, 65_535, "Port of `/ok`, `/ready` and, except with Kubernetes, of the agents."),
  host: text("HOST", "127.0.0.1", "Address to listen on."),
  agentsUrl: optional(
    "PIERHEAD_AGENTS_URL",
    "this listener's own port",
    "URL at which callers reach the agents. `{slug}` stands for the deployment's slug: `https://{slug}.agents.example.com`.",
  ),
  dataDir: directory(
    "PIERHEAD_DATA_DIR",
    path.join(homedir(), ".pierhead-listener"),
    "~/.pierhead-listener",
    "Replica state, logs and log positions.",
  ),
  dockerHost: text("DOCKER_HOST", "unix:///var/run/docker.sock", "Container engine of the docker compute."),
  dockerReadOnlyRoot: flag(
    "PIERHEAD_DOCKER_READ_ONLY_ROOT",
    false,
    "Containers can write only to /tmp and to their state directory.",
  ),
  dockerImagesMaxGib: whole(
    "PIERHEAD_DOCKER_IMAGES_MAX_GIB",
    20,
    1,
    100_000,
    "Disk space for images in GiB. Above it, unused pulled images are removed.",
  ),
  dockerDiskMib,
  registryAuthFile,
  scaleDownAfterMs: whole(
    "PIERHEAD_SCALE_DOWN_AFTER_MS",
    scaleDownAfterMs,
    1_000,
    86_400_000,
    "Time for which fewer replicas must have been enough before a deployment scales down. It scales up at once.",
  ),
  tuningOff,
  simulatedSeed: whole("PIERHEAD_SIMULATED_SEED", 1, 0, 2_147_483_647, "Random seed of the simulated compute."),
  kubernetesHost: optional("KUBERNETES_SERVICE_HOST", "set in every pod", "API server of the cluster this runs in."),
  kubernetesPort: optional("KUBERNETES_SERVICE_PORT", "set in every pod", "Port of that API server."),
  kubernetesUrl: optional("PIERHEAD_KUBERNETES_URL", "from the pod", "API server of another cluster."),
  kubernetesTokenFile: optional(
    "PIERHEAD_KUBERNETES_TOKEN_FILE",
    "from the pod",
    "File with the token for the API server.",
  ),
  kubernetesCaFile: optional(
    "PIERHEAD_KUBERNETES_CA_FILE",
    "from the pod",
    "File with the CA certificate of the API server.",
  ),
  kubernetesNamespaces: text(
    "PIERHEAD_KUBERNETES_NAMESPACES",
    "default",
    "Comma-separated namespaces of agents. Deployments without a namespace use the first one.",
  ),
  kubernetesLease: text(
    "PIERHEAD_KUBERNETES_LEASE",
    "pierhead-listener",
    "Lease in the first namespace that elects the acting replica of this listener.",
  ),
  kubernetesGateway: optional(
    "PIERHEAD_KUBERNETES_GATEWAY",
    "none",
    "Gateway (`namespace/name`) to which the routes of deployments attach, where the Gateway API is installed.",
  ),
  kubernetesIngressClass: optional(
    "PIERHEAD_KUBERNETES_INGRESS_CLASS",
    "none",
    "Class of Ingress objects, for clusters without the Gateway API.",
  ),
  agentGateway: optional(
    "PIERHEAD_KUBERNETES_AGENT_GATEWAY",
    "none",
    "Addresses of the counters of the gateway in the cluster, comma-separated, each with a port: `http://NAME.NAMESPACE.svc:8127`. Deployments then have no routes of their own, and may scale to zero. The chart sets it.",
  ),
  agentGatewayHosts: optional(
    "PIERHEAD_KUBERNETES_AGENT_GATEWAY_HOSTS",
    "none",
    "Host names at which that gateway serves deployments with a `custom_url`, comma-separated: `support.example.com,*.example.org`. The chart sets it.",
  ),
  routeAnnotations: text(
    "PIERHEAD_KUBERNETES_ROUTE_ANNOTATIONS",
    "{}",
    "Annotations of every Ingress and HTTPRoute, as a JSON object. `{deployment_id}` and `{slug}` stand for those of the deployment.",
  ),
  kubernetesPullSecrets: text(
    "PIERHEAD_KUBERNETES_PULL_SECRETS",
    "",
    "Image pull secrets of every agent, comma-separated.",
  ),
  allowRoot: flag(
    "PIERHEAD_KUBERNETES_ALLOW_ROOT",
    false,
    "Containers of agents run as the user of their image, which may be root.",
  ),
  agentUser: whole(
    "PIERHEAD_KUBERNETES_AGENT_USER",
    1_000,
    0,
    2_147_483_647,
    "User of agents' containers. 0: the user of their image, by number and not root.",
  ),
  allowPrivileged: flag(
    "PIERHEAD_KUBERNETES_ALLOW_PRIVILEGED",
    false,
    "Init containers and sidecars may be privileged, add capabilities and run as root.",
  ),
  allowNetworkVolumes: flag("PIERHEAD_KUBERNETES_ALLOW_NETWORK_VOLUMES", false, "Allows volumes of type nfs and csi."),
  postgresImage: text(
    "PIERHEAD_KUBERNETES_POSTGRES_IMAGE",
    "pgvector/pgvector:pg16",
    "PostgreSQL image for agents without a database of their own.",
  ),
  postgresUser: whole(
    "PIERHEAD_KUBERNETES_POSTGRES_USER",
    999,
    1,
    2_147_483_647,
    "User of PostgreSQL in that image. Images on Alpine have 70.",
  ),
  redisImage: text(
    "PIERHEAD_KUBERNETES_REDIS_IMAGE",
    "redis:7.4-alpine",
    "Redis image for agents without a Redis of their own.",
  ),
  dataPolicy: oneOf(
    "PIERHEAD_KUBERNETES_DATA_POLICY",
    ["delete", "retain", "snapshot"] as const,
    "What happens to an agent's database in the cluster when its deployment is deleted.",
  ),
  snapshotClass: optional(
    "PIERHEAD_KUBERNETES_SNAPSHOT_CLASS",
    "the cluster's default",
    "VolumeSnapshotClass of retained snapshots.",
  ),
  buildRegistry: optional(
    "PIERHEAD_KUBERNETES_BUILD_REGISTRY",
    "none, no builds",
    "Repository to which this listener pushes images that it builds from sources, `registry.example.com/agents`.",
  ),
  buildPullRegistry: optional(
    "PIERHEAD_KUBERNETES_BUILD_PULL_REGISTRY",
    "PIERHEAD_KUBERNETES_BUILD_REGISTRY",
    "The name by which nodes pull from that repository, if they know it by another one, `localhost:30500/agents`.",
  ),
  buildRegistrySecret: optional(
    "PIERHEAD_KUBERNETES_BUILD_REGISTRY_SECRET",
    "none",
    "Secret of type `kubernetes.io/dockerconfigjson` in the namespace of builds, with which images are pushed.",
  ),
  buildRegistryInsecure: flag(
    "PIERHEAD_KUBERNETES_BUILD_REGISTRY_INSECURE",
    false,
    "The registry speaks HTTP. Only for a registry inside the cluster.",
  ),
  buildNamespace: text(
    "PIERHEAD_KUBERNETES_BUILD_NAMESPACE",
    "pierhead-builds",
    "Namespace of builds. It allows the Pod Security level `privileged`, so it must not be a namespace of agents.",
  ),
  buildImage: text(
    "PIERHEAD_KUBERNETES_BUILD_IMAGE",
    "moby/buildkit:v0.34.2-rootless",
    "Image with rootless BuildKit: `sh`, `rootlesskit`, `buildkitd` and `buildctl` for user 1000.",
  ),
  buildPushImage: optional(
    "PIERHEAD_KUBERNETES_BUILD_PUSH_IMAGE",
    "required with a registry",
    "Image of this version of Pierhead, from which builds push. The chart sets it.",
  ),
  buildPodMemoryMib: whole(
    "PIERHEAD_KUBERNETES_BUILD_MEMORY_MIB",
    2_048,
    256,
    1_048_576,
    "Memory limit of a build's pod in MiB.",
  ),
  buildPodCpuCores: whole("PIERHEAD_KUBERNETES_BUILD_CPU_CORES", 2, 1, 256, "CPU limit of a build's pod in cores."),
  buildCache: flag(
    "PIERHEAD_KUBERNETES_BUILD_CACHE",
    true,
    "Builds of a deployment reuse steps of earlier ones. The registry keeps one cache for each deployment.",
  ),
  buildNodeSelector: text(
    "PIERHEAD_KUBERNETES_BUILD_NODE_SELECTOR",
    "{}",
    "Labels of the nodes on which builds run, as a JSON object.",
  ),
  buildTolerations: text(
    "PIERHEAD_KUBERNETES_BUILD_TOLERATIONS",
    "[]",
    "Tolerations of builds, as a JSON array in the format of a pod.",
  ),
  ...tracesSettings,
  ...logSettings,
};

export interface ListenerConfig
  extends Omit<Read<typeof listenerSettings>, "url" | "routeAnnotations" | "buildNodeSelector" | "buildTolerations"> {
  url: string;
  routeAnnotations: Record<string, string>;
  buildNodeSelector: Record<string, string>;
  buildTolerations: object[];
}

/** Reads the configuration of `pierhead listener`. @throws Error naming the variable, its expected format and its value. */
export function readListenerConfig(environment: Environment): ListenerConfig {
  const read = readSettings(listenerSettings, environment);
  const { url, key, keyFile, agentsUrl } = read;
  if (url === undefined || !/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw new Error("PIERHEAD_URL must be the http or https address of the control plane");
  }
  if (key === undefined && keyFile === undefined) {
    throw new Error(
      "PIERHEAD_LISTENER_KEY or PIERHEAD_LISTENER_KEY_FILE must be set: POST /v2/listeners returns a key",
    );
  }
  if (agentsUrl !== undefined && !/^https?:\/\/[^\s]+$/.test(agentsUrl)) {
    throw new Error(`PIERHEAD_AGENTS_URL must be an http or https address with {slug} in it, got "${agentsUrl}"`);
  }
  for (const one of read.agentGateway?.split(",") ?? []) {
    if (!/^http:\/\/[^/\s]+:\d+$/.test(one.trim())) {
      throw new Error(`PIERHEAD_KUBERNETES_AGENT_GATEWAY must be like http://gateway.pierhead.svc:8127, got "${one}"`);
    }
  }
  const { buildRegistry, buildPullRegistry, buildPushImage, buildNamespace, kubernetesNamespaces } = read;
  for (const [variable, repository] of [
    ["PIERHEAD_KUBERNETES_BUILD_REGISTRY", buildRegistry],
    ["PIERHEAD_KUBERNETES_BUILD_PULL_REGISTRY", buildPullRegistry],
  ]) {
    if (repository !== undefined && !/^[a-z0-9.-]+(:\d+)?(\/[a-z0-9._-]+)+$/.test(repository)) {
      throw new Error(`${variable} must be a repository like registry.example.com/agents, got "${repository}"`);
    }
  }
  if (buildRegistry !== undefined && buildPushImage === undefined) {
    throw new Error("PIERHEAD_KUBERNETES_BUILD_PUSH_IMAGE must be set to the image of this listener to build images");
  }
  if (buildRegistry !== undefined && kubernetesNamespaces.split(",").some((one) => one.trim() === buildNamespace)) {
    throw new Error(
      `PIERHEAD_KUBERNETES_BUILD_NAMESPACE must not be a namespace of agents, got "${buildNamespace}": builds need rights that agents must not have`,
    );
  }
  const buildNodeSelector = jsonOf("PIERHEAD_KUBERNETES_BUILD_NODE_SELECTOR", read.buildNodeSelector, isLabels);
  const buildTolerations = jsonOf("PIERHEAD_KUBERNETES_BUILD_TOLERATIONS", read.buildTolerations, isListOfObjects);
  const routeAnnotations = jsonOf("PIERHEAD_KUBERNETES_ROUTE_ANNOTATIONS", read.routeAnnotations, isLabels);
  return { ...read, url, routeAnnotations, buildNodeSelector, buildTolerations };
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const isLabels = (value: unknown): value is Record<string, string> =>
  isObject(value) && Object.values(value).every((one) => typeof one === "string");

const isListOfObjects = (value: unknown): value is object[] => Array.isArray(value) && value.every(isObject);

function jsonOf<T>(name: string, text: string, isValid: (value: unknown) => value is T): T {
  const value = parsed(text);
  if (!isValid(value)) {
    const what = name.endsWith("TOLERATIONS")
      ? "a JSON array of tolerations"
      : `a JSON object of ${name.endsWith("SELECTOR") ? "labels" : "annotations"}`;
    throw new Error(`${name} must be ${what}, got "${text}"`);
  }
  return value;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
