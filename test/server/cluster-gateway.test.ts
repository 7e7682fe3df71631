import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { httpIsReached, httpIsRouted } from "../../src/server/cluster-gateway.ts";

/** The counters of a replica of the gateway that has routes to these deployments. */
async function startReplica(deploymentIds: string[]) {
  const server: Server = createServer(({ url = "" }, response) => {
    response.writeHead(deploymentIds.includes(url.replace(/^\/(open-)?routes\//, "")) ? 200 : 404).end("{}");
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

test("a deployment counts as routed once every replica of the gateway has a route to it", async () => {
  await using one = await startReplica(["a", "b"]);
  await using two = await startReplica(["a"]);
  const { signal } = new AbortController();
  const isRouted = httpIsRouted([one.url, two.url]);
  assert.equal(await isRouted("a", signal), true);
  assert.equal(await isRouted("b", signal), false, "one replica does not know it yet");
  await two[Symbol.asyncDispose]();
  assert.equal(await isRouted("a", signal), false, "a replica does not answer");
  assert.equal(await httpIsRouted([])("a", signal), false, "there is no replica");
});

/** The Service of a deployment, behind which pods answer with this status. */
async function startService(answer: () => number) {
  const server = createServer((_request, response) => response.writeHead(answer()).end());
  await once(server.listen(0, "127.0.0.1"), "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/ok`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

test("requests reach a deployment once its Service answers, with whatever its agent answers", async () => {
  const statuses = [503, 502, 404];
  await using service = await startService(() => statuses.shift() ?? 500);
  const { signal } = new AbortController();
  const isReached = httpIsReached([]);
  const to = { deploymentId: "a", url: service.url };
  assert.equal(await isReached(to, signal), true, "it waits for the answer of an agent");
  assert.deepEqual(statuses, []);
  assert.equal(await isReached(to, signal), false, "a proxy goes on answering that there is no pod");
  await service[Symbol.asyncDispose]();
  assert.equal(await isReached(to, signal), false, "the Service refuses connections");
});

test("with a gateway in the cluster, requests reach a deployment once every replica of it sends them to a pod", async () => {
  const known: string[] = [];
  await using one = await startReplica(["a"]);
  await using two = await startReplica(known);
  const { signal } = new AbortController();
  const isReached = httpIsReached([one.url, two.url]);
  const to = { deploymentId: "a", url: "http://127.0.0.1:1/ok" };
  assert.equal(await isReached(to, signal), false, "one replica knows no pod of it");
  const reached = isReached(to, signal);
  known.push("a");
  assert.equal(await reached, true);
});
