import { createHash } from "node:crypto";
import type { Workload } from "../workload.ts";

export const labelPrefix = "pierhead.dev/";
export const deploymentLabel = `${labelPrefix}deployment-id`;
/** Owner of a deployment. Other listeners may use the same namespace, and without this label their objects look like ours. */
export const listenerLabel = `${labelPrefix}listener-id`;
export const revisionAnnotation = `${labelPrefix}revision-id`;
export const pausedAnnotation = `${labelPrefix}paused`;
export const driftAnnotation = `${labelPrefix}drift`;
/** Tells the gateway in the cluster which deployment a Service is for, and whom it admits: `ServiceRoute` as JSON. */
export const routeAnnotation = `${labelPrefix}route`;
/** Marks a Deployment that was put to sleep. It stays until the deployment serves again after it was woken. */
export const asleepAnnotation = `${labelPrefix}asleep`;
export const dataAnnotation = `${labelPrefix}data`;
/** Marks the remaining data of a deleted deployment. */
export const retainedLabel = `${labelPrefix}retained`;
export const componentLabel = "app.kubernetes.io/component";
export const managedByLabel = "app.kubernetes.io/managed-by";
export const teardownFinalizer = `${labelPrefix}teardown`;

/** Marks every object that we create, and is the selector of our watches. */
export const managedBy = "pierhead";

export type Component = "anchor" | "server" | "queue" | "redis" | "postgres";

/** Immutable in a Deployment, so it contains nothing that a user can change. */
export const selectorOf = (deploymentId: string, component: Component) => ({
  [deploymentLabel]: deploymentId,
  [componentLabel]: component,
});

export function labelsOf(workload: Workload, component: Component): Record<string, string> {
  return {
    ...workload.cluster.spec.labels,
    [managedByLabel]: managedBy,
    "app.kubernetes.io/name": "agent",
    "app.kubernetes.io/instance": workload.slug,
    [`${labelPrefix}tenant-id`]: workload.tenantId,
    ...selectorOf(workload.deploymentId, component),
  };
}

/** Returns no map when it would be empty: we would own it until a controller writes its first annotation, which then looks like drift. */
export function annotationsOf({ cluster: { spec } }: Workload): { annotations?: Record<string, string> } {
  return Object.keys(spec.annotations ?? {}).length > 0 ? { annotations: { ...spec.annotations } } : {};
}

/** Derives the name from the content. Secrets are never changed, so pods of a rollback find their own. */
export function secretNameOf({ slug, secrets }: Pick<Workload, "slug" | "secrets">): string {
  const sorted = Object.entries(secrets).toSorted(([a], [b]) => (a < b ? -1 : 1));
  return `${slug}-env-${createHash("sha256").update(JSON.stringify(sorted)).digest("hex").slice(0, 10)}`;
}

/** Formats Kubernetes quantities. 0.5 cores are `500m`. */
export const cpu = (cores: number) => `${Math.round(cores * 1_000)}m`;
export const memory = (mib: number) => `${mib}Mi`;
