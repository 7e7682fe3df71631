import type { Manifest } from "../api/manifest.ts";
import type { ClusterPolicy, ClusterTraits } from "../cluster-context.ts";
import type { DatabaseMode, Workload } from "../workload.ts";
import { deploymentLabel, labelsOf, managedBy, managedByLabel } from "./names.ts";
import { renderPostgres, renderRedis } from "./render-data.ts";
import { renderRoute, renderService } from "./render-network.ts";
import { renderDeployment, wantsQueue } from "./render-pods.ts";
import { fixedReplicas, renderScaling } from "./render-scaling.ts";

export interface RenderContext {
  traits: ClusterTraits;
  policy: ClusterPolicy;
  database: DatabaseMode;
}

export interface Rendered {
  /** Must be ready before the rest is applied. */
  data: Manifest[];
  /** In the order of their application. Without Secrets, which are created once and never changed. */
  rest: Manifest[];
}

/** Renders every object of a deployment except its anchor and its Secrets. Pure. */
export function render(workload: Workload, context: RenderContext): Rendered {
  const { traits, policy, database } = context;
  const hasRedis = needsRedis(workload);
  const hasQueue = wantsQueue(workload.cluster, workload.engine);
  const parts = hasQueue ? (["server", "queue"] as const) : (["server"] as const);
  const pods = { policy, database, hasRedis, hasQueue };
  const data = [
    ...(database === "external" ? [] : renderPostgres(workload, database, policy)),
    ...(hasRedis ? renderRedis(workload, policy) : []),
  ];
  const deployments = parts.map((part) => {
    const manifest = renderDeployment(workload, part, pods);
    const replicas = fixedReplicas(workload, part, traits);
    return replicas === null ? manifest : { ...manifest, spec: { replicas, ...(manifest["spec"] as object) } };
  });
  return {
    data,
    rest: [
      ...serviceAccount(workload),
      renderService(workload, policy),
      ...deployments,
      ...parts.flatMap((part) => renderScaling(workload, part, { traits, database })),
      ...renderRoute(workload, traits, policy),
    ],
  };
}

/** Returns whether the deployment uses a database elsewhere: named by `POSTGRES_URI_CUSTOM` or injected. */
export function hasOwnDatabase(workload: Workload): boolean {
  return isGiven(workload, ["POSTGRES_URI_CUSTOM", "POSTGRES_URI", "DATABASE_URI"]);
}

export const needsRedis = (workload: Workload): boolean => !isGiven(workload, ["REDIS_URI_CUSTOM", "REDIS_URI"]);

function isGiven({ secrets, env, cluster }: Workload, names: string[]): boolean {
  const references = cluster.secret_references.map(({ name }) => name);
  return names.some((name) => name in secrets || name in env || references.includes(name));
}

function serviceAccount(workload: Workload): Manifest[] {
  const { cluster, slug } = workload;
  if (cluster.spec.service_account_name != null) return [];
  return [
    {
      apiVersion: "v1",
      kind: "ServiceAccount",
      metadata: { name: slug, namespace: cluster.namespace as string, labels: labelsOf(workload, "server") },
      automountServiceAccountToken: false,
    },
  ];
}

export const selectorText = (deploymentId: string) => `${deploymentLabel}=${deploymentId}`;
export const managedText = `${managedByLabel}=${managedBy}`;
