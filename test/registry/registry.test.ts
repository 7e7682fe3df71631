import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { Registry } from "../../src/registry/registry.ts";
import { RegistryLogin } from "../../src/registry/registry-login.ts";
import { createLogger } from "../../src/telemetry/log.ts";

const deploymentId = "00000000-0000-4000-8000-000000000000";
const digestOf = (text: string) => `sha256:${createHash("sha256").update(text).digest("hex")}`;
const config = JSON.stringify({ config: { Labels: { "pierhead.dev/state": "exclusive" } } });
const manifest = JSON.stringify({ config: { digest: digestOf(config) } });
const labels = { "pierhead.dev/state": "exclusive" };

test("reports an error instead of a missing image when the registry answers 429 or 5xx", async (context) => {
  const { registry, state } = await elsewhere(context);
  for (const status of [500, 503, 429]) {
    state.status = status;
    await assert.rejects(registry.findDigest(deploymentId, "app", "1"), new RegExp(`answered ${status}`));
  }
  state.status = 404;
  assert.equal(await registry.findDigest(deploymentId, "app", "1"), null);
  state.status = 200;
  assert.equal(await registry.findDigest(deploymentId, "app", "1"), digestOf(manifest));
});

test("reports an error instead of missing labels when the registry answers 503", async (context) => {
  const { registry, state } = await elsewhere(context);
  assert.deepEqual(await registry.readLabels(deploymentId, "app", digestOf(manifest)), labels);
  state.status = 503;
  await assert.rejects(registry.readLabels(deploymentId, "app", digestOf(manifest)), /answered 503/);
});

test("requests a new token when the registry no longer accepts the cached one", async (context) => {
  const { registry, state } = await elsewhere(context);
  assert.equal(await registry.findDigest(deploymentId, "app", "1"), digestOf(manifest));
  state.token = "second";
  assert.equal(await registry.findDigest(deploymentId, "app", "1"), digestOf(manifest));
  state.token = "third";
  assert.deepEqual(await registry.readLabels(deploymentId, "app", digestOf(manifest)), labels);
});

/** The operator's registry, with a token service and one image. `status` is its answer to requests for the image. */
async function elsewhere(context: TestContext) {
  const state = { status: 200, token: "first" };
  const server = createServer(({ url = "", headers }, response) => {
    const { origin } = address;
    if (url.startsWith("/token")) return response.end(JSON.stringify({ token: state.token, expires_in: 3_600 }));
    if (headers.authorization !== `Bearer ${state.token}`)
      return response.writeHead(401, { "www-authenticate": `Bearer realm="${origin}/token",service="r"` }).end();
    response.writeHead(state.status, { "docker-content-digest": digestOf(manifest) });
    return response.end(url.includes("/blobs/") ? config : manifest);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
  context.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const credentialOf = async () => ({ username: "operator", password: "hidden" });
  const login = new RegistryLogin({ ...address, credentialOf, allowPrivateNetwork: true });
  const registry = new Registry({
    location: async () => ({ ...address, prefix: "", login }),
    signer: { sign: () => "", isSigned: () => false },
    logger: createLogger("silent"),
  });
  context.after(() => registry.close());
  return { registry, state };
}
