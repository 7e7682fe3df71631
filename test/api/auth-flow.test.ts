import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, beforeEach, test } from "node:test";
import { sql } from "kysely";
import { startOAuthServer } from "../oauth-server.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const as = await startOAuthServer();
after(() => as[Symbol.asyncDispose]());
const honest = as.answer;
beforeEach(() => {
  as.answer = honest;
  as.calls.length = 0;
});

/** A provider of its own for each test. */
async function addProvider(more: object = {}, key = t.tenant.adminKey): Promise<string> {
  const provider_id = `p-${randomUUID()}`;
  const endpoints = { auth_url: `${as.url}/authorize`, token_url: `${as.url}/token` };
  const payload = {
    provider_id,
    name: "Example",
    client_id: "c",
    client_secret: "canary-secret",
    ...endpoints,
    ...more,
  };
  const answer = await t.ask({ method: "POST", url: "/v2/auth/providers", payload, key });
  assert.equal(answer.status, 200, answer.text);
  return provider_id;
}

const post = (url: string, payload: object, more: object = {}) => t.ask({ method: "POST", url, payload, ...more });
const authenticate = (provider: string, more: object = {}, request: object = {}) =>
  post("/v2/auth/authenticate", { provider, scopes: ["read"], user_id: "alice", ...more }, request);
const wait = (authId: string, timeout = 0, more: object = {}) =>
  t.ask({ url: `/v2/auth/wait/${authId}?timeout=${timeout}`, ...more });
const stateOf = (url: string) => new URL(url).searchParams.get("state") ?? "";
const callback = (provider: string, query: Record<string, string>) =>
  t.ask({ url: `/v2/auth/callback/${provider}?${new URLSearchParams(query)}`, key: null });

/** From nothing to a token of the user's. */
async function connect(provider: string, more: object = {}) {
  const { body } = await authenticate(provider, more);
  const page = await callback(provider, { code: "code-1", state: stateOf(body.url) });
  assert.equal(page.status, 200, page.text);
  return body.auth_id as string;
}

/** As if the time were over. */
const expire = (provider: string) =>
  sql`update oauth_tokens set expires_at = now() - interval '1 second'
       where provider_row_id = (select id from oauth_providers where provider_id = ${provider})`.execute(t.db.kysely);

test("a user who consents gives the agent a token: pending, the page, completed", async () => {
  const provider = await addProvider({ uses_pkce: true });
  const { status, body } = await authenticate(provider);
  assert.deepEqual([status, body.status, body.token, body.user_id], [200, "pending", null, "alice"]);
  const url = new URL(body.url);
  const asked = Object.fromEntries(url.searchParams);
  assert.deepEqual(
    { ...asked, state: asked["state"]?.length, code_challenge: asked["code_challenge"]?.length },
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
  assert.deepEqual((await wait(body.auth_id)).body, { status: "pending", token: null });
  const waiting = wait(body.auth_id, 30);
  const page = await callback(provider, { code: "code-1", state: stateOf(body.url) });
  assert.equal(page.status, 200);
  for (const shown of ["Connected", "Example", "alice", "any agent"]) assert.ok(page.text.includes(shown), shown);
  assert.ok(!/code-1|access-|refresh-|canary/.test(page.text + JSON.stringify(page.headers)));
  assert.equal(page.headers["referrer-policy"], "no-referrer");
  assert.match(String(page.headers["content-security-policy"]), /default-src 'none'.*frame-ancestors 'none'/);
  assert.deepEqual((await waiting).body, { status: "completed", token: "access-1" });

  const [{ form }] = as.calls as [(typeof as.calls)[0]];
  assert.equal(form["code_verifier"]?.length, 43);
  assert.deepEqual(
    { ...form, code_verifier: "" },
    {
      grant_type: "authorization_code",
      code: "code-1",
      redirect_uri: asked["redirect_uri"],
      client_id: "c",
      client_secret: "canary-secret",
      code_verifier: "",
    },
  );
  const again = await authenticate(provider);
  assert.deepEqual([again.body.status, again.body.token, again.body.url], ["completed", "access-1", null]);
  assert.deepEqual(again.body.metadata.scopes, ["read"]);
  assert.equal(as.calls.length, 1);
});

test("of 50 that ask for an expired token at once, one refreshes it and all get the new one", async () => {
  const provider = await addProvider();
  await connect(provider);
  await expire(provider);
  as.calls.length = 0;
  as.answer = async () => {
    await new Promise((resolve) => setTimeout(resolve, 50));
    return { json: { access_token: "fresh", refresh_token: "rotated", token_type: "bearer", expires_in: 3600 } };
  };
  const answers = await Promise.all(Array.from({ length: 50 }, () => authenticate(provider)));
  assert.deepEqual([...new Set(answers.map(({ body }) => `${body.status} ${body.token}`))], ["completed fresh"]);
  assert.equal(as.calls.length, 1);
  await expire(provider);
  as.answer = ({ form }) => ({
    json: { access_token: `after ${form["refresh_token"]}`.replace(" ", "-"), token_type: "bearer" },
  });
  assert.equal((await authenticate(provider)).body.token, "after-rotated");
});
