import type { Engine } from "../../../contract/listeners/assignment.ts";
import type { ClusterSizes } from "../../../contract/listeners/cluster.ts";
import type { Manifest } from "../api/manifest.ts";
import type { ClusterTraits } from "../cluster-context.ts";
import type { DatabaseMode, Workload } from "../workload.ts";
import { annotationsOf, labelsOf, selectorOf } from "./names.ts";
import { nameOf, wantsQueue } from "./render-pods.ts";

/** As in the original: scales up at three quarters, and scales down after half an hour of lower load. */
const utilizationPercent = 75;
const scaleDownWindowS = 1_800;

/** Pending runs per worker. */
const pendingRunsPerWorker = 10;

/** Counts the pending runs of the engines that keep a queue in the deployment's database. */
const pendingRunsOf: Partial<Record<Engine, string>> = {
  postgres: "select count(*) from langgraph.runs where (status = 'pending' and due_at <= now())",
  aegra: "select count(*) from aegra.runs where status = 'pending'",
};

/** Returns the query that counts the runs that wait for a part; null: the part executes no runs, or its server is unknown. */
function pendingRunsQuery({ engine, cluster }: Workload, part: Part): string | null {
  const query = pendingRunsOf[engine ?? "own"] ?? null;
  // Workers also count the runs that they execute: without workers, no server would go on with these.
  if (part === "queue" && query !== null) return `${query} or status = 'running'`;
  if (part === "queue") return "select count(*) from run where status in ('pending', 'running')";
  return wantsQueue(cluster, engine) ? null : query;
}

type Part = "server" | "queue";
type Scale = Pick<ClusterSizes, "minReplicas" | "maxReplicas">;

const scaleOf = ({ cluster }: Workload, part: Part): Scale => (part === "server" ? cluster.sizes : cluster.sizes.queue);

/** Returns the replicas that the Deployment sets itself; null: an autoscaler sets them, or it sleeps and is woken. */
export function fixedReplicas(workload: Workload, part: Part, traits: ClusterTraits): number | null {
  if (workload.maySleep && part === "server") return null;
  if (isStartingAlone(workload)) return 1;
  return scalerOf(workload, part, traits) === null ? Math.max(1, scaleOf(workload, part).minReplicas) : null;
}

/** Whether this is the first pod of a deployment whose start commands must not run in two pods at once. */
const isStartingAlone = ({ startsAlone, isFirst }: Workload) => startsAlone === true && isFirst === true;

/** Returns the autoscaler to use. Without metrics there is none, because it could not scale. */
export function scalerOf(workload: Workload, part: Part, traits: ClusterTraits): "hpa" | "keda" | null {
  const { minReplicas, maxReplicas } = scaleOf(workload, part);
  if (maxReplicas <= minReplicas || isStartingAlone(workload)) return null;
  if (pendingRunsQuery(workload, part) !== null && traits.hasKeda) return "keda";
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
    ...(scaler === "keda" ? scaledObject(workload, part, { metadata, scale, database }) : []),
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
  workload: Workload,
  part: Part,
  of: { metadata: Manifest["metadata"]; scale: Scale; database: DatabaseMode },
): Manifest[] {
  const { metadata, scale, database } = of;
  const { slug } = workload;
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
        query: pendingRunsQuery(workload, part),
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
        // Without a server, nothing would answer requests, and load never starts a first worker.
        minReplicaCount:
          part === "queue" && database !== "external" ? scale.minReplicas : Math.max(1, scale.minReplicas),
        maxReplicaCount: scale.maxReplicas,
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
