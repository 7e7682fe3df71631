import type { ApiServer } from "./api/api-server.ts";

/**
 * What becomes of a database of ours when its deployment is deleted: it goes, it stays as its disk, or it stays as a
 * snapshot of its disk.
 */
export const dataPolicies = ["delete", "retain", "snapshot"] as const;
export type DataPolicy = (typeof dataPolicies)[number];

/** How this cluster differs from a bare one. */
export interface ClusterTraits {
  /** `metrics.k8s.io` is served: autoscaling has numbers to act on. */
  hasMetrics: boolean;
  hasKeda: boolean;
  hasCnpg: boolean;
  hasGatewayApi: boolean;
  /** Disks can be kept as a VolumeSnapshot. */
  hasSnapshots: boolean;
  version: string;
}

/** What the operator of the listener decided. */
export interface ClusterPolicy {
  /** Gateway that routes hang on; null: none. */
  gateway: { namespace: string; name: string } | null;
  /** Class of Ingress objects, where there is no gateway; null: deployments answer inside the cluster only. */
  ingressClass: string | null;
  imagePullSecrets: string[];
  /** Containers may be privileged, add capabilities and take ports of the node. */
  allowsPrivileged: boolean;
  /** Volumes of kind `nfs` and `csi`. */
  allowsNetworkVolumes: boolean;
  postgresImage: string;
  redisImage: string;
  /** Unless an anchor says otherwise. */
  dataPolicy: DataPolicy;
  /** Of snapshots; null: the cluster's default. */
  snapshotClass: string | null;
}

export interface ClusterContext {
  api: ApiServer;
  traits: ClusterTraits;
  policy: ClusterPolicy;
}
