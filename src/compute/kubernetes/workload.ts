import type { ClusterRun } from "../../contract/listeners/cluster.ts";

/** One revision of one deployment, as a cluster is to run it. */
export interface Workload {
  deploymentId: string;
  /** Who runs it. */
  listenerId: string;
  tenantId: string;
  revisionId: string;
  /** It ran before: a disk that was made larger since is not what it asks for, and stays. */
  isServing: boolean;
  /** Base of all names: at most 39 characters, a DNS label. */
  slug: string;
  /** Of the assignment, and of the session that applies it: what is older never replaces what is newer. */
  generation: number;
  epoch: number;
  image: string;
  /** Empty: the server has no such path, and an open port counts. */
  healthPath: string;
  /** Not secret. */
  env: Record<string, string>;
  /** Go into a Secret and nowhere else. Never logged. */
  secrets: Record<string, string>;
  startTimeoutMs: number;
  drainTimeoutMs: number;
  cluster: ClusterRun;
}

/** What is decided once per deployment and then kept: its data must not move because somebody installed an operator. */
export type DatabaseMode = "external" | "cnpg" | "plain";

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

export interface Manifest {
  apiVersion: string;
  kind: string;
  metadata: {
    name: string;
    namespace: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    ownerReferences?: object[];
    finalizers?: string[];
    resourceVersion?: string;
  };
  [part: string]: unknown;
}

/** The user asked for what this cluster, or its operator, does not offer. The message is for them. */
export class UnusableWorkload extends Error {
  override name = "UnusableWorkload";
}

/** The cluster may not do this for now: a quota is full, a policy or a missing right is in the way. */
export class ForbiddenWorkload extends Error {
  override name = "ForbiddenWorkload";
}

/** A newer session or a newer generation was here before: whoever holds this one stops. */
export class Superseded extends Error {
  override name = "Superseded";
}
