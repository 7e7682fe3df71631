import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { sql } from "../../src/store/engine/sql.ts";
import { signServiceKey } from "../support/service-key.ts";
import { startAuthFixture } from "./auth-fixture.ts";

const w = await startAuthFixture();
const { t, as } = w;
const asUser = (user: string) => ({ headers: { "x-user-id": user } });
const listTokens = async (user: string, provider = "") =>
  (await t.ask({ url: `/v2/auth/tokens?provider_id=${provider}`, ...asUser(user) })).body;

test("a user's consent gives the agent a token: pending, the page, completed", async () => {
  const provider = await w.addProvider({ uses_pkce: true });
  const { status, body } = await w.authenticate(provider);
  assert.deepEqual([status, body.status, body.token, body.user_id], [200, "pending", null, "alice"]);
  const asked = Object.fromEntries(new URL(body.url).searchParams);
  const state = asked["state"] ?? "";
  assert.deepEqual(
    { ...asked, state: state.length, code_challenge: asked["code_challenge"]?.length },
    {
      response_type: "code",
      client_id: "c",
      redirect_uri: `http://127.0.0.1:8124/v2/auth/callback/${provider}`,
      scope: "read",
      state: 43,
      code_challenge: 43,
      code_challenge_method: "S256",
    },
  );
  assert.deepEqual((await w.wait(body.auth_id)).body, { status: "pending", token: null });
  const waiting = w.wait(body.auth_id, 30);
  const page = await w.comeBack(provider, { code: "code-1", state });
  assert.equal(page.status, 200);
  for (const shown of ["Connected", "Example", "alice", "any agent"]) assert.ok(page.text.includes(shown), shown);
  assert.ok(!/code-1|access-|refresh-|canary/.test(page.text + JSON.stringify(page.headers)));
  assert.equal(page.headers["referrer-policy"], "no-referrer");
  assert.equal(page.headers["cache-control"], "no-store");
  assert.match(String(page.headers["content-security-policy"]), /default-src 'none'.*frame-ancestors 'none'/);
  const { token } = (await waiting).body;
  assert.match(token, /^access-\d+$/);
  assert.equal((await w.wait(body.auth_id, 30)).body.token, token, "a wait after the end is answered at once");

  const { code_verifier, ...form } = as.calls[0]?.form ?? {};
  assert.equal(code_verifier?.length, 43);
  assert.deepEqual(form, {
    grant_type: "authorization_code",
    code: "code-1",
    redirect_uri: asked["redirect_uri"],
    client_id: "c",
    client_secret: "canary-secret",
  });
  const again = await w.authenticate(provider);
  assert.deepEqual([again.body.status, again.body.token, again.body.url], ["completed", token, null]);
  assert.deepEqual(again.body.metadata.scopes, ["read"]);
  assert.ok(Date.parse(again.body.expires_at) > Date.now());
  assert.equal(as.calls.length, 1);
});

test("a second request joins the open sign-in, unless it asks for a new one", async () => {
  const provider = await w.addProvider();
  const [first, second] = [await w.authenticate(provider), await w.authenticate(provider)];
  assert.deepEqual(second.body, first.body);
  const others = [
    { force_new: true },
    { user_id: "bob" },
    { scopes: ["write"] },
    { agent_id: "a" },
    { is_default: false },
  ];
  for (const fields of others) {
    const other = await w.authenticate(provider, fields);
    assert.notEqual(other.body.auth_id, first.body.auth_id, JSON.stringify(fields));
  }
});

test("asks for additional scopes together with those already granted", async () => {
  const provider = await w.addProvider();
  const id = await w.connect(provider, { scopes: ["read"] });
  assert.equal((await w.authenticate(provider, { scopes: [] })).body.status, "completed");
  const { body } = await w.authenticate(provider, { scopes: ["write"] });
  assert.deepEqual([body.status, new URL(body.url).searchParams.get("scope")], ["pending", "read write"]);
  const state = new URL(body.url).searchParams.get("state") ?? "";
  await w.comeBack(provider, { code: "c", state });
  const { metadata } = (await w.authenticate(provider, { scopes: ["write", "read"] })).body;
  assert.deepEqual([metadata.scopes, metadata.token_id], [["read", "write"], id]);
});

test("counts the scopes that the provider grants, not those that were requested", async () => {
  const provider = await w.addProvider();
  as.answer = () => ({ json: { access_token: "a", token_type: "bearer", scope: "read" } });
  const { state, authId } = await w.begin(provider, { scopes: ["read", "write"] });
  await w.comeBack(provider, { code: "c", state });
  assert.deepEqual((await w.wait(authId)).body, { status: "completed", token: "a" });
  assert.equal((await w.authenticate(provider, { scopes: ["read"] })).body.status, "completed");
  assert.equal((await w.authenticate(provider, { scopes: ["write"] })).body.status, "pending");
});

test("a check without sign-in starts nothing", async () => {
  const provider = await w.addProvider();
  const { body } = await w.authenticate(provider, { check_only: true });
  assert.deepEqual([body.status, body.url, body.auth_id], ["connection_required", null, null]);
  const { rows } =
    await t.db.query(sql`select 1 from oauth_requests r join oauth_providers p on p.id = r.provider_row_id
    where p.provider_id = ${provider}`);
  assert.equal(rows.length, 0);
});

test("a user with two accounts has a default one and may name the other", async () => {
  const provider = await w.addProvider();
  const first = await w.connect(provider);
  const second = await w.connect(provider, { force_new: true });
  const chosen = async (fields: object = {}) => (await w.authenticate(provider, fields)).body.metadata?.token_id;
  const tokens = await listTokens("alice", provider);
  assert.equal(tokens.length, 2);
  const [other] = tokens.filter(({ id }: { id: string }) => id !== first);
  assert.ok(second === first || second === other.id);
  assert.equal(await chosen(), other.id, "the newest consent is the default");
  assert.equal(await chosen({ token_id: first }), first);
  const patch = (payload: object) =>
    t.ask({ method: "PATCH", url: `/v2/auth/tokens/${first}/metadata`, payload, ...asUser("alice") });
  const labelled = await patch({ provider_account_label: "work", is_default: true });
  assert.deepEqual(
    [labelled.status, labelled.body.provider_account_label, labelled.body.is_default],
    [200, "work", true],
  );
  assert.equal(await chosen(), first);
  assert.deepEqual(
    (await listTokens("alice", provider)).map(({ is_default }: { is_default: boolean }) => is_default).sort(),
    [false, true],
  );
  assert.equal((await t.ask({ method: "PATCH", url: `/v2/auth/tokens/${first}/metadata`, payload: {} })).status, 404);
});

test("users list and delete their tokens, which are first revoked at the provider", async () => {
  const provider = await w.addProvider({ revocation_url: `${as.url}/revoke` });
  const id = await w.connect(provider);
  const [listed] = await listTokens("alice", provider);
  assert.deepEqual([listed.id, listed.provider_id, listed.scopes, listed.is_default], [id, provider, ["read"], true]);
  assert.ok(!/access-|refresh-/.test(JSON.stringify(listed)));
  const has = async (user: string) =>
    (await t.ask({ url: `/v2/auth/tokens/exists?provider_id=${provider}`, ...asUser(user) })).body.has_token;
  assert.deepEqual([await has("alice"), await has("bob")], [true, false]);
  const batch = await w.post("/v2/auth/tokens/exists/batch", { provider_ids: [provider, "none"] }, asUser("alice"));
  assert.deepEqual(batch.body, { has_token: { [provider]: true, none: false } });

  as.calls.length = 0;
  const deleted = await t.ask({ method: "DELETE", url: `/v2/auth/tokens/${id}`, ...asUser("alice") });
  assert.deepEqual([deleted.status, deleted.text], [204, ""]);
  assert.deepEqual(
    as.calls.map(({ path, form }) => [path, form["token_type_hint"], form["token"]?.replace(/\d+/, "n")]),
    [
      ["/revoke", "refresh_token", "refresh-n"],
      ["/revoke", "access_token", "access-n"],
    ],
  );
  assert.equal(await has("alice"), false);
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/auth/tokens/${id}`, ...asUser("alice") })).status, 404);
});

test("an unreachable provider does not prevent deleting one token or all of them", async () => {
  const provider = await w.addProvider({ revocation_url: "http://127.0.0.1:1/revoke" });
  await w.connect(provider);
  await w.connect(provider, { force_new: true });
  const url = `/v2/auth/tokens?provider_id=${provider}`;
  assert.deepEqual((await t.ask({ method: "DELETE", url, ...asUser("bob") })).body.message, "0 tokens deleted.");
  const { status, body } = await t.ask({ method: "DELETE", url, ...asUser("alice") });
  assert.deepEqual([status, body], [200, { message: "2 tokens deleted.", provider_id: provider }]);
  assert.equal(await w.countTokens(provider), 0);
  assert.equal((await t.ask({ method: "DELETE", url: "/v2/auth/tokens" })).status, 422);
});

test("deleting a provider deletes and revokes its tokens", async () => {
  const provider = await w.addProvider({ revocation_url: `${as.url}/revoke` });
  await w.connect(provider);
  as.calls.length = 0;
  const headers = { "idempotency-key": randomUUID() };
  const request = { method: "DELETE" as const, url: `/v2/auth/providers/${provider}`, headers };
  const answers = [await t.ask(request), await t.ask(request)];
  assert.deepEqual(
    answers.map(({ status, body }) => [status, body.message]),
    Array(2).fill([200, `OAuth provider '${provider}' deleted.`]),
  );
  assert.deepEqual([as.calls.length, await w.countTokens(provider)], [2, 0]);
});

test("deleting a provider with many tokens revokes all of them, a few at a time", async () => {
  const provider = await w.addProvider({ revocation_url: `${as.url}/revoke` });
  const count = 300;
  for (let number = 0; number < count; number += 1) {
    const brought = { provider_id: provider, access_token: `access-${number}` };
    assert.equal((await w.post("/v2/auth/tokens/import", brought, asUser(`user-${number}`))).status, 200);
  }
  let [open, most] = [0, 0];
  as.answer = async () => {
    open += 1;
    most = Math.max(most, open);
    await sleep(500);
    open -= 1;
    return { json: {} };
  };
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/auth/providers/${provider}` })).status, 200);
  assert.equal(new Set(as.calls.map(({ form }) => form["token"])).size, count);
  assert.ok(most <= 256, `${most} at once`);
});

test("an imported token is given out like one of ours", async () => {
  const provider = await w.addProvider();
  const made = await w.post(
    "/v2/auth/tokens/import",
    {
      provider_id: provider,
      access_token: "brought",
      refresh_token: "r",
      expires_in_seconds: 3600,
      scopes: ["read"],
      metadata: { team: "x" },
    },
    asUser("alice"),
  );
  assert.equal(made.status, 200, made.text);
  const { body } = await w.authenticate(provider);
  assert.deepEqual([body.token, body.metadata.team, body.metadata.token_id], ["brought", "x", made.body.token_id]);
  const { body: events } = await t.ask({ url: `/v2/auth/token-events?provider_id=${provider}`, ...asUser("alice") });
  assert.deepEqual([events[0].event_type, events[0].source], ["imported", "import"]);
  await w.expireTokens(provider);
  assert.match((await w.authenticate(provider)).body.token, /^access-/, "it is refreshed too");
});

test("an imported token under an Idempotency-Key is not replayed to another user", async () => {
  const provider = await w.addProvider();
  const under = (user: string, key = t.tenant.adminKey) => ({
    headers: { "idempotency-key": "one for all", ...(user !== "" && { "x-user-id": user }) },
    key,
  });
  const brought = { provider_id: provider, access_token: "brought" };
  const first = await w.post("/v2/auth/tokens/import", brought, under("alice"));
  assert.equal((await w.post("/v2/auth/tokens/import", brought, under("alice"))).text, first.text);
  for (const other of [under("bob"), under("", await t.mintKey({ role: "deployer" }))]) {
    assert.equal((await w.post("/v2/auth/tokens/import", brought, other)).status, 409);
  }
  assert.equal(await w.countTokens(provider), 1);
  const url = "/v2/auth/agents/keeper/connections";
  const [{ id }] = await listTokens("alice", provider);
  const connect = (user: string) =>
    w.post(url, { oauth_token_id: id }, { headers: { "idempotency-key": "connected", "x-user-id": user } });
  assert.equal((await connect("alice")).status, 201);
  assert.equal((await connect("alice")).status, 201);
  assert.equal((await connect("bob")).status, 409);
});

test("a token connected to an agent serves its owner there, and the agent when it asks without a user", async () => {
  const provider = await w.addProvider();
  const id = await w.connect(provider, { user_id: "alice" });
  const url = `/v2/auth/agents/${encodeURIComponent("my agent/1")}/connections`;
  const made = await w.post(url, { oauth_token_id: id }, asUser("alice"));
  assert.deepEqual([made.status, made.body.agent_id, made.body.created_by], [201, "my agent/1", "alice"]);
  assert.equal((await w.post(url, { oauth_token_id: id }, asUser("alice"))).body.id, made.body.id);
  assert.deepEqual((await t.ask({ url })).body.data, [made.body]);
  const askAs = async (user_id: string | null, agent_id: string | null) =>
    (await w.authenticate(provider, { user_id, agent_id, check_only: true })).body.status;
  assert.equal(await askAs(null, "my agent/1"), "completed");
  assert.equal(await askAs("alice", "my agent/1"), "completed");
  assert.equal(
    await askAs("bob", "my agent/1"),
    "connection_required",
    "no user gets another user's token as their own",
  );
  assert.equal(await askAs(null, "other"), "connection_required");
  const gone = await t.ask({ method: "DELETE", url: `${url}/${made.body.id}` });
  assert.equal(gone.status, 204);
  assert.equal(await askAs(null, "my agent/1"), "connection_required");
  assert.equal((await t.ask({ method: "DELETE", url: `${url}/${made.body.id}` })).status, 404);
});

test("an agent's new token replaces the previous one, which is deleted when nothing refers to it", async () => {
  const provider = await w.addProvider();
  const url = `/v2/auth/agents/bot/providers/${provider}/tokens`;
  const first = await w.post(url, { access_token: "one", scopes: ["read"] });
  assert.deepEqual([first.status, first.body.provider_id, first.body.scopes], [201, provider, ["read"]]);
  const second = await w.post(url, { access_token: "two", scopes: ["read"], provider_account_label: "bot" });
  assert.deepEqual([second.status, second.body.provider_account_label], [201, "bot"]);
  assert.equal(await w.countTokens(provider), 1);
  for (const user_id of [null, "bob"]) {
    const { body } = await w.authenticate(provider, { user_id, agent_id: "bot" });
    assert.deepEqual([body.status, body.token], ["completed", "two"]);
  }
});

test("an agent that asks for itself gets connection_required until someone gives consent", async () => {
  const provider = await w.addProvider();
  const { body } = await w.authenticate(provider, { user_id: null, agent_id: "cron" });
  assert.deepEqual([body.status, body.user_id], ["connection_required", null]);
  const state = new URL(body.url).searchParams.get("state") ?? "";
  const page = await w.comeBack(provider, { code: "c", state });
  assert.ok(page.text.includes("cron") && page.text.includes("the agent itself"));
  assert.equal((await w.authenticate(provider, { user_id: null, agent_id: "cron" })).body.status, "completed");
  assert.equal((await t.ask({ url: "/v2/auth/agents/cron/connections" })).body.data.length, 1);
});

test("escapes names that people choose in the page", async () => {
  const provider = await w.addProvider({ name: "<img src=x onerror=alert(1)>" });
  const { state } = await w.begin(provider, { user_id: `"><script>alert(1)</script>`, agent_id: "a\u202egnp" });
  const page = await w.comeBack(provider, { code: "c", state });
  assert.equal(page.status, 200);
  assert.ok(!/<script|<img|\u202e/.test(page.text), page.text);
  assert.ok(page.text.includes("agnp"));
});

test("the user header means the same as the user in the body", async () => {
  const provider = await w.addProvider();
  await w.connect(provider, { user_id: "alice" });
  const bodies = [{ user_id: null }, { ls_user_id: "bob", user_id: "alice" }, { user_id: null, ls_user_id: "alice" }];
  for (const fields of bodies) {
    const { body } = await w.authenticate(provider, { ...fields, check_only: true }, asUser("alice"));
    assert.deepEqual([body.status, body.user_id], ["completed", "alice"]);
  }
  const long = await w.authenticate(provider, {}, asUser("a".repeat(257)));
  assert.equal(long.status, 422);
});

test("a service that signs its own keys acts for the user in them and for no other", async () => {
  const provider = await w.addProvider();
  await w.connect(provider, { user_id: "alice" });
  const secret = "shared with a service: 32 characters";
  const served = await startAuthFixture({ serviceSecret: secret });
  const there = await served.addProvider();
  await served.connect(there, { user_id: "alice" });
  const keyOf = (claims: object) =>
    signServiceKey(
      { sub: "tools", exp: Date.now() / 1_000 + 60, tenant_id: served.t.tenant.tenantId, ...claims },
      { secret },
    );
  const asService = (claims: object, more: object = {}) => ({
    key: null,
    headers: { "x-service-key": keyOf(claims), ...more },
  });
  const look = { user_id: null, check_only: true };
  const alice = await served.authenticate(there, look, asService({ user_id: "alice" }));
  assert.deepEqual([alice.body.status, alice.body.user_id], ["completed", "alice"]);
  const named = await served.authenticate(there, look, asService({}, { "x-user-id": "alice" }));
  assert.equal(named.body.status, "completed");
  const itself = await served.authenticate(there, look, asService({}));
  assert.deepEqual([itself.body.status, itself.body.user_id], ["connection_required", "service:tools"]);
  const other = await served.authenticate(there, look, asService({ user_id: "bob" }, { "x-user-id": "alice" }));
  assert.equal(other.status, 403);
  for (const fields of [{ user_id: "alice" }, { ls_user_id: "alice" }, { user_id: "alice", agent_id: "bot" }]) {
    const { status, body } = await served.authenticate(there, { ...look, ...fields }, asService({ user_id: "bob" }));
    assert.deepEqual([status, body], [403, { detail: "Forbidden" }], JSON.stringify(fields));
    const same = await served.authenticate(there, { ...look, ...fields }, asService({ user_id: "alice" }));
    assert.deepEqual([same.body.status, same.body.user_id], ["completed", "alice"]);
    assert.equal((await served.authenticate(there, { ...look, ...fields }, asService({}))).body.status, "completed");
  }
  const elsewhere = { "x-service-key": keyOf({ user_id: "alice" }) };
  assert.equal(
    (await w.authenticate(provider, look, { key: null, headers: elsewhere })).status,
    401,
    "service keys are not accepted",
  );
});

test("every organization finds the providers of the shared organization", async () => {
  const provider = await w.addProvider({}, { key: t.stranger.adminKey });
  const ask = (fields: object) => w.authenticate(provider, fields);
  assert.equal((await ask({ use_agent_builder_public_oauth: true })).status, 404);
  t.deps.settings.sharedAuthOrganizationId = t.stranger.organizationId;
  try {
    assert.equal((await ask({})).status, 404);
    assert.equal((await ask({ use_agent_builder_public_oauth: true })).body.status, "pending");
    await w.connect(provider, { use_agent_builder_public_oauth: true });
    const url = `/v2/auth/tokens?provider_id=${provider}`;
    assert.equal((await t.ask({ url, ...asUser("alice") })).body.length, 1);
    const { body } = await t.ask({ method: "DELETE", url, ...asUser("alice") });
    assert.equal(body.message, "1 token deleted.");
    await w.connect(provider, { use_agent_builder_public_oauth: true });
  } finally {
    t.deps.settings.sharedAuthOrganizationId = null;
  }
  const theirs = await w.authenticate(provider, { check_only: true }, { key: t.stranger.adminKey });
  assert.equal(theirs.body.status, "connection_required", "the token stays in the workspace that got it");
});

test("setting up or changing a GitHub App ends on a page, with or without a sign-in", async () => {
  const provider = await w.addProvider();
  const setup = (query: Record<string, string>) =>
    t.ask({ url: `/v2/auth/setup/${provider}?${new URLSearchParams(query)}`, key: null });
  for (const setup_action of ["update", "install", "request"]) {
    assert.equal((await setup({ setup_action, installation_id: "7" })).status, 200);
  }
  assert.equal((await setup({})).status, 400);
  assert.equal((await setup({ error: "access_denied" })).status, 400);
  const { state } = await w.begin(provider);
  assert.equal((await setup({ setup_action: "install", code: "c", state })).status, 200);
  assert.equal((await setup({ setup_action: "install", code: "c", state })).status, 400);
});

test("the console's alias of the redirect URI works the same", async () => {
  const provider = await w.addProvider();
  const { state } = await w.begin(provider);
  const url = `/host-oauth-callback/${provider}?${new URLSearchParams({ code: "c", state })}`;
  assert.equal((await t.ask({ url, key: null })).status, 200);
});
