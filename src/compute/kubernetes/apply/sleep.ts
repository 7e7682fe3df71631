import type { ApiServer } from "../api/api-server.ts";
import { pathOf } from "../api/kinds.ts";
import type { LiveObject } from "../api/manifest.ts";
import { asleepAnnotation } from "../render/names.ts";

/** Field manager that owns the number of replicas while the listener does not. */
export const scaleManager = "pierhead-scale";

interface Key {
  namespace: string;
  name: string;
}

/**
 * Puts a Deployment to sleep: it has no replicas until the gateway in the cluster sets one. Or wakes it, and on a second call records
 * that it is awake. Until then, requests wait for it.
 */
export async function setAsleep(api: ApiServer, key: Key, isAsleep: boolean, signal: AbortSignal): Promise<void> {
  const there = await api.get<LiveObject>("Deployment", key.namespace, key.name, signal);
  const { replicas } = (there?.["spec"] ?? {}) as { replicas?: number };
  // The gateway may wake it, or an autoscaler may act, at the same moment.
  const resourceVersion = there?.metadata.resourceVersion;
  const isWoken = !isAsleep && replicas === 0;
  const annotations = { [asleepAnnotation]: isAsleep ? new Date().toISOString() : null };
  const body = isWoken
    ? { metadata: { resourceVersion }, spec: { replicas: 1 } }
    : { metadata: { resourceVersion, annotations }, ...(isAsleep && { spec: { replicas: 0 } }) };
  const path = pathOf("Deployment", key.namespace, key.name);
  const query = { fieldManager: scaleManager };
  await api.call({ method: "PATCH", path, query, body, type: "merge", signal });
}

/**
 * Sets the first replica of a sleeping Deployment, with the rights of the gateway in the cluster: it may change the scale only.
 * @throws KubeError with status 409 if the Deployment has changed since this version
 */
export async function wake(api: ApiServer, key: Key & { resourceVersion: string }, signal: AbortSignal): Promise<void> {
  const { namespace, name, resourceVersion } = key;
  const path = `${pathOf("Deployment", namespace, name)}/scale`;
  const body = { metadata: { resourceVersion }, spec: { replicas: 1 } };
  await api.call({ method: "PATCH", path, query: { fieldManager: scaleManager }, body, type: "merge", signal });
}
