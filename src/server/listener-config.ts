import { homedir } from "node:os";
import path from "node:path";
import { scaleDownAfterMs } from "../domain/limits.ts";
import type { LogLevel } from "../telemetry/log.ts";
import { registryAuthFile } from "./docker-settings.ts";
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

/** Every variable that `pierhead listener` reads. */
export const listenerSettings = {
  url: optional("PIERHEAD_URL", "needed", "Address of the control plane."),
  key: optionalKey("PIERHEAD_LISTENER_KEY", "needed, or the file", "Key of this listener."),
  keyFile: optional(
    "PIERHEAD_LISTENER_KEY_FILE",
    "none",
    "File with the key, read anew for each call: a replaced key needs no restart.",
  ),
  compute: oneOf(
    "PIERHEAD_COMPUTE",
    ["kubernetes", "process", "docker", "simulated"] as const,
    "Where this listener runs agents.",
  ),
  port: whole("PORT", 8125, 0, 65_535, "Port of `/ok`, `/ready` and, but for Kubernetes, of the agents."),
  host: text("HOST", "127.0.0.1", "Address to listen on."),
  agentsUrl: optional(
    "PIERHEAD_AGENTS_URL",
    "this listener's own port",
    "Where callers reach the agents; `{slug}` stands for that of a deployment: `https://{slug}.agents.example.com`.",
  ),
  dataDir: directory(
    "PIERHEAD_DATA_DIR",
    path.join(homedir(), ".pierhead-listener"),
    "~/.pierhead-listener",
    "Replica state, logs and how far logs were sent.",
  ),
  dockerHost: text("DOCKER_HOST", "unix:///var/run/docker.sock", "Container engine of the docker compute."),
  dockerReadOnlyRoot: flag(
    "PIERHEAD_DOCKER_READ_ONLY_ROOT",
    false,
    "Containers may write to /tmp and their state only.",
  ),
  dockerImagesMaxGib: whole(
    "PIERHEAD_DOCKER_IMAGES_MAX_GIB",
    20,
    1,
    100_000,
    "Disk that images may take before pulled ones that nothing uses are removed.",
  ),
  registryAuthFile,
  scaleDownAfterMs: whole(
    "PIERHEAD_SCALE_DOWN_AFTER_MS",
    scaleDownAfterMs,
    1_000,
    86_400_000,
    "A deployment gives up replicas after fewer would have done for this long; it gets more at once.",
  ),
  simulatedSeed: whole("PIERHEAD_SIMULATED_SEED", 1, 0, 2_147_483_647, "Seed of the simulated compute."),
  kubernetesHost: optional("KUBERNETES_SERVICE_HOST", "set in every pod", "API server of the cluster this runs in."),
  kubernetesPort: optional("KUBERNETES_SERVICE_PORT", "set in every pod", "Its port."),
  kubernetesUrl: optional("PIERHEAD_KUBERNETES_URL", "that of the pod", "API server of another cluster."),
  kubernetesTokenFile: optional("PIERHEAD_KUBERNETES_TOKEN_FILE", "that of the pod", "File with the token for it."),
  kubernetesCaFile: optional(
    "PIERHEAD_KUBERNETES_CA_FILE",
    "that of the pod",
    "File with the certificate of its authority.",
  ),
  kubernetesNamespaces: text(
    "PIERHEAD_KUBERNETES_NAMESPACES",
    "default",
    "Namespaces of agents, separated by commas; the first one is for deployments that name none.",
  ),
  kubernetesLease: text(
    "PIERHEAD_KUBERNETES_LEASE",
    "pierhead-listener",
    "Lease in the first namespace that says which replica of this listener acts.",
  ),
  kubernetesGateway: optional(
    "PIERHEAD_KUBERNETES_GATEWAY",
    "none",
    "Gateway (`namespace/name`) that the routes of deployments hang on, where the Gateway API is installed.",
  ),
  kubernetesIngressClass: optional("PIERHEAD_KUBERNETES_INGRESS_CLASS", "none", "Class of Ingress objects, otherwise."),
  kubernetesPullSecrets: text("PIERHEAD_KUBERNETES_PULL_SECRETS", "", "Secrets that open registries, for every agent."),
  allowPrivileged: flag("PIERHEAD_KUBERNETES_ALLOW_PRIVILEGED", false, "Containers may ask for rights on the node."),
  allowNetworkVolumes: flag("PIERHEAD_KUBERNETES_ALLOW_NETWORK_VOLUMES", false, "Volumes may be of kind nfs and csi."),
  postgresImage: text(
    "PIERHEAD_KUBERNETES_POSTGRES_IMAGE",
    "pgvector/pgvector:pg16",
    "Database of an agent without its own.",
  ),
  redisImage: text("PIERHEAD_KUBERNETES_REDIS_IMAGE", "redis:7.4-alpine", "Redis of an agent without its own."),
  dataPolicy: oneOf(
    "PIERHEAD_KUBERNETES_DATA_POLICY",
    ["delete", "retain", "snapshot"] as const,
    "What becomes of an agent's own database in the cluster when its deployment is deleted.",
  ),
  snapshotClass: optional(
    "PIERHEAD_KUBERNETES_SNAPSHOT_CLASS",
    "the cluster's default",
    "VolumeSnapshotClass of the snapshots that are kept.",
  ),
  ...tracesSettings,
  logLevel: oneOf(
    "PIERHEAD_LOG_LEVEL",
    ["info", "debug", "warn", "error", "silent"] as const satisfies readonly LogLevel[],
    "Least level of the program's own log lines.",
  ),
};

export interface ListenerConfig extends Omit<Read<typeof listenerSettings>, "url"> {
  url: string;
}

/** @throws Error naming the variable, what it must be and what it is. */
export function readListenerConfig(environment: Environment): ListenerConfig {
  const read = readSettings(listenerSettings, environment);
  const { url, key, keyFile, agentsUrl } = read;
  if (url === undefined || !/^https?:\/\//.test(url) || !URL.canParse(url)) {
    throw new Error("PIERHEAD_URL must be the http or https address of the control plane");
  }
  if (key === undefined && keyFile === undefined) {
    throw new Error(
      "PIERHEAD_LISTENER_KEY or PIERHEAD_LISTENER_KEY_FILE must be given: POST /v2/listeners answers one",
    );
  }
  if (agentsUrl !== undefined && !/^https?:\/\/[^\s]+$/.test(agentsUrl)) {
    throw new Error(`PIERHEAD_AGENTS_URL must be an http or https address with {slug} in it, got "${agentsUrl}"`);
  }
  return { ...read, url };
}
