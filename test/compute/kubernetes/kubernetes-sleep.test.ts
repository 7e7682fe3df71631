import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { readText } from "../../../src/base/read-text.ts";
import { ApiServer, KubeError } from "../../../src/compute/kubernetes/api/api-server.ts";
import { setAsleep } from "../../../src/compute/kubernetes/apply/sleep.ts";

const key = { namespace: "agents", name: "agent-1" };

/** An API server with one Deployment, whose status changes between the first `changes` reads and the writes that follow them. */
async function openApi(changes: number) {
  let version = 1;
  let spec = { replicas: 1 };
  const server = createServer(async (request, response) => {
    const answer = (status: number, body: object) =>
      response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
    if (request.method === "GET") {
      const metadata = { ...key, resourceVersion: String(version) };
      if (version <= changes) version += 1;
      return answer(200, { kind: "Deployment", metadata, spec });
    }
    const sent = JSON.parse(await readText(request)) as { metadata: { resourceVersion: string }; spec?: typeof spec };
    if (sent.metadata.resourceVersion !== String(version)) {
      return answer(409, { kind: "Status", status: "Failure", code: 409, reason: "Conflict", message: "modified" });
    }
    spec = { ...spec, ...sent.spec };
    return answer(200, {});
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const api = new ApiServer({ url, ca: null, token: async () => "token" });
  return {
    api,
    replicas: () => spec.replicas,
    async [Symbol.asyncDispose]() {
      api.close();
      server.close();
    },
  };
}

test("puts a deployment to sleep although its status changes at the same moment", async () => {
  await using site = await openApi(3);
  await setAsleep(site.api, key, true, AbortSignal.timeout(10_000));
  assert.equal(site.replicas(), 0);
  await setAsleep(site.api, key, false, AbortSignal.timeout(10_000));
  assert.equal(site.replicas(), 1);
});

test("leaves a deployment that changes all the time for the next pass", async () => {
  await using site = await openApi(1_000);
  const isConflict = (error: unknown) => error instanceof KubeError && error.status === 409;
  await assert.rejects(setAsleep(site.api, key, true, AbortSignal.timeout(10_000)), isConflict);
});
