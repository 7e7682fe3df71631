import { UnusableWorkload } from "../workload.ts";

/** A kind of object that we create, watch or inspect. */
interface Kind {
  apiVersion: string;
  plural: string;
  /** Rendered by us: watched for drift, and deleted when no longer rendered. Not for Secrets, which we may not list. */
  isChild: boolean;
  /** Trait of clusters that have the operator for this kind. */
  needs?: "hasKeda" | "hasCnpg" | "hasGatewayApi";
}

export const kinds = {
  ConfigMap: { apiVersion: "v1", plural: "configmaps", isChild: false },
  Secret: { apiVersion: "v1", plural: "secrets", isChild: false },
  Service: { apiVersion: "v1", plural: "services", isChild: true },
  EndpointSlice: { apiVersion: "discovery.k8s.io/v1", plural: "endpointslices", isChild: false },
  ServiceAccount: { apiVersion: "v1", plural: "serviceaccounts", isChild: true },
  PersistentVolumeClaim: { apiVersion: "v1", plural: "persistentvolumeclaims", isChild: false },
  VolumeSnapshot: { apiVersion: "snapshot.storage.k8s.io/v1", plural: "volumesnapshots", isChild: false },
  Pod: { apiVersion: "v1", plural: "pods", isChild: false },
  /** Of the Metrics API: the usage of a pod. */
  PodMetrics: { apiVersion: "metrics.k8s.io/v1beta1", plural: "pods", isChild: false },
  Event: { apiVersion: "v1", plural: "events", isChild: false },
  Deployment: { apiVersion: "apps/v1", plural: "deployments", isChild: true },
  StatefulSet: { apiVersion: "apps/v1", plural: "statefulsets", isChild: true },
  ReplicaSet: { apiVersion: "apps/v1", plural: "replicasets", isChild: false },
  HorizontalPodAutoscaler: { apiVersion: "autoscaling/v2", plural: "horizontalpodautoscalers", isChild: true },
  PodDisruptionBudget: { apiVersion: "policy/v1", plural: "poddisruptionbudgets", isChild: true },
  NetworkPolicy: { apiVersion: "networking.k8s.io/v1", plural: "networkpolicies", isChild: true },
  Ingress: { apiVersion: "networking.k8s.io/v1", plural: "ingresses", isChild: true },
  Job: { apiVersion: "batch/v1", plural: "jobs", isChild: false },
  Lease: { apiVersion: "coordination.k8s.io/v1", plural: "leases", isChild: false },
  ScaledObject: { apiVersion: "keda.sh/v1alpha1", plural: "scaledobjects", isChild: true, needs: "hasKeda" },
  TriggerAuthentication: {
    apiVersion: "keda.sh/v1alpha1",
    plural: "triggerauthentications",
    isChild: true,
    needs: "hasKeda",
  },
  HTTPRoute: {
    apiVersion: "gateway.networking.k8s.io/v1",
    plural: "httproutes",
    isChild: true,
    needs: "hasGatewayApi",
  },
  Cluster: { apiVersion: "postgresql.cnpg.io/v1", plural: "clusters", isChild: true, needs: "hasCnpg" },
} as const satisfies Record<string, Kind>;

export type KindName = keyof typeof kinds;

/** Returns the kinds of rendered objects that this cluster serves. */
export const childKinds = (traits: Record<NonNullable<Kind["needs"]>, boolean>): KindName[] =>
  (Object.keys(kinds) as KindName[]).filter((name) => {
    const kind: Pick<Kind, "isChild" | "needs"> = kinds[name];
    return kind.isChild && (kind.needs === undefined || traits[kind.needs]);
  });

/**
 * Returns `/apis/apps/v1/namespaces/agents/deployments[/name]`.
 * @throws UnusableWorkload for a name that no object can have: as a part of a path, it could lead to another object
 */
export function pathOf(kind: string, namespace: string, name?: string): string {
  for (const part of [namespace, name ?? ""]) {
    if (/^\.{1,2}$|[^a-zA-Z0-9._:-]/.test(part))
      throw new UnusableWorkload(`'${part}' is not a valid name of a ${kind}. Use letters, digits, '-' and '.'.`);
  }
  const { apiVersion, plural } = kinds[kind as KindName];
  const root = apiVersion === "v1" ? "/api/v1" : `/apis/${apiVersion}`;
  return `${root}/namespaces/${namespace}/${plural}${name === undefined ? "" : `/${name}`}`;
}
