import assert from "node:assert/strict";
import { test } from "node:test";
import { startOAuthServer } from "../support/oauth-server.ts";
import { startTestServer } from "../support/server.ts";
import { signServiceKey } from "../support/service-key.ts";

const serviceSecret = "a shared secret of 32 characters";
const started = () => startTestServer({ PIERHEAD_COMPUTE: "simulated", PIERHEAD_SERVICE_KEY_SECRET: serviceSecret });

test("does not request a code without PKCE, also for a client with a secret, unless the provider's metadata lacks it", async () => {
  await using server = await started();
  await using provider = await startOAuthServer();
  const endpoints = { auth_url: `${provider.url}/authorize`, token_url: `${provider.url}/token` };
  const headers = { "x-api-key": server.apiKey, "content-type": "application/json", "x-user-id": "alice" };
  const post = async (pathname: string, body: object, method = "POST") => {
    const answer = await fetch(`${server.url}${pathname}`, { method, headers, body: JSON.stringify(body) });
    assert.equal(answer.status, 200, await answer.clone().text());
    return (await answer.json()) as Record<string, unknown>;
  };
  let methods: string[] | undefined = ["S256"];
  provider.answer = ({ path }) =>
    path.startsWith("/.well-known/")
      ? { json: { issuer: provider.url, code_challenge_methods_supported: methods } }
      : { json: { access_token: "a", token_type: "Bearer" } };
  let count = 0;
  const challengeWith = async (settings: object, patch?: object) => {
    const provider_id = `p${count++}`;
    const made = { provider_id, name: "P", client_id: "c", client_secret: "s", ...endpoints, ...settings };
    await post("/v2/auth/providers", made);
    if (patch !== undefined) await post(`/v2/auth/providers/${provider_id}`, patch, "PATCH");
    const { url } = await post("/v2/auth/authenticate", { provider: provider_id, scopes: ["read"], user_id: "alice" });
    const { searchParams } = new URL(String(url));
    return [searchParams.has("code_challenge"), searchParams.get("code_challenge_method")];
  };
  const withPkce = [true, "S256"];
  assert.deepEqual(await challengeWith({}), withPkce);
  assert.deepEqual(await challengeWith({ uses_pkce: false }), withPkce);
  assert.deepEqual(await challengeWith({}, { uses_pkce: false }), withPkce);
  assert.deepEqual(await challengeWith({ uses_pkce: false, issuer: provider.url }), withPkce);
  assert.deepEqual(await challengeWith({ uses_pkce: false, issuer: `${provider.url}/elsewhere` }), withPkce);
  methods = undefined;
  assert.deepEqual(await challengeWith({ issuer: provider.url }), withPkce);
  assert.deepEqual(await challengeWith({ uses_pkce: false, issuer: provider.url }), [false, null]);
  assert.deepEqual(await challengeWith({ issuer: provider.url }, { uses_pkce: false }), [false, null]);
});

test("does not accept a service key that stays valid for longer than an hour", async () => {
  await using server = await started();
  const tenantId = server.server.credentials.workspaceId;
  const nowS = Date.now() / 1_000;
  const statusOf = async (claims: object) => {
    const key = signServiceKey({ sub: "tools", tenant_id: tenantId, ...claims }, { secret: serviceSecret });
    const answer = await fetch(`${server.url}/v2/auth/tokens`, { headers: { "x-service-key": key, "x-user-id": "a" } });
    return answer.status;
  };
  assert.equal(await statusOf({ exp: nowS + 300, iat: nowS }), 200);
  assert.equal(await statusOf({ exp: nowS + 3_600 }), 200);
  assert.equal(await statusOf({ exp: nowS + 7_200 }), 401);
  assert.equal(await statusOf({ exp: nowS + 10 * 365 * 86_400 }), 401);
  assert.equal(await statusOf({ exp: nowS + 3_600, iat: nowS + 1_800 }), 401);
  assert.equal(await statusOf({ exp: nowS + 3_600, nbf: nowS + 1_800 }), 401);
});

test("tokens that exist are never revoked at another host than the one that they were issued with", async () => {
  await using server = await started();
  await using provider = await startOAuthServer();
  await using other = await startOAuthServer();
  const call = async (method: string, pathname: string, body?: object, expected = 200) => {
    const headers = { "x-api-key": server.apiKey, "content-type": "application/json", "x-user-id": "alice" };
    const answer = await fetch(`${server.url}${pathname}`, { method, headers, body: JSON.stringify(body) });
    assert.equal(answer.status, expected, `${JSON.stringify(body)}: ${await answer.clone().text()}`);
  };
  const token_url = `${provider.url}/token`;
  const made = { provider_id: "p", name: "P", client_id: "c", auth_url: `${provider.url}/authorize`, token_url };
  const token = { provider_id: "p", access_token: "access", refresh_token: "refresh" };
  const revocation_url = `${other.url}/revoke`;
  const patch = (fields: object, expected?: number) => call("PATCH", "/v2/auth/providers/p", fields, expected);

  for (const client of [{}, { client_secret: "s" }]) {
    await call("POST", "/v2/auth/providers", { ...made, ...client });
    await call("POST", "/v2/auth/tokens/import", token);
    await patch({ ...client, revocation_url }, 400);
    // The same by way of a token endpoint there.
    await patch({ ...client, token_url: `${other.url}/token`, revocation_url });
    await patch({ ...client, token_url }, 400);
    await patch({ ...client, token_url, revocation_url: `${provider.url}/revoke` });
    await call("DELETE", "/v2/auth/providers/p");
    assert.deepEqual(
      provider.calls.splice(0).flatMap(({ form }) => form["token"] ?? []),
      ["refresh", "access"],
    );
  }
  assert.equal(other.calls.length, 0);
  // Without tokens it may move, and tokens from then on are revoked there.
  await call("POST", "/v2/auth/providers", made);
  await patch({ revocation_url });
  await call("POST", "/v2/auth/tokens/import", token);
  await patch({ name: "Q" });
  await call("DELETE", "/v2/auth/providers/p");
  assert.equal(other.calls.length, 2);
});
