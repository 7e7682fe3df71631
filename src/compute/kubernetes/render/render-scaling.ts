import type { ClusterSizes } from "../../../contract/listeners/cluster.ts";
import type { Manifest } from "../api/manifest.ts";
import type { ClusterTraits } from "../cluster-context.ts";
import type { DatabaseMode, Workload } from "../workload.ts";
import { annotationsOf, labelsOf, selectorOf } from "./names.ts";
import { nameOf } from "./render-pods.ts";

/** As in the original: scales up at three quarters, and scales down after half an hour of lower load. */
const utilizationPercent = 75;
const scaleDownWindowS = 1_800;

/** Pending runs per worker. */
const pendingRunsPerWorker = 10;

type Part = "server" | "queue";
type Scale = Pick<ClusterSizes, "minReplicas" | "maxReplicas">;

const scaleOf = ({ cluster }: Workload, part: Part): Scale => (part === "server" ? cluster.sizes : cluster.sizes.queue);

/** Returns the replicas that the Deployment sets itself; null: an autoscaler sets them. */
export function fixedReplicas(workload: Workload, part: Part, traits: ClusterTraits): number | null {
  return scalerOf(workload, part, traits) === null ? Math.max(1, scaleOf(workload, part).minReplicas) : null;
}

/** Returns the autoscaler to use. Without metrics there is none, because it could not scale. */
export function scalerOf(workload: Workload, part: Part, traits: ClusterTraits): "hpa" | "keda" | null {
  const { minReplicas, maxReplicas } = scaleOf(workload, part);
  if (maxReplicas <= minReplicas) return null;
  if (part === "queue" && traits.hasKeda) return "keda";
  return traits.hasMetrics ? "hpa" : null;
}

export function renderScaling(
  workload: Workload,
  part: Part,
  { traits, database }: { traits: ClusterTraits; database: DatabaseMode },
): Manifest[] {
  const scale = scaleOf(workload, part);
  const scaler = scalerOf(workload, part, traits);
  const metadata = {
    name: nameOf(workload.slug, part),
    namespace: workload.cluster.namespace as string,
    labels: labelsOf(workload, part),
    ...annotationsOf(workload),
  };
  return [
    ...(scaler === "hpa" ? [autoscaler(metadata, scale)] : []),
    ...(scaler === "keda" ? scaledObject(workload, metadata, scale, database) : []),
    // With one replica a disruption budget would only block the draining of its node.
    ...(scale.minReplicas > 1 ? [disruptionBudget(workload, part, metadata)] : []),
  ];
}

function autoscaler(metadata: Manifest["metadata"], { minReplicas, maxReplicas }: Scale): Manifest {
  const target = { type: "Utilization", averageUtilization: utilizationPercent };
  return {
    apiVersion: "autoscaling/v2",
    kind: "HorizontalPodAutoscaler",
    metadata,
    spec: {
      scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: metadata.name },
      minReplicas: Math.max(1, minReplicas),
      maxReplicas,
      metrics: ["cpu", "memory"].map((name) => ({ type: "Resource", resource: { name, target } })),
      behavior: { scaleDown: { stabilizationWindowSeconds: scaleDownWindowS } },
    },
  };
}

/** Renders a KEDA scaler, which, unlike the built-in one, can count pending runs. */
function scaledObject(
  { slug }: Workload,
  metadata: Manifest["metadata"],
  { minReplicas, maxReplicas }: Scale,
  database: DatabaseMode,
): Manifest[] {
  const utilization = (type: string) => ({
    type,
    metricType: "Utilization",
    metadata: { value: String(utilizationPercent) },
  });
  const triggers: object[] = [utilization("cpu"), utilization("memory")];
  const extra: Manifest[] = [];
  if (database !== "external") {
    const secret = database === "cnpg" ? `${slug}-postgres-app` : `${slug}-postgres`;
    extra.push({
      apiVersion: "keda.sh/v1alpha1",
      kind: "TriggerAuthentication",
      metadata,
      spec: { secretTargetRef: [{ parameter: "connection", name: secret, key: "uri" }] },
    });
    triggers.push({
      type: "postgresql",
      metadata: {
        query: "select count(*) from run where status = 'pending'",
        targetQueryValue: String(pendingRunsPerWorker),
      },
      authenticationRef: { name: metadata.name },
    });
  }
  return [
    ...extra,
    {
      apiVersion: "keda.sh/v1alpha1",
      kind: "ScaledObject",
      metadata,
      spec: {
        scaleTargetRef: { apiVersion: "apps/v1", kind: "Deployment", name: metadata.name },
        minReplicaCount: minReplicas,
        maxReplicaCount: maxReplicas,
        pollingInterval: 30,
        cooldownPeriod: 300,
        advanced: {
          horizontalPodAutoscalerConfig: {
            behavior: { scaleDown: { stabilizationWindowSeconds: scaleDownWindowS } },
          },
        },
        triggers,
      },
    },
  ];
}

function disruptionBudget({ deploymentId }: Workload, part: Part, metadata: Manifest["metadata"]): Manifest {
  return {
    apiVersion: "policy/v1",
    kind: "PodDisruptionBudget",
    metadata,
    spec: { maxUnavailable: 1, selector: { matchLabels: selectorOf(deploymentId, part) } },
  };
}
