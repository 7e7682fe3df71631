import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { make, type Plane } from "./plane.ts";

/** The Metrics API of a cluster without kubelets: every pod has the usage in `usage`. */
export interface MetricsServer extends AsyncDisposable {
  usage: { cpu: string; memory: string };
  /** Answers 503, like a server whose pod is gone. */
  isDown: boolean;
}

const group = "metrics.k8s.io";
const version = "v1beta1";
const root = `/apis/${group}/${version}`;
const services = "/apis/apiregistration.k8s.io/v1/apiservices";
const namespace = "kube-system";
const name = "metrics-server";

interface PodList {
  items: { metadata: { name: string; labels: object }; spec: { containers: { name: string }[] } }[];
}

/** Registers it like metrics-server: the API server checks who may read and forwards the call. */
export async function startMetricsServer({ admin, tls }: Plane): Promise<MetricsServer> {
  const state = { usage: { cpu: "0", memory: "0" }, isDown: false };
  const listPods = async (of: string, query: URLSearchParams) => {
    const path = `/api/v1/namespaces/${of}/pods`;
    const selector = { labelSelector: query.get("labelSelector") ?? undefined };
    const signal = AbortSignal.timeout(30_000);
    const { items } = await admin.call<PodList>({ method: "GET", path, query: selector, signal });
    const containersOf = (pod: PodList["items"][number]) =>
      pod.spec.containers.map((container) => ({ name: container.name, usage: state.usage }));
    return items.map((pod) => ({ ...pod, timestamp: new Date(), window: "15s", containers: containersOf(pod) }));
  };
  const answer = async (path: string): Promise<object> => {
    const url = new URL(path, "https://metrics");
    const [, of] = /\/namespaces\/([^/]+)\/pods$/.exec(url.pathname) ?? [];
    const apiVersion = `${group}/${version}`;
    if (of !== undefined) {
      const items = await listPods(of, url.searchParams);
      return { kind: "PodMetricsList", apiVersion, metadata: {}, items };
    }
    const pods = { name: "pods", singularName: "", namespaced: true, kind: "PodMetrics", verbs: ["get", "list"] };
    return { kind: "APIResourceList", apiVersion: "v1", groupVersion: apiVersion, resources: [pods] };
  };
  const server = createServer(tls, (request, response) => {
    const say = (status: number, body: object) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    const isOurs = (request.url ?? "").startsWith(root);
    if (state.isDown || !isOurs) return void say(state.isDown ? 503 : 404, {});
    answer(request.url ?? "").then(
      (body) => say(200, body),
      () => say(500, {}),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = () => {
    server.closeAllConnections();
    server.close();
  };
  await register(admin, (server.address() as AddressInfo).port).catch((error) => {
    close();
    throw error;
  });
  return Object.assign(state, {
    async [Symbol.asyncDispose]() {
      close();
      for (const path of [`${services}/${version}.${group}`, `/api/v1/namespaces/${namespace}/services/${name}`]) {
        await admin.call({ method: "DELETE", path, signal: AbortSignal.timeout(30_000) });
      }
    },
  });
}

async function register(admin: Plane["admin"], port: number): Promise<void> {
  const service = { type: "ExternalName", externalName: "localhost" };
  await make(admin, `/api/v1/namespaces/${namespace}/services`, { metadata: { name }, spec: service });
  await make(admin, services, {
    metadata: { name: `${version}.${group}` },
    spec: {
      group,
      version,
      groupPriorityMinimum: 100,
      versionPriority: 100,
      insecureSkipTLSVerify: true,
      service: { namespace, name, port },
    },
  });
}
