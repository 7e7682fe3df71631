import type { PodRight } from "../../contract/deployments/pod-rules.ts";
import type { ApiServer } from "./api/api-server.ts";

/**
 * What happens to our database when its deployment is deleted: it is deleted, its disk stays, or a snapshot of its disk
 * stays.
 */
export const dataPolicies = ["delete", "retain", "snapshot"] as const;
export type DataPolicy = (typeof dataPolicies)[number];

/** What this cluster offers. */
export interface ClusterTraits {
  /** `metrics.k8s.io` is served, so that autoscalers can work. */
  hasMetrics: boolean;
  hasKeda: boolean;
  hasCnpg: boolean;
  hasGatewayApi: boolean;
  /** Disks can be saved as a VolumeSnapshot. */
  hasSnapshots: boolean;
  version: string;
}

/** What the operator of the listener allows and prefers. */
export interface ClusterPolicy {
  /** Gateway (of the Gateway API) for routes; null: none. */
  gateway: { namespace: string; name: string } | null;
  /** Class of Ingress objects, where there is no gateway; null: deployments are reachable inside the cluster only. */
  ingressClass: string | null;
  /** Annotations of every route. `{deployment_id}` and `{slug}` stand for those of the deployment. */
  routeAnnotations: Record<string, string>;
  /** The gateway in the cluster leads to all agents: deployments have no routes of their own, and may sleep. */
  hasAgentGateway: boolean;
  /** Host names at which that gateway serves a `custom_url`. `*.example.com`: each name with one more label. */
  agentGatewayHosts: string[];
  /** Address of agents, with `{slug}`, below which no `custom_url` may take the requests of others; null: unknown. */
  agentsUrl: string | null;
  /** Host names of Pierhead itself, which no `custom_url` may have. */
  ownHosts: string[];
  imagePullSecrets: string[];
  /** Repository to which builds push, and the name by which nodes pull from it; null: the names are equal. */
  builtImages: { pushedTo: string; pulledFrom: string } | null;
  /** Containers may run as root, with the default capabilities of the container runtime. */
  allowsRoot: boolean;
  /** Init containers and sidecars may be privileged, add capabilities and run as root. */
  allowsPrivileged: boolean;
  /** Volumes of kind `nfs` and `csi` are allowed. */
  allowsNetworkVolumes: boolean;
  /** User of the agent's container; 0: the user of its image. */
  agentUser: number;
  postgresImage: string;
  /** User of PostgreSQL in its image. */
  postgresUser: number;
  redisImage: string;
  /** Default; the annotation of an anchor overrides it. */
  dataPolicy: DataPolicy;
  /** Class of snapshots; null: the cluster's default. */
  snapshotClass: string | null;
}

export type IsRouted = (deploymentId: string, signal: AbortSignal) => Promise<boolean>;

/**
 * Returns whether requests reach the ready pods of a deployment, after waiting a moment for it.
 * @param url health path at the Service of the deployment
 */
export type IsReached = (to: { deploymentId: string; url: string }, signal: AbortSignal) => Promise<boolean>;

/** Returns what deployers may put into pods beyond the defaults. */
export function rightsOf(policy: ClusterPolicy): PodRight[] {
  const granted: Record<PodRight, boolean> = {
    "root-containers": policy.allowsRoot,
    "privileged-containers": policy.allowsPrivileged,
    "network-volumes": policy.allowsNetworkVolumes,
  };
  return (Object.keys(granted) as PodRight[]).filter((right) => granted[right]);
}

export interface ClusterContext {
  api: ApiServer;
  /** Whether all replicas of the gateway in the cluster have a route to a deployment. Absent: they have one to each. */
  isRouted?: IsRouted | undefined;
  traits: ClusterTraits;
  policy: ClusterPolicy;
}
