import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mock, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { sql } from "../../src/store/engine/sql.ts";
import { insertAuthRequest } from "../../src/store/oauth/oauth-requests.ts";
import { saveToken } from "../../src/store/oauth/oauth-tokens.ts";
import { eventually } from "../support/eventually.ts";
import type { ProviderAnswer, ProviderCall } from "../support/oauth-server.ts";
import { assertPlainRefusal, canary, startAuthFixture } from "./auth-fixture.ts";

const w = await startAuthFixture();
const { t, as } = w;
const asUser = (user: string) => ({ headers: { "x-user-id": user } });
const token = (fields: object = {}) => ({
  json: { access_token: "a", refresh_token: "r", token_type: "Bearer", expires_in: 3600, ...fields },
});

test("of 50 concurrent requests for an expired token, one refreshes it and all get the new one", async () => {
  const provider = await w.addProvider();
  await w.connect(provider);
  await w.expireTokens(provider);
  as.calls.length = 0;
  as.answer = async () => {
    await sleep(50);
    return token({ access_token: "fresh", refresh_token: "rotated" });
  };
  const answers = await Promise.all(Array.from({ length: 50 }, () => w.authenticate(provider)));
  assert.deepEqual([...new Set(answers.map(({ body }) => `${body.status} ${body.token}`))], ["completed fresh"]);
  assert.equal(as.calls.length, 1);
  await w.expireTokens(provider);
  as.answer = ({ form }) => token({ access_token: `after-${form["refresh_token"]}`, refresh_token: undefined });
  assert.equal((await w.authenticate(provider)).body.token, "after-rotated");
  await w.expireTokens(provider);
  as.calls.length = 0;
  assert.equal(
    (await w.authenticate(provider)).body.token,
    "after-rotated",
    "a refresh token that is not rotated stays valid",
  );
});

test("a caller that disconnects does not keep the others from the token", async () => {
  const provider = await w.addProvider();
  await w.connect(provider);
  await w.expireTokens(provider);
  as.answer = async () => {
    await sleep(200);
    return token({ access_token: "fresh" });
  };
  await t.api.listen({ host: "127.0.0.1", port: 0 });
  const { port } = t.api.server.address() as { port: number };
  const leaving = fetch(`http://127.0.0.1:${port}/v2/auth/authenticate`, {
    method: "POST",
    headers: { "x-api-key": t.tenant.adminKey },
    body: JSON.stringify({ provider, scopes: [], user_id: "alice" }),
    signal: AbortSignal.timeout(100),
  });
  await assert.rejects(leaving);
  assert.equal((await w.authenticate(provider)).body.token, "fresh");
  assert.equal(as.calls.filter(({ form }) => form["grant_type"] === "refresh_token").length, 1);
});

test("a rejected refresh ends the token: the user is asked again, and the connection survives", async () => {
  const provider = await w.addProvider();
  const id = await w.connect(provider);
  await w.expireTokens(provider);
  as.answer = () => ({ status: 400, json: { error: "invalid_grant", error_description: canary } });
  const looked = await w.authenticate(provider, { check_only: true });
  assert.deepEqual([looked.body.status, looked.body.url, looked.body.auth_id], ["token_expired", null, null]);
  const expired = await w.authenticate(provider);
  assert.equal(expired.body.status, "token_expired");
  assert.ok(expired.body.url.startsWith(`${as.url}/authorize?`));
  const { body: events } = await t.ask({ url: `/v2/auth/token-events?provider_id=${provider}`, ...asUser("alice") });
  assert.deepEqual([events[0].event_type, events[0].reason], ["refresh_failed", "invalid_grant"]);
  assert.ok(!JSON.stringify(events).includes(canary));

  as.answer = () => token({ access_token: "again" });
  const state = new URL(expired.body.url).searchParams.get("state") ?? "";
  assert.equal((await w.comeBack(provider, { code: "c", state })).status, 200);
  const renewed = await w.authenticate(provider);
  assert.deepEqual([renewed.body.token, renewed.body.metadata.token_id], ["again", id]);
  assert.equal(await w.countTokens(provider), 1);
});

test("a temporary outage of the provider loses no token", async () => {
  const provider = await w.addProvider();
  await w.connect(provider);
  await w.expireTokens(provider);
  for (const answer of [
    { status: 500, text: canary },
    { status: 200, text: "<html>" },
    { status: 503, json: { error: "temporarily_unavailable" } },
    { status: 401, headers: { "www-authenticate": "Basic" }, json: { error: "invalid_client" } },
    { raw: (response: { destroy: () => void }) => response.destroy() },
  ] as ProviderAnswer[]) {
    as.answer = () => answer;
    const failed = await w.authenticate(provider);
    assert.equal(failed.status, 502, failed.text);
    assert.match(failed.body.detail, /^OAuth provider 'p-[\w-]+' cannot be used at the moment\. [A-Z1]/);
    assert.ok(!failed.text.includes(canary));
  }
  as.answer = ({ form }) => token({ access_token: `after-${form["refresh_token"]}` });
  assert.match((await w.authenticate(provider)).body.token, /^after-refresh-\d+$/);
});

test("gives out a token that is still valid for some seconds while the provider is unreachable", async () => {
  const provider = await w.addProvider();
  await w.connect(provider);
  await t.db.query(sql`update oauth_tokens t set expires_at = now() + interval '40 seconds' from oauth_providers p
             where p.id = t.provider_row_id and p.provider_id = ${provider}`);
  as.answer = () => ({ status: 500, text: "" });
  assert.equal((await w.authenticate(provider)).body.status, "completed");
});

/**
 * The database's clock follows the clock of its machine once a second and moves deadlines with it; here it has done so.
 */
const followed = () =>
  eventually(
    () => t.db.now().getTime() - Date.now(),
    (aheadMs) => Math.abs(aheadMs) < 2_000,
  );

test("setting the clock back does not make an expired token valid again", async () => {
  const provider = await w.addProvider();
  t.db.engine?.clock.add(3_600_000);
  await w.connect(provider);
  await followed();
  const { rows } = await eventually(
    () =>
      t.db.query<{ s: number }>(sql`
        select extract(epoch from t.expires_at - now())::float8 as s
          from oauth_tokens t join oauth_providers p on p.id = t.provider_row_id
         where p.provider_id = ${provider}`),
    ({ rows }) => (rows[0]?.s ?? Infinity) < 3_660,
  );
  assert.ok((rows[0]?.s ?? 0) > 3_400, JSON.stringify(rows));
});

for (const [name, skewMs] of [
  ["an hour behind", -3_600_000],
  ["an hour ahead", 3_600_000],
] as const) {
  test(`no token is lost when a clock of this server or of the provider is ${name}`, async () => {
    const provider = await w.addProvider();
    mock.timers.enable({ apis: ["Date"], now: Date.now() + skewMs });
    try {
      await followed();
      const [iat, exp] = [0, 60].map((s) => Math.floor((Date.now() + skewMs) / 1_000) + s);
      const claims = Buffer.from(JSON.stringify({ sub: "1", email: "alice@example.org", iat, nbf: iat, exp }));
      as.answer = () => token({ id_token: `e30.${claims.toString("base64url")}.c2ln` });
      await w.connect(provider);
      const { body: tokens } = await t.ask({ url: `/v2/auth/tokens?provider_id=${provider}`, ...asUser("alice") });
      assert.equal(tokens[0].provider_account_label, "alice@example.org");
      assert.equal(as.calls.length, 1, "valid tokens are not refreshed");
      await w.expireTokens(provider);
      as.answer = () => token({ access_token: "fresh" });
      for (const _ of [1, 2]) assert.equal((await w.authenticate(provider)).body.token, "fresh");
      assert.equal(as.calls.length, 2);
    } finally {
      mock.timers.reset();
      await followed();
    }
  });
}

test("sends a refresh token only to the provider that issued it", async () => {
  const provider = await w.addProvider();
  await w.connect(provider);
  await w.expireTokens(provider);
  as.calls.length = 0;
  for (const payload of [{ token_url: `${as.url}/moved` }, { token_url: `${as.url}/token`, client_id: "d" }]) {
    await t.ask({ method: "PATCH", url: `/v2/auth/providers/${provider}`, payload });
    const { body } = await w.authenticate(provider);
    assert.deepEqual([body.status, as.calls.length], ["token_expired", 0]);
  }
});

/** What a token endpoint can return for a code instead of a token. */
const lies: Record<string, (call: ProviderCall) => ProviderAnswer> = {
  "a fault": () => ({ status: 500, text: canary }),
  "a gateway's page": () => ({ status: 502, text: `<html>${canary}</html>` }),
  "a page with status 200": () => ({ status: 200, text: "<html></html>" }),
  nothing: () => ({ status: 200, text: "" }),
  "no content": () => ({ status: 204, text: "" }),
  null: () => ({ json: null }),
  "a list": () => ({ json: [] }),
  "a text": () => ({ json: "token" }),
  "broken JSON": () => ({ status: 200, headers: { "content-type": "application/json" }, text: '{"access_token": "a' }),
  "no token": () => ({ json: { token_type: "bearer" } }),
  "an empty token": () => token({ access_token: "" }),
  "a number for a token": () => token({ access_token: 7 }),
  "an object for a token": () => token({ access_token: {} }),
  "a token with a line break": () => token({ access_token: "a\r\nx-evil: 1" }),
  "a token of 20 KiB": () => token({ access_token: "a".repeat(20_000) }),
  "a token of another kind": () => token({ token_type: "mac" }),
  "a token bound to a key": () => token({ token_type: "DPoP" }),
  "a token that expires before it begins": () => token({ expires_in: -1 }),
  "a token that expires at no time": () => token({ expires_in: "never" }),
  "a scope that is a number": () => token({ scope: 7 }),
  "a redirect": () => ({ status: 302, headers: { location: "http://169.254.169.254/" } }),
  "a redirect that keeps the method": () => ({ status: 307, headers: { location: `${as.url}/elsewhere` } }),
  "a token with status 400": () => ({ ...token(), status: 400 }),
  "an endless answer": () => ({
    raw: (response) => void response.writeHead(200).end(Buffer.alloc(2 * 1024 * 1024, "a")),
  }),
  "a connection that ends": () => ({ raw: (response) => void response.destroy() }),
  "a refused code": () => ({ status: 400, json: { error: "invalid_grant", error_description: canary } }),
  "a refused code, as GitHub says it": () => ({ json: { error: "bad_verification_code" } }),
  "a refused code, as Slack says it": () => ({ json: { ok: false, error: "invalid_code" } }),
  "a refused client": () => ({
    status: 401,
    headers: { "www-authenticate": 'Basic realm="x"' },
    json: { error: "invalid_client" },
  }),
  "a refused client without a word": () => ({ status: 401, text: "" }),
  "an error that holds what was sent": ({ form }) => ({
    status: 400,
    json: { error: form["code"], error_description: form["client_secret"] },
  }),
  "an error that is an object": () => ({ status: 400, json: { error: { code: "x", message: canary } } }),
};

for (const [name, answer] of Object.entries(lies)) {
  test(`a provider that returns ${name} for a code connects no one, and the page explains it`, async () => {
    const provider = await w.addProvider();
    const { state, authId } = await w.begin(provider);
    as.answer = answer;
    assertPlainRefusal(await w.comeBack(provider, { code: `${canary}-code`, state }));
    assert.deepEqual((await w.wait(authId, 5)).body, { status: "not_found", token: null });
    assert.deepEqual([await w.countTokens(provider), as.calls.length], [0, 1]);
    const { text } = await t.ask({ url: `/v2/auth/token-events?provider_id=${provider}`, ...asUser("alice") });
    assert.ok(text.includes("flow_failed") && !text.includes(canary), text);
  });
}

test("gives up on a silent provider after ten seconds", async () => {
  const provider = await w.addProvider();
  const { state } = await w.begin(provider);
  as.answer = () => ({ raw: () => {} });
  const page = await w.comeBack(provider, { code: "c", state });
  assertPlainRefusal(page);
  assert.match(page.text, /took longer than 10000 ms/);
});

test("a token is usable only in its workspace, by its user and its agent", async () => {
  const provider = await w.addProvider();
  const mine = await w.connect(provider, { user_id: "alice", agent_id: "helper" });
  const others: [string, object, object][] = [
    ["another user", { user_id: "bob", agent_id: "helper" }, {}],
    ["another agent", { user_id: "alice", agent_id: "other" }, {}],
    ["no agent", { user_id: "alice" }, {}],
    ["the agent itself", { user_id: null, agent_id: "helper" }, {}],
    ["the key itself", { user_id: null }, {}],
    ["a user who is called like the agent", { user_id: "helper" }, {}],
    ["a user in capitals", { user_id: "Alice", agent_id: "helper" }, {}],
  ];
  for (const [name, fields, more] of others) {
    const { body } = await w.authenticate(provider, { ...fields, check_only: true }, more);
    assert.deepEqual([body.status, body.token], ["connection_required", null], name);
    const named = await w.authenticate(provider, { ...fields, token_id: mine }, more);
    assert.deepEqual([named.status, named.body], [404, { detail: `OAuth token ID ${mine} not found.` }], name);
  }
  const own = await w.authenticate(provider, { user_id: "alice", agent_id: "helper", check_only: true });
  assert.equal(own.body.status, "completed");
});

test("another workspace of the organization sees the provider but none of the tokens", async () => {
  const provider = await w.addProvider();
  const id = await w.connect(provider);
  const { body: workspace } = await t.ask({
    method: "POST",
    url: "/v2/admin/workspaces",
    payload: { name: randomUUID() },
    key: await t.mintKey({ isOrganizational: true }),
  });
  const key = await t.mintKey({ tenant: { ...t.tenant, tenantId: workspace.id } });
  const there = await w.authenticate(provider, { check_only: true }, { key });
  assert.deepEqual([there.status, there.body.status], [200, "connection_required"]);
  assert.equal((await w.authenticate(provider, { token_id: id }, { key })).status, 404);
  assert.deepEqual((await t.ask({ url: "/v2/auth/tokens", key, ...asUser("alice") })).body, []);
});

test("providers, tokens and sign-ins of another organization answer like unknown ones", async () => {
  const provider = await w.addProvider();
  const id = await w.connect(provider);
  const { authId } = await w.begin(provider, { user_id: "carol" });
  const more = { key: t.stranger.adminKey, ...asUser("alice") };
  const foreign = await w.authenticate(provider, {}, more);
  assert.deepEqual([foreign.status, foreign.body], [404, { detail: `OAuth provider '${provider}' not found` }]);
  assert.deepEqual((await w.wait(authId, 5, { key: t.stranger.adminKey })).body, { status: "not_found", token: null });
  for (const request of [
    { method: "DELETE" as const, url: `/v2/auth/tokens/${id}` },
    { method: "PATCH" as const, url: `/v2/auth/tokens/${id}/metadata`, payload: { is_default: true } },
    { method: "POST" as const, url: "/v2/auth/agents/helper/connections", payload: { oauth_token_id: id } },
  ]) {
    const answer = await t.ask({ ...request, ...more });
    assert.deepEqual([answer.status, answer.body], [404, { detail: `OAuth token ID ${id} not found.` }]);
  }
  assert.equal((await w.authenticate(provider)).body.status, "completed");
});

test("another user, or a caller that guesses ids, cannot wait for a sign-in", async () => {
  const provider = await w.addProvider();
  const { authId } = await w.begin(provider);
  for (const [id, more] of [
    [authId, asUser("bob")],
    [randomUUID(), {}],
    ["no-id", {}],
    ["%00", {}],
  ] as const) {
    assert.equal((await w.wait(id, 5, more)).body.status ?? 422, id === "%00" ? 422 : "not_found", id);
  }
  assert.equal((await w.wait(authId, 0, asUser("alice"))).body.status, "pending");
  assert.equal((await w.wait(authId, 0.2)).body.status, "timeout");
});

test("rejects a token whose provider was deleted meanwhile, like one of an unknown provider", async () => {
  const gone = { id: randomUUID(), provider_id: "gone", token_url: "https://id.invalid/token", client_id: "c" };
  const issued = { accessToken: "a", refreshToken: null, lifeMs: null, scopes: [], metadata: {}, accountLabel: null };
  const subject = { tenantId: t.tenant.tenantId, userId: "alice", agentId: null };
  const kept = { subject, provider: gone, token: issued, isDefault: true, replacesTokenId: null };
  const keeping = t.db.transaction((trx) => saveToken(trx, t.deps.sealer, kept));
  await assert.rejects(keeping, { code: "oauthProviderNotFound", message: "OAuth provider 'gone' not found" });
});

test("a sign-in whose provider or token was deleted meanwhile is rejected, or replaces nothing", async () => {
  const provider_id = await w.addProvider();
  const { rows } = await t.db.query<{ id: string; token_url: string; client_id: string }>(sql`
    select id, token_url, client_id from oauth_providers where provider_id = ${provider_id}`);
  const found = { ...(rows[0] as (typeof rows)[0]), provider_id };
  const begin = (id: string, provider: typeof found) => {
    const subject = { tenantId: t.tenant.tenantId, userId: "alice", agentId: null };
    const how = { scopes: [], redirectUri: "https://app.invalid/cb", isOwnCallback: true, isDefault: true };
    const made = { id, subject, provider, ...how, replacesTokenId: randomUUID(), actor: "test", lifeMs: 60_000 };
    return insertAuthRequest(t.db, t.deps.sealer, made, { state: randomUUID(), verifier: null });
  };
  const id = randomUUID();
  await begin(id, found);
  const { rows: kept } = await t.db.query<{ replaces_token_id: string | null }>(sql`
    select replaces_token_id from oauth_requests where id = ${id}`);
  assert.deepEqual(kept, [{ replaces_token_id: null }]);
  await assert.rejects(begin(randomUUID(), { ...found, id: randomUUID() }), { code: "oauthProviderNotFound" });
});

test("rejects a token that is deleted while it is connected to an agent, like an unknown one", async (context) => {
  const id = await w.connect(await w.addProvider());
  const url = "/v2/auth/agents/bot/connections";
  const transaction = t.db.transaction.bind(t.db);
  const afterLook = context.mock.method(t.db, "transaction", async (...args: Parameters<typeof transaction>) => {
    await t.db.query(sql`delete from oauth_tokens where id = ${id}`);
    return transaction(...args);
  });
  const { status, body } = await w.post(url, { oauth_token_id: id }, asUser("alice"));
  assert.deepEqual([status, body.detail], [404, `OAuth token ID ${id} not found.`]);
  assert.equal(afterLook.mock.callCount(), 1);
});

test("a key that expires or is revoked while it waits gets no token", async () => {
  const provider = await w.addProvider();
  const { state, authId } = await w.begin(provider);
  const made = await t.ask({ method: "POST", url: "/v2/admin/api-keys", payload: { name: "waiting", role: "agent" } });
  const { id, key } = made.body as { id: string; key: string };
  const waiting = w.wait(authId, 30, { key });
  const used = async () => (await t.ask({ url: `/v2/admin/api-keys/${id}` })).body.last_used_at;
  await eventually(used, (at) => at !== null);
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/admin/api-keys/${id}` })).status, 204);
  assert.equal((await w.comeBack(provider, { code: "code", state })).status, 200);
  const answer = await waiting;
  assert.equal(answer.status, 401, answer.text);
  assert.equal((await w.wait(authId)).body.status, "completed", "other callers of the workspace get it");
});

test("deleting a workspace revokes its tokens, but not those of other workspaces", async () => {
  const key = await t.mintKey({ isOrganizational: true });
  const provider = await w.addProvider({ revocation_url: `${as.url}/revoke` });
  const made = await w.post("/v2/admin/workspaces", { name: "doomed" }, { key });
  const headers = { "x-tenant-id": made.body.id };
  await w.connect(provider);
  await w.connect(provider, {}, { key, headers });
  const revoked = () => as.calls.filter(({ path }) => path === "/revoke").map(({ form }) => form["token"]);
  const listener = await w.post(
    "/v2/listeners",
    { compute_type: "k8s", compute_id: "c", compute_config: {} },
    { key, headers },
  );
  const url = `/v2/admin/workspaces/${made.body.id}`;
  assert.equal((await t.ask({ method: "DELETE", url, key })).status, 409);
  await t.ask({ method: "DELETE", url: `/v2/listeners/${listener.body.id}`, key, headers });
  assert.deepEqual(revoked(), []);
  assert.equal((await t.ask({ method: "DELETE", url, key })).status, 204);
  await eventually(revoked, ({ length }) => length === 2);
  const { body } = await w.authenticate(provider);
  assert.ok(body.status === "completed" && !revoked().includes(body.token), "the other workspace's token");
});
