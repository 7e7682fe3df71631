import { type ApiServer, KubeError } from "../api/api-server.ts";
import { pathOf } from "../api/kinds.ts";
import type { LiveObject } from "../api/manifest.ts";
import { asleepAnnotation } from "../render/names.ts";

/** Field manager that owns the number of replicas while the listener does not. */
export const scaleManager = "pierhead-scale";

interface Key {
  namespace: string;
  name: string;
}

/** Each change of its status gives a Deployment a new version, most often when its pods start. */
const attemptsMax = 5;

/**
 * Puts a Deployment to sleep: it has no replicas until the gateway in the cluster sets one. Or wakes it, and on a second call records
 * that it is awake. Until then, requests wait for it.
 */
export async function setAsleep(api: ApiServer, key: Key, isAsleep: boolean, signal: AbortSignal): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await trySetAsleep(api, key, isAsleep, signal);
      return;
    } catch (error) {
      const isStale = error instanceof KubeError && error.status === 409;
      if (!isStale || attempt === attemptsMax) throw error;
    }
  }
}

async function trySetAsleep(api: ApiServer, key: Key, isAsleep: boolean, signal: AbortSignal): Promise<void> {
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
