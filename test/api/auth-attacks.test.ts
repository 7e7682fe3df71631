import assert from "node:assert/strict";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startOAuthServer } from "../support/oauth-server.ts";
import { assertPlainRefusal, canary, startAuthFixture } from "./auth-fixture.ts";

const w = await startAuthFixture();
const { t, as } = w;

/** What an attacker has: their own sign-in, and another user's. */
interface Scene {
  provider: string;
  state: string;
  authId: string;
  /** A sign-in at another provider of the same organization. */
  other: { provider: string; state: string };
}

type Query = Record<string, string> | [string, string][] | string;

interface Attack {
  name: string;
  /** Settings of the provider. */
  provider?: object;
  /** Fields of authenticate. */
  asked?: object;
  /** Runs after the sign-in has started and before its answer arrives. */
  before?: (scene: Scene) => unknown;
  query: (scene: Scene) => Query;
  /** Sends the answer to this provider's address instead. */
  at?: (scene: Scene) => string;
  /** Whether the state is spent afterwards, so that the honest answer is rejected too. */
  isSpent?: boolean;
}

const code = `${canary}-code`;
const issuer = as.url;
const knownIssuer = { issuer };

/** Requests to a redirect URI that are not the provider's answer to this sign-in. */
const attacks: Attack[] = [
  { name: "an empty query", query: () => "" },
  { name: "a code without a state", query: () => ({ code }) },
  { name: "an empty state", query: () => ({ code, state: "" }) },
  { name: "a state that was never issued", query: () => ({ code, state: "a".repeat(43) }) },
  { name: "a state with a different ending", query: ({ state }) => ({ code, state: `${state.slice(0, -2)}xx` }) },
  { name: "a state with a character appended", query: ({ state }) => ({ code, state: `${state}=` }) },
  { name: "a truncated state", query: ({ state }) => ({ code, state: state.slice(0, 42) }) },
  { name: "a state in capitals", query: ({ state }) => ({ code, state: state.toUpperCase() }) },
  { name: "the id of the sign-in instead of its state", query: ({ authId }) => ({ code, state: authId }) },
  {
    name: "the same state twice",
    query: ({ state }) => [
      ["code", code],
      ["state", state],
      ["state", state],
    ],
  },
  {
    name: "two states",
    query: ({ state, other }) => [
      ["code", code],
      ["state", other.state],
      ["state", state],
    ],
  },
  { name: "markup as the state", query: () => ({ code, state: "<script>alert(1)</script>" }) },
  { name: "SQL as the state", query: () => ({ code, state: "' or 1=1 --" }) },
  { name: "a state of 8 KiB", query: () => ({ code, state: "a".repeat(8_192) }) },
  { name: "an array as the state", query: ({ state }) => `code=${code}&state[]=${state}` },
  {
    name: "a state that has expired",
    before: ({ authId }) => t.db.query(sql`update oauth_requests set expires_at = now() where id = ${authId}`),
    query: ({ state }) => ({ code, state }),
    isSpent: true,
  },
  {
    name: "the same answer a second time",
    before: ({ provider, state }) => w.comeBack(provider, { code, state }),
    query: ({ state }) => ({ code, state }),
    isSpent: true,
  },
  {
    name: "another code for a used state",
    before: ({ provider, state }) => w.comeBack(provider, { code, state }),
    query: ({ state }) => ({ code: "another", state }),
    isSpent: true,
  },
  {
    name: "a code after the user denied access",
    before: ({ provider, state }) => w.comeBack(provider, { error: "access_denied", state }),
    query: ({ state }) => ({ code, state }),
    isSpent: true,
  },
  { name: "the user's denial", query: ({ state }) => ({ error: "access_denied", state }), isSpent: true },
  {
    name: "an error of the provider that contains markup",
    query: ({ state }) => ({ error: "<b>x</b>", error_description: `<i>${canary}</i>`, state }),
    isSpent: true,
  },
  { name: "a denial and a code", query: ({ state }) => ({ error: "access_denied", code, state }), isSpent: true },
  { name: "no code", query: ({ state }) => ({ state }), isSpent: true },
  { name: "an empty code", query: ({ state }) => ({ code: "", state }), isSpent: true },
  {
    name: "two codes",
    query: ({ state }) => [
      ["code", code],
      ["code", "b"],
      ["state", state],
    ],
    isSpent: true,
  },
  { name: "a token in the address", query: ({ state }) => ({ token: "a", state }), isSpent: true },
  { name: "an ID token in the address", query: ({ state }) => ({ code, id_token: "a.b.c", state }), isSpent: true },
  {
    name: "an encrypted answer that was not asked for",
    query: ({ state }) => ({ response: "a.b.c", state }),
    isSpent: true,
  },
  {
    name: "another provider's answer at this provider's address",
    query: ({ other }) => ({ code, state: other.state }),
  },
  {
    name: "this answer at another provider's address",
    query: ({ state }) => ({ code, state }),
    at: ({ other }) => other.provider,
    isSpent: true,
  },
  {
    name: "this answer at the address of an unknown provider",
    query: ({ state }) => ({ code, state }),
    at: () => "nobody",
    isSpent: true,
  },
  {
    name: "another issuer",
    provider: knownIssuer,
    query: ({ state }) => ({ code, state, iss: "https://evil.example" }),
    isSpent: true,
  },
  {
    name: "an issuer with the same beginning",
    provider: knownIssuer,
    query: ({ state }) => ({ code, state, iss: `${issuer}.evil.example` }),
    isSpent: true,
  },
  {
    name: "an issuer with an extra slash",
    provider: knownIssuer,
    query: ({ state }) => ({ code, state, iss: `${issuer}/` }),
    isSpent: true,
  },
  {
    name: "an issuer in capitals",
    provider: knownIssuer,
    query: ({ state }) => ({ code, state, iss: issuer.toUpperCase() }),
    isSpent: true,
  },
  {
    name: "two issuers",
    provider: knownIssuer,
    query: ({ state }) => [
      ["code", code],
      ["state", state],
      ["iss", issuer],
      ["iss", "https://evil.example"],
    ],
    isSpent: true,
  },
  {
    name: "no issuer from a provider that promised one",
    provider: knownIssuer,
    before: ({ provider }) =>
      t.db.query(sql`update oauth_providers set names_issuer = true where provider_id = ${provider}`),
    query: ({ state }) => ({ code, state }),
    isSpent: true,
  },
  {
    name: "an issuer on another host than the provider's endpoints",
    query: ({ state }) => ({ code, state, iss: "https://evil.example" }),
    isSpent: true,
  },
  {
    name: "an issuer that is not a URL",
    query: ({ state }) => ({ code, state, iss: "evil" }),
    isSpent: true,
  },
  {
    name: "an answer that belongs to the application's own redirect URI",
    provider: { allowed_redirect_uris: ["https://app.example.com/cb"] },
    asked: { redirect_uri: "https://app.example.com/cb" },
    query: ({ state }) => ({ code, state }),
  },
  {
    name: "the answer of a provider whose endpoints changed meanwhile",
    before: ({ provider }) => patchProvider(provider, { token_url: `${as.url}/elsewhere` }),
    query: ({ state }) => ({ code, state }),
    isSpent: true,
  },
  {
    name: "the answer of a provider whose client changed meanwhile",
    before: ({ provider }) => patchProvider(provider, { client_id: "d" }),
    query: ({ state }) => ({ code, state }),
    isSpent: true,
  },
  {
    name: "the answer of a deleted provider",
    before: ({ provider }) => t.ask({ method: "DELETE", url: `/v2/auth/providers/${provider}` }),
    query: ({ state }) => ({ code, state }),
    isSpent: true,
  },
];

const patchProvider = (provider: string, payload: object) =>
  t.ask({ method: "PATCH", url: `/v2/auth/providers/${provider}`, payload });

test("covers at least 40 attacks", () => assert.ok(attacks.length >= 40));

for (const attack of attacks) {
  test(`rejects and forwards no code: ${attack.name}`, async () => {
    const provider = await w.addProvider(attack.provider);
    const elsewhere = await w.addProvider();
    const other = { provider: elsewhere, ...(await w.begin(elsewhere)) };
    const scene = { provider, other, ...(await w.begin(provider, attack.asked)) };
    await attack.before?.(scene);
    const [callsBefore, tokensBefore] = [as.calls.length, await w.countTokens(provider)];
    assertPlainRefusal(await w.comeBack(attack.at?.(scene) ?? provider, attack.query(scene)));
    assert.deepEqual([as.calls.length, await w.countTokens(provider)], [callsBefore, tokensBefore]);
    // A wrong guess must not spoil the victim's sign-in; only its real answer spends it.
    const isOwn = attack.asked === undefined;
    const honest = await w.comeBack(provider, {
      code,
      state: scene.state,
      ...(attack.provider === knownIssuer && { iss: issuer }),
    });
    assert.equal(honest.status, attack.isSpent === true || !isOwn ? 400 : 200, honest.text);
  });
}

test("rejects an oversized answer without repeating it", async () => {
  const provider = await w.addProvider();
  const { state } = await w.begin(provider);
  const answer = await w.comeBack(provider, `code=${code}%00&state=${state}%00`);
  assert.equal(answer.status, 422);
  assert.ok(!answer.text.includes(state) && !answer.text.includes(canary), answer.text);
});

test("a failed attack ends the victim's wait", async () => {
  const provider = await w.addProvider();
  const { state, authId } = await w.begin(provider);
  const waiting = w.wait(authId, 30);
  await w.comeBack(provider, { code, state, iss: "https://evil.example" });
  assert.deepEqual((await waiting).body, { status: "not_found", token: null });
  const { body } = await t.ask({
    url: `/v2/auth/token-events?provider_id=${provider}`,
    headers: { "x-user-id": "alice" },
  });
  assert.deepEqual([body[0].event_type, body[0].reason], ["flow_failed", "issuer_mismatch"]);
});

test("of many identical answers at once, one is accepted and the code is forwarded once", async () => {
  const provider = await w.addProvider();
  const { state } = await w.begin(provider);
  const pages = await Promise.all(Array.from({ length: 20 }, () => w.comeBack(provider, { code, state })));
  assert.equal(pages.filter(({ status }) => status === 200).length, 1);
  assert.equal(as.calls.length, 1);
});

test("a HEAD request spends no code", async () => {
  const provider = await w.addProvider();
  const { state } = await w.begin(provider);
  const query = new URLSearchParams({ code, state });
  const head = await t.ask({ method: "HEAD", url: `/v2/auth/callback/${provider}?${query}`, key: null });
  assert.deepEqual([head.status, as.calls.length], [200, 0]);
  assert.equal((await w.comeBack(provider, { code, state })).status, 200);
});

/** Addresses that differ from the allowed one. */
const allowed = "https://app.example.com/cb";
const redirects: Record<string, string> = {
  "a longer path": `${allowed}/evil`,
  "more letters": `${allowed}x`,
  "a slash more": `${allowed}/`,
  "a query": `${allowed}?to=https://evil.example`,
  "an empty query": `${allowed}?`,
  "a fragment": `${allowed}#x`,
  "a sub-domain of it": "https://evil.app.example.com/cb",
  "a domain it is a sub-domain of": "https://app.example.com.evil.example/cb",
  "its parent domain": "https://example.com/cb",
  "another port": "https://app.example.com:444/cb",
  "its port, spelled out": "https://app.example.com:443/cb",
  "clear text": "http://app.example.com/cb",
  "a user name that looks like it": "https://app.example.com@evil.example/cb",
  "a way up": "https://app.example.com/cb/../evil",
  "a hidden way up": "https://app.example.com/cb/%2e%2e/evil",
  "a backslash": "https://app.example.com\\@evil.example/cb",
  capitals: "https://APP.example.com/cb",
  "a dot behind the host": "https://app.example.com./cb",
  "another kind of dot": "https://app\u3002example.com/cb",
  "a blank behind": `${allowed} `,
  "a line break": `${allowed}\n`,
  "an open redirect of the same host": "https://app.example.com/redirect?to=https://evil.example",
  code: "javascript:alert(1)",
  data: "data:text/html,x",
  "no address": "cb",
  "this server's address of another provider": "http://127.0.0.1:8124/v2/auth/callback/other",
  "this server under another name": "http://localhost:8124/v2/auth/callback/p",
};

test("rejects a redirect URI other than the allowed one, whatever it looks like", async () => {
  const provider = await w.addProvider({ allowed_redirect_uris: [allowed] });
  assert.equal((await w.authenticate(provider, { redirect_uri: allowed })).status, 200);
  for (const [name, redirect_uri] of Object.entries(redirects)) {
    const answer = await w.authenticate(provider, { redirect_uri });
    assert.equal(answer.status, 400, name);
    assert.match(answer.body.detail, /is not one of the 'allowed_redirect_uris'/, name);
  }
});

test("uses the configured address of this server, whatever host the caller claims", async () => {
  const provider = await w.addProvider();
  for (const headers of [
    { host: "evil.example" },
    { "x-forwarded-host": "evil.example" },
    { "x-forwarded-proto": "https" },
  ]) {
    const { url } = await w.begin(provider, { user_id: crypto.randomUUID() }, { headers });
    const redirect = new URL(url).searchParams.get("redirect_uri");
    assert.equal(redirect, `http://127.0.0.1:8124/v2/auth/callback/${provider}`);
  }
});

test("accepts a code that came to an application only from the user who started the sign-in", async () => {
  const redirect_uri = allowed;
  const provider = await w.addProvider({ allowed_redirect_uris: [allowed] });
  const url = `/v2/auth/callback/${provider}`;
  const agentKey = await t.mintKey({ role: "agent" });
  const { state } = await w.begin(provider, { redirect_uri }, { key: agentKey });
  const strangers = [
    { name: "no key", more: { key: null }, status: 401 },
    { name: "a reader", more: { key: await t.mintKey({ role: "reader" }) }, status: 403 },
    {
      name: "a listener",
      more: { key: await t.mintKey({ role: "listener", isOrganizational: true, listenerId: t.deps.listenerId }) },
      status: 403,
    },
    { name: "another key of the workspace", more: { key: t.tenant.adminKey }, status: 400 },
    { name: "another user", more: { key: agentKey, headers: { "x-user-id": "bob" } }, status: 400 },
    { name: "another organization", more: { key: t.stranger.adminKey }, status: 400 },
    {
      name: "another organization, as the user",
      more: { key: t.stranger.adminKey, headers: { "x-user-id": "alice" } },
      status: 400,
    },
  ];
  for (const { name, more, status } of strangers) {
    const answer = await w.post(url, { code, state }, more);
    assert.equal(answer.status, status, name);
    assert.ok(!answer.text.includes(canary), name);
  }
  assert.equal(as.calls.length, 0);
  const { body } = await w.post(url, { code, state }, { key: agentKey });
  assert.deepEqual([body.status, body.token, body.user_id, as.calls.length], ["completed", null, "alice", 1]);
  assert.equal(as.calls[0]?.form["redirect_uri"], allowed);
  const again = await w.post(url, { code, state }, { key: agentKey });
  assert.match(again.body.detail, /has already been used/);
});

test("returns a pending sign-in whose code goes to an application only to the key that may submit the code", async () => {
  const redirect_uri = allowed;
  const provider = await w.addProvider({ allowed_redirect_uris: [allowed] });
  const url = `/v2/auth/callback/${provider}`;
  const [before, after] = [await t.mintKey({ role: "agent" }), await t.mintKey({ role: "agent" })];
  const begun = await w.begin(provider, { redirect_uri }, { key: before });
  assert.equal((await w.begin(provider, { redirect_uri }, { key: before })).authId, begun.authId);
  const { state } = await w.begin(provider, { redirect_uri }, { key: after });
  const { status, body } = await w.post(url, { code, state }, { key: after });
  assert.deepEqual([status, body.status], [200, "completed"]);

  const isShared = async (fields: object) => {
    const [one, other] = [
      await w.begin(provider, fields, { key: before }),
      await w.begin(provider, fields, { key: after }),
    ];
    return one.authId === other.authId;
  };
  assert.ok(await isShared({ user_id: "bob" }), "our own page asks no one for a key");
  assert.ok(
    await isShared({ redirect_uri, user_id: null, agent_id: "cron" }),
    "an agent's own sign-in belongs to the workspace",
  );
  assert.ok(!(await isShared({ redirect_uri, user_id: "bob" })));
});

test("a provider of another organization with the same name gets no codes of this one", async () => {
  await using theirs = await startOAuthServer();
  const key = t.stranger.adminKey;
  const provider_id = `p-${crypto.randomUUID()}`;
  const endpointsOf = (url: string) => ({ auth_url: `${url}/authorize`, token_url: `${url}/token` });
  const create = async (url: string, { key }: { key?: string } = {}) => {
    const fields = { provider_id, name: "Example", client_id: key ? "theirs" : "ours", ...endpointsOf(url) };
    const { status, body, text } = await w.post("/v2/auth/providers", fields, key ? { key } : {});
    assert.equal(status, 200, text);
    return body.redirect_uri as string;
  };
  const change = async (fields: object) => {
    const url = `/v2/auth/providers/${provider_id}`;
    const { status, body, text } = await t.ask({ method: "PATCH", url, payload: fields, key });
    assert.equal(status, 200, text);
    return body.redirect_uri as string;
  };
  /** Their sign-in, whose user is sent to the provider of this organization instead, and comes back to its redirect URI. */
  const attack = async () => {
    const { state } = await w.begin(provider_id, { user_id: "mallory", force_new: true }, { key });
    assertPlainRefusal(await w.comeBack(provider_id, { code: `${canary}-code`, state }));
    assert.deepEqual(theirs.calls, []);
  };

  const ours = await create(as.url);
  assert.match(ours, new RegExp(`/${provider_id}$`));
  const other = await create(theirs.url, { key });
  assert.notEqual(other, ours);
  await attack();
  const { url, state } = await w.begin(provider_id, { user_id: "mallory", force_new: true }, { key });
  assert.equal(new URL(url).searchParams.get("redirect_uri"), other);
  assert.equal((await w.comeBack(other.split("/").at(-1) as string, { code: "theirs", state })).status, 200);
  theirs.calls.length = 0;

  // Both may have the name at one server, until one of them moves. The other one's address never changes.
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/auth/providers/${provider_id}`, key })).status, 200);
  assert.equal(await create(as.url, { key }), ours);
  assert.notEqual(await change(endpointsOf(theirs.url)), ours);
  await attack();
  assert.notEqual(await change(endpointsOf(as.url)), ours);
  assert.equal((await t.ask({ url: `/v2/auth/providers/${provider_id}` })).body.redirect_uri, ours);
  await w.connect(provider_id);
});

test("an organization that names the public client of another one has another redirect URI", async () => {
  const key = t.stranger.adminKey;
  const endpoints = { auth_url: `${as.url}/authorize`, token_url: `${as.url}/token` };
  const answered = ({ status, body, text }: Awaited<ReturnType<typeof t.ask>>): string => {
    assert.equal(status, 200, text);
    return body.redirect_uri;
  };
  const create = async (fields: object, more: { key?: string } = {}) =>
    answered(await w.post("/v2/auth/providers", { name: "Example", ...endpoints, ...fields }, more));
  const secret = { client_secret: `${canary}-secret` };

  const provider_id = `p-${crypto.randomUUID()}`;
  const ours = await create({ provider_id, client_id: "Public" });
  // A server may ignore the secret of a public client, and the case of its id.
  for (const fields of [{ client_id: "Public" }, { client_id: " public" }, { client_id: "Public", ...secret }]) {
    assert.notEqual(await create({ provider_id, ...fields }, { key }), ours);
    answered(await t.ask({ method: "DELETE", url: `/v2/auth/providers/${provider_id}`, key }));
  }
  // Nor one that a server takes for the same because it ignores case.
  const capitals = { provider_id: provider_id.toUpperCase(), client_id: "Public" };
  assert.doesNotMatch(await create(capitals, { key }), new RegExp(provider_id, "i"));
  assert.equal(await create({ provider_id, client_id: "theirs" }, { key }), ours);
  const { state } = await w.begin(provider_id, { user_id: "mallory" }, { key });
  const url = `/v2/auth/providers/${provider_id}`;
  assert.notEqual(answered(await t.ask({ method: "PATCH", url, payload: { client_id: "Public" }, key })), ours);
  assert.notEqual(answered(await t.ask({ method: "PATCH", url, payload: { client_id: "theirs" }, key })), ours);
  // Not even with a sign-in from before the change.
  assertPlainRefusal(await w.comeBack(provider_id, { code: `${canary}-code`, state }));
  assert.deepEqual(as.calls, []);
  assert.equal(answered(await t.ask({ url })), ours);
  await w.connect(provider_id);

  // Only the owners of a client with a secret know that.
  const shared = { provider_id: `p-${crypto.randomUUID()}`, client_id: "confidential", ...secret };
  assert.equal(await create(shared, { key }), await create(shared));
});
