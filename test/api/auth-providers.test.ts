import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { authFixtureOf } from "./auth-fixture.ts";
import { startApi } from "./harness.ts";

const t = await startApi({ allowPrivateNetwork: false });
const url = "/v2/auth/providers";

const example = {
  provider_id: "example",
  name: "Example",
  client_id: "client",
  client_secret: "canary-client-secret",
  auth_url: "https://id.example.com/authorize",
  token_url: "https://id.example.com/token",
};

const create = (body: object, more: object = {}) =>
  t.ask({ method: "POST", url, payload: { ...example, ...body }, ...more });

test("creates, reads, lists, changes and deletes a provider without ever showing its secret", async () => {
  const made = await create({ provider_id: "life" });
  assert.equal(made.status, 200);
  const { id, created_at, updated_at, ...rest } = made.body;
  assert.deepEqual(rest, {
    organization_id: t.tenant.organizationId,
    provider_id: "life",
    name: "Example",
    client_id: "client",
    auth_url: example.auth_url,
    token_url: example.token_url,
    uses_pkce: true,
    provider_type: null,
    token_endpoint_auth_method: "client_secret_post",
    authorization_params: {},
    allowed_redirect_uris: [],
    default_redirect_uri: null,
    issuer: null,
    revocation_url: null,
    code_challenge_method: "S256",
    mcp_server_url: null,
    is_dynamic_client: false,
    scopes_supported: null,
    redirect_uri: "http://127.0.0.1:8124/v2/auth/callback/life",
  });
  assert.deepEqual((await t.ask({ url: `${url}/life` })).body, made.body);
  assert.ok((await t.ask({ url })).body.some((one: { id: string }) => one.id === id));

  const patch = { uses_pkce: true, name: null, client_secret: "canary-second-secret" };
  const patched = await t.ask({ method: "PATCH", url: `${url}/life`, payload: patch });
  assert.deepEqual([patched.status, patched.body.uses_pkce, patched.body.code_challenge_method], [200, true, "S256"]);
  assert.equal(patched.body.name, "Example");

  for (const { text } of [made, patched, await t.ask({ url })]) assert.ok(!text.includes("canary"));
  for (const table of ["oauth_providers", "audit_log"]) {
    const { rows } = await t.db.query<{ row: string }>(sql`select t::text as row from ${sql.identifier(table)} t`);
    assert.ok(rows.length > 0 && !rows.some(({ row }) => row.includes("canary")), table);
  }

  const deleted = await t.ask({ method: "DELETE", url: `${url}/life` });
  assert.deepEqual([deleted.status, deleted.body], [200, { message: "OAuth provider 'life' deleted." }]);
  const gone = await t.ask({ url: `${url}/life` });
  assert.deepEqual([gone.status, gone.body], [404, { detail: "OAuth provider 'life' not found" }]);
});

test("provider names are unique within an organization and invisible to others", async () => {
  assert.equal((await create({ provider_id: "mine" })).status, 200);
  const again = await create({ provider_id: "mine" });
  assert.deepEqual([again.status, again.body.detail], [409, "OAuth provider 'mine' already exists."]);
  const key = t.stranger.adminKey;
  for (const request of [
    { url: `${url}/mine` },
    { method: "PATCH" as const, url: `${url}/mine`, payload: { name: "Theirs" } },
    { method: "DELETE" as const, url: `${url}/mine` },
  ]) {
    const answer = await t.ask({ ...request, key });
    assert.deepEqual([answer.status, answer.body], [404, { detail: "OAuth provider 'mine' not found" }]);
  }
  assert.equal((await create({ provider_id: "mine" }, { key })).status, 200);
});

test("a preset fills in the settings of a common provider", async () => {
  const { body: presets } = await t.ask({ url: "/v2/auth/provider-presets" });
  assert.deepEqual(
    presets.map(({ id }: { id: string }) => id),
    ["github", "google", "slack", "microsoft", "salesforce", "linear", "notion"],
  );
  for (const preset of presets) {
    const payload = { provider_id: preset.id, preset: preset.id, client_id: "c", client_secret: "s" };
    const made = await t.ask({ method: "POST", url, payload });
    assert.equal(made.status, 200, made.text);
    for (const field of ["name", "auth_url", "token_url", "uses_pkce", "provider_type", "authorization_params"]) {
      assert.deepEqual(made.body[field], preset[field], `${preset.id} ${field}`);
    }
  }
  const unknown = await t.ask({
    method: "POST",
    url,
    payload: { provider_id: "x", preset: "none", client_id: "c", client_secret: "s" },
  });
  assert.equal(unknown.status, 400);
  const nothing = await t.ask({ method: "POST", url, payload: { provider_id: "x", client_id: "c" } });
  assert.deepEqual(
    nothing.body.detail.map(({ loc }: { loc: string[] }) => loc.join(".")),
    ["body.name", "body.auth_url", "body.token_url"],
  );
});

/** Field and value of an invalid provider, one fault each. */
const refused: [string, object][] = [
  ["token_url in clear text", { token_url: "http://id.example.com/token" }],
  ["token_url on loopback", { token_url: "https://127.0.0.1/token" }],
  ["token_url on localhost", { token_url: "https://localhost/token" }],
  ["token_url below localhost", { token_url: "https://a.localhost./token" }],
  ["token_url in a private network", { token_url: "https://10.1.2.3/token" }],
  ["token_url of a cloud's metadata", { token_url: "https://169.254.169.254/token" }],
  ["token_url in decimal", { token_url: "https://2130706433/token" }],
  ["token_url in hex", { token_url: "https://0x7f.1/token" }],
  ["token_url in IPv6", { token_url: "https://[::1]/token" }],
  ["token_url mapped to IPv6", { token_url: "https://[::ffff:10.0.0.1]/token" }],
  ["token_url with a user", { token_url: "https://a:b@id.example.com/token" }],
  ["token_url with a fragment", { token_url: "https://id.example.com/token#x" }],
  ["token_url of another scheme", { token_url: "file:///etc/passwd" }],
  ["token_url that is not a URL", { token_url: "id.example.com" }],
  ["auth_url that runs code", { auth_url: "javascript:alert(1)" }],
  ["auth_url that is data", { auth_url: "data:text/html,x" }],
  ["auth_url that sets the state", { auth_url: "https://id.example.com/authorize?state=mine" }],
  ["auth_url that sets the redirect", { auth_url: "https://id.example.com/authorize?redirect_uri=https://evil" }],
  ["parameters that set the redirect", { authorization_params: { redirect_uri: "https://evil.example" } }],
  ["parameters that weaken PKCE", { authorization_params: { code_challenge_method: "plain" } }],
  ["parameters that change the response mode", { authorization_params: { response_mode: "fragment" } }],
  ["a redirect in clear text", { allowed_redirect_uris: ["http://app.example.com/cb"] }],
  ["a redirect with a wildcard", { allowed_redirect_uris: ["https://*.example.com/cb"] }],
  ["a redirect with a fragment", { allowed_redirect_uris: ["https://app.example.com/cb#"] }],
  ["a redirect that runs code", { allowed_redirect_uris: ["javascript:alert(1)"] }],
  ["a default redirect that is not allowed", { default_redirect_uri: "https://app.example.com/cb" }],
  ["a public client without PKCE", { token_endpoint_auth_method: "none", uses_pkce: false }],
  ["no secret where one is needed", { client_secret: null, token_endpoint_auth_method: "client_secret_post" }],
  ["neither secret nor PKCE", { client_secret: null, uses_pkce: false }],
  ["the name of a route", { provider_id: "mcp-discover" }],
  ["the form of an id", { provider_id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11" }],
];

for (const [what, fault] of refused) {
  test(`rejects a provider with ${what} and explains why`, async () => {
    const answer = await create({ provider_id: "bad", ...fault });
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.body.detail, /^OAuth provider error: '\w+' .+\.$|^OAuth provider error: '\w+' .+/);
    assert.ok(!answer.text.includes("canary"));
  });
}

test("allows one PKCE method, and no slashes in a name", async () => {
  for (const fault of [{ code_challenge_method: "plain" }, { provider_id: "a/b" }, { provider_id: "" }]) {
    const answer = await create(fault);
    assert.equal(answer.status, 422);
    assert.ok(!answer.text.includes("canary"));
  }
});

test("treats a client without a secret as public, with PKCE", async () => {
  const { body } = await create({ provider_id: "public", client_secret: null });
  assert.deepEqual([body.token_endpoint_auth_method, body.uses_pkce], ["none", true]);
});

test("does not send a secret to a host that it was not given for", async () => {
  await create({ provider_id: "moving" });
  const patch = (payload: object) => t.ask({ method: "PATCH", url: `${url}/moving`, payload });
  const token_url = "https://evil.example.com/token";
  assert.match((await patch({ token_url })).body.detail, /'client_secret' must be given again/);
  assert.equal((await patch({ token_url: "https://id.example.com/v2/token" })).status, 200);
  assert.equal((await patch({ token_url, client_secret: "another" })).status, 200);
  const revocation_url = "https://elsewhere.example.com/revoke";
  assert.match((await patch({ revocation_url })).body.detail, /'client_secret' must be given again .*'revocation_url'/);
  assert.equal((await patch({ revocation_url: "https://evil.example.com/revoke" })).status, 200, "it has the secret");
  assert.equal((await patch({ revocation_url, client_secret: "a third" })).status, 200);
  assert.equal((await patch({ revocation_url: `${revocation_url}/all` })).status, 200);
  await create({ provider_id: "public-moving", client_secret: null });
  const open = await t.ask({ method: "PATCH", url: `${url}/public-moving`, payload: { token_url, revocation_url } });
  assert.equal(open.status, 200, "a public client has no secret");
});

test("replays the create of a provider under its idempotency key", async () => {
  const headers = { "idempotency-key": "provider-once" };
  const first = await create({ provider_id: "once" }, { headers });
  const second = await create({ provider_id: "once" }, { headers });
  assert.deepEqual([second.status, second.text], [200, first.text]);
});

test("only admins change providers, and agents cannot read them", async () => {
  for (const [role, statuses] of [
    ["reader", [200, 403]],
    ["deployer", [200, 403]],
    ["agent", [403, 403]],
  ] as const) {
    const key = await t.mintKey({ role });
    const answers = [await t.ask({ url, key }), await create({ provider_id: role }, { key })];
    assert.deepEqual(
      answers.map(({ status }) => status),
      statuses,
      role,
    );
  }
});

test("with several workspaces, only keys of the organization change or delete its providers", async () => {
  const here = await authFixtureOf(await startApi());
  const { t: api, as } = here;
  const ofOrganization = await api.mintKey({ isOrganizational: true });
  const provider = await here.addProvider({ client_secret: null, uses_pkce: true });
  const at = `${url}/${provider}`;
  const patch = (payload: object, more: object) => api.ask({ method: "PATCH", url: at, payload, ...more });
  const remove = (more: object) => api.ask({ method: "DELETE", url: at, ...more });
  assert.equal((await patch({ name: "Renamed" }, {})).status, 200, "the only workspace");
  await here.connect(provider);

  const payload = { name: "sibling" };
  const made = await api.ask({ method: "POST", url: "/v2/admin/workspaces", payload, key: ofOrganization });
  const sibling = { key: await api.mintKey({ tenant: { ...api.tenant, tenantId: made.body.id } }) };
  const refusals = [
    await patch({ token_url: `${as.url}/elsewhere` }, sibling),
    await remove(sibling),
    await remove({}),
  ];
  for (const { status, body } of refusals) {
    assert.deepEqual([status, body.detail], [403, "This call needs an admin key of the organization."]);
  }
  as.calls.length = 0;
  await here.connect(provider, { force_new: true });
  assert.deepEqual([as.calls.map((call) => call.path), await here.countTokens(provider)], [["/token"], 2]);

  const more = { key: ofOrganization, headers: { "x-tenant-id": made.body.id } };
  assert.equal((await patch({ name: "Again" }, more)).status, 200);
  assert.equal((await remove(more)).status, 200);
});
