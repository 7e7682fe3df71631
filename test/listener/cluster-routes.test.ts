import assert from "node:assert/strict";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ApiServer } from "../../src/compute/kubernetes/api/api-server.ts";
import { createGateway } from "../../src/gateway/gateway.ts";
import { ClusterRoutes } from "../../src/listener/clusters/cluster-routes.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { eventually } from "../support/eventually.ts";

/** An API server without objects, whose watches report the events that the test sends. */
async function openApi() {
  const watches = new Map<string, ServerResponse>();
  let version = 1;
  const server = createServer((request, response) => {
    const [path = "", query = ""] = request.url?.split("?") ?? [];
    if (!query.includes("watch=true")) {
      response.end(JSON.stringify({ items: [], metadata: { resourceVersion: "1" } }));
      return;
    }
    response.flushHeaders();
    watches.set(path, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = new ApiServer({ url, ca: null, token: async () => "token" });
  return {
    api,
    watched: () => watches.size,
    tell(type: string, namespace: string, deploymentId: string) {
      version += 1;
      const route = { slug: "agent-1", deployment_id: deploymentId, workspace_id: "w" };
      const annotations = { "pierhead.dev/route": JSON.stringify(route) };
      const metadata = { namespace, name: "agent-1", uid: deploymentId, resourceVersion: String(version), annotations };
      const event = { type, object: { apiVersion: "v1", kind: "Service", metadata } };
      watches.get(`/api/v1/namespaces/${namespace}/services`)?.write(`${JSON.stringify(event)}\n`);
    },
    async [Symbol.asyncDispose]() {
      api.close();
      server.closeAllConnections();
      server.close();
    },
  };
}

test("keeps the route of a new deployment when one with its name in another namespace is deleted later", async () => {
  await using site = await openApi();
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "agents.example.com", pathPrefix: "/d/", publicUrl: null, logger });
  const routes = new ClusterRoutes({ api: site.api, namespaces: ["old", "new"], traffic: gateway, logger });
  const served = () => gateway.counts().map(({ deploymentId }) => deploymentId);
  const shows = (expected: string[]) => eventually(served, (ids) => ids.join() === expected.join());
  try {
    assert.equal(routes.isListed, false, "not ready before it starts");
    routes.start();
    await eventually(site.watched, (count) => count === 6);
    assert.equal(routes.isListed, true);
    site.tell("ADDED", "old", "first");
    await shows(["first"]);
    site.tell("ADDED", "new", "second");
    await shows(["second"]);
    site.tell("DELETED", "old", "first");
    site.tell("ADDED", "old", "third");
    await shows(["third"]);
    site.tell("DELETED", "old", "third");
    await shows(["second"]);
    site.tell("DELETED", "new", "second");
    await shows([]);
  } finally {
    routes.close();
    await gateway.close();
  }
});
