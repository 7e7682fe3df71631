import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ApiServer } from "../../../src/compute/kubernetes/api/api-server.ts";
import type { ClusterPolicy } from "../../../src/compute/kubernetes/cluster-context.ts";
import { openKubernetesCluster } from "../../../src/compute/kubernetes/kubernetes-cluster.ts";
import { createLogger } from "../../../src/telemetry/log.ts";

const key = { deploymentId: "d", slug: "agent", namespace: null };

test("output and limits are those of the agent, even if a service mesh puts its proxy first", async () => {
  const proxy = { name: "linkerd-proxy", resources: { limits: { memory: "20Mi" } } };
  const agent = { name: "api-server", resources: { limits: { memory: "512Mi", cpu: "1" } } };
  const statuses = [runs("linkerd-proxy"), runs("api-server")];
  await using site = await openSite([podOf("agent-a1-x", [proxy, agent], statuses)]);
  const { replicas } = await site.cluster.inspect(key, AbortSignal.timeout(10_000));
  assert.deepEqual(replicas[0]?.limits, { memory: "512Mi", cpu: "1" });
  await site.cluster.readLogs("agent-a1-x", null, 1_000);
  assert.deepEqual(site.logsOf, ["agent-a1-x api-server"]);
});

test("the log of a pod is read once its container has run, whether it is ready or not", async () => {
  const agent = { name: "api-server" };
  const pulls = { ...runs("api-server"), state: { waiting: { reason: "ImagePullBackOff" } } };
  const crashes = { ...pulls, lastState: { terminated: { exitCode: 1 } } };
  await using site = await openSite([
    podOf("agent-a1-runs", [agent], [runs("api-server")]),
    podOf("agent-a1-pulls", [agent], [pulls]),
    podOf("agent-a1-crashes", [agent], [crashes]),
    podOf("agent-a1-unplaced", [agent], undefined),
  ]);
  const { replicas } = await site.cluster.inspect(key, AbortSignal.timeout(10_000));
  for (const { replica_id, phase } of replicas) {
    assert.equal(phase, "starting");
    await site.cluster.readLogs(replica_id, null, 1_000);
  }
  assert.deepEqual(site.logsOf, ["agent-a1-runs api-server", "agent-a1-crashes api-server"]);
});

const runs = (name: string) => ({ name, image: "a", restartCount: 0, state: { running: { startedAt: "" } } });

function podOf(name: string, containers: object[], containerStatuses: object[] | undefined): object {
  const labels = { "app.kubernetes.io/component": "server" };
  return { metadata: { name, labels }, spec: { containers }, status: { phase: "Running", containerStatuses } };
}

/** A cluster with only these pods. */
async function openSite(pods: object[]) {
  const logsOf: string[] = [];
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "", "http://cluster");
    const [, pod] = /\/pods\/([^/]+)\/log$/.exec(pathname) ?? [];
    if (pod !== undefined) logsOf.push(`${pod} ${searchParams.get("container")}`);
    const items = pathname.endsWith("/pods") ? pods : [];
    const answers: Record<string, object> = {
      "/version": { gitVersion: "v1.34.0", minor: "34" },
      "/apis": { groups: [] },
    };
    response.end(pod !== undefined ? "" : JSON.stringify(answers[pathname] ?? { items, metadata: {} }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = new ApiServer({ url, ca: null, token: async () => "token" });
  const options = { api, namespaces: ["agents"], policy: {} as ClusterPolicy, logger: createLogger("silent") };
  const cluster = await openKubernetesCluster(options);
  return {
    cluster,
    logsOf,
    async [Symbol.asyncDispose]() {
      await cluster.close();
      server.closeAllConnections();
      server.close();
    },
  };
}
