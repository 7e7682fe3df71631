import type { ApiServer } from "../../src/compute/kubernetes/api/api-server.ts";
import type { PodView } from "../../src/compute/kubernetes/watch/rollout.ts";
import { watchKind } from "../../src/compute/kubernetes/watch/watch.ts";
import type { SliceView } from "../../src/listener/clusters/route-table.ts";
import { createLogger } from "../../src/telemetry/log.ts";

/** When the cluster reports the steps of the start of a pod, in ms of `performance.now()`. */
export interface PodStart {
  podCreatedMs: Promise<number>;
  podReadyMs: Promise<number>;
  /** The Service has the pod as a ready endpoint. */
  endpointReadyMs: Promise<number>;
}

/** Follows the next server pod of a namespace that has none. */
export async function followPodStart(api: ApiServer, namespace: string): Promise<PodStart & Disposable> {
  const life = new AbortController();
  const [created, ready, endpoint] = [newTime(), newTime(), newTime()];
  const follow = (kind: string, onObject: (object: unknown) => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const what = { kind, namespace, labelSelector: "app.kubernetes.io/component=server" };
    const onEvent = ({ type, object }: { type: string; object: unknown }) => {
      if (type !== "DELETED") onObject(object);
    };
    const options = { onEvent, onListed: resolve, logger: createLogger("silent"), signal: life.signal };
    void watchKind(api, what, options);
    return promise;
  };
  const pods = follow("Pod", (object) => {
    created.note();
    const { conditions = [] } = (object as PodView).status;
    if (conditions.some(({ type, status }) => type === "Ready" && status === "True")) ready.note();
  });
  const slices = follow("EndpointSlice", (object) => {
    const { endpoints } = object as SliceView;
    if (endpoints?.some(({ conditions }) => conditions?.ready === true)) endpoint.note();
  });
  await Promise.all([pods, slices]);
  const times = { podCreatedMs: created.promise, podReadyMs: ready.promise, endpointReadyMs: endpoint.promise };
  return { ...times, [Symbol.dispose]: () => life.abort() };
}

/** A time that is noted once. */
function newTime() {
  const { promise, resolve } = Promise.withResolvers<number>();
  return { promise, note: () => resolve(performance.now()) };
}
