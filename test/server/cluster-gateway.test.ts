import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { httpIsRouted } from "../../src/server/cluster-gateway.ts";

/** The counters of a replica of the gateway that has routes to these deployments. */
async function startReplica(deploymentIds: string[]) {
  const server: Server = createServer(({ url = "" }, response) => {
    response.writeHead(deploymentIds.includes(url.replace("/routes/", "")) ? 200 : 404).end("{}");
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
