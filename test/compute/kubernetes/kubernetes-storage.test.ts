import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { ApiServer } from "../../../src/compute/kubernetes/api/api-server.ts";
import type { Manifest } from "../../../src/compute/kubernetes/api/manifest.ts";
import { keepLargerDisks } from "../../../src/compute/kubernetes/data/grow-storage.ts";

const metadata = { name: "agent-postgres", namespace: "agents" };
const statefulSet = (gib: number): Manifest => {
  const template = { spec: { resources: { requests: { storage: `${gib}Gi` } } } };
  return { apiVersion: "apps/v1", kind: "StatefulSet", metadata, spec: { volumeClaimTemplates: [template] } };
};
const cluster = (gib: number): Manifest => {
  return { apiVersion: "postgresql.cnpg.io/v1", kind: "Cluster", metadata, spec: { storage: { size: `${gib}Gi` } } };
};
const redis: Manifest = { apiVersion: "apps/v1", kind: "Deployment", metadata, spec: { replicas: 1 } };

test("a revision that served before keeps the disk that a failed revision has grown", async (context) => {
  for (const made of [statefulSet, cluster]) {
    const api = await serve(made(20));
    context.after(() => api.close());
    const signal = AbortSignal.timeout(10_000);
    assert.deepEqual(await keepLargerDisks(api, [made(10), redis], signal), [made(20), redis]);
    assert.deepEqual(
      await keepLargerDisks(api, [made(30)], signal),
      [made(30)],
      "a larger request than the existing disk stays as requested",
    );
  }
});

/** An API server with one object. */
async function serve(there: Manifest): Promise<ApiServer> {
  const server = createServer((_, response) => response.end(JSON.stringify(there)));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  return new ApiServer({ url, ca: null, token: async () => "token" });
}
