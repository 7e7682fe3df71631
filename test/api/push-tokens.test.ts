import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { accessTokenLifeMs, readAccess } from "../../src/registry/access-token.ts";
import { textSigner } from "../../src/store/secrets/signature.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const bare = await startApi({}, { registry: "its program is not installed." });
const make = async (api: typeof t, source: "internal_docker" | "internal_source") => {
  const body = { name: randomUUID(), source, source_config: {}, source_revision_config: {} };
  return (await api.ask({ method: "POST", url: "/v2/deployments", payload: body })).body.id as string;
};
const askToken = (id: string, api = t) => api.ask({ method: "POST", url: `/v2/deployments/${id}/push-token` });

test("a push token is valid for its deployment's images, for an hour, and cannot be altered", async () => {
  const id = await make(t, "internal_docker");
  const { status, body } = await askToken(id);
  assert.equal(status, 200);
  assert.match(body.registry_url, new RegExp(`^[^/]+/r/${id}$`));
  const signer = textSigner(t.deps.sealer);
  assert.deepEqual(readAccess(signer, body.token), { deploymentId: id, kind: "push" });
  assert.equal(readAccess(signer, body.token, Date.now() + accessTokenLifeMs), null);
  for (const changed of [
    body.token.replace(id, randomUUID()),
    body.token.replace("push.", "pull."),
    body.token.replace(/\.(\d{13})\./, (_: string, at: string) => `.${Number(at) + 1}.`),
    `${body.token}A`,
    "",
  ]) {
    assert.equal(readAccess(signer, changed), null, changed);
  }
});

test("only internal_docker deployments have push tokens; others get the text that clients know", async () => {
  const { status, body } = await askToken(await make(t, "internal_source"));
  assert.equal(status, 400);
  assert.equal(body.detail, "Push tokens are only available for 'internal_docker' source deployments.");
});

test("refuses a push token for a deployment in deletion, and explains it on a server without a registry", async () => {
  const id = await make(t, "internal_docker");
  const refused = await askToken(await make(bare, "internal_docker"), bare);
  assert.equal(refused.status, 503);
  assert.match(refused.body.detail, /no image registry: its program is not installed/);
  await t.ask({ method: "DELETE", url: `/v2/deployments/${id}` });
  assert.equal((await askToken(id)).status, 400);
});
