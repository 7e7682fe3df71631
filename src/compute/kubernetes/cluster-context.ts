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
  /** Gateway for routes; null: none. */
  gateway: { namespace: string; name: string } | null;
  /** Class of Ingress objects, where there is no gateway; null: deployments are reachable inside the cluster only. */
  ingressClass: string | null;
  imagePullSecrets: string[];
  /** Containers may be privileged, add capabilities and use ports of the node. */
  allowsPrivileged: boolean;
  /** Volumes of kind `nfs` and `csi` are allowed. */
  allowsNetworkVolumes: boolean;
  postgresImage: string;
  redisImage: string;
  /** Default; the annotation of an anchor overrides it. */
  dataPolicy: DataPolicy;
  /** Class of snapshots; null: the cluster's default. */
  snapshotClass: string | null;
}

export interface ClusterContext {
  api: ApiServer;
  traits: ClusterTraits;
  policy: ClusterPolicy;
}
