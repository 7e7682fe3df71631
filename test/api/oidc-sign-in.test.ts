import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { after, test } from "node:test";
import { createProviderFetch } from "../../src/auth/oauth/outbound.ts";
import { Oidc } from "../../src/auth/oidc.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createWorkspace } from "../../src/store/tenants/tenants.ts";
import { startIdentityProvider, type UserClaims } from "../support/identity-provider.ts";
import { startApi } from "./harness.ts";

const provider = await startIdentityProvider();
after(() => provider[Symbol.asyncDispose]());
const ownUrl = "https://pierhead.example.org/base";
const settings = { issuer: provider.issuer, clientId: "pierhead", clientSecret: "canary-9d1f", name: "Example ID" };
const t = await startApi({
  publicUrl: ownUrl,
  ownUrl: () => ownUrl,
  oidc: { ...settings, trustsEmail: false },
  rateLimit: { perS: 100_000, burst: 100_000 },
});
const fromConsole = { "x-pierhead-console": "1" };
const cookiesOf = (headers: Record<string, unknown>) => [headers["set-cookie"] ?? []].flat().map(String);
const pairOf = (cookies: string[], name: string) =>
  cookies.map((one) => one.split(";", 1)[0] ?? "").find((pair) => pair.startsWith(`${name}=`)) ?? "";

async function begin() {
  const answer = await t.ask({ url: "/v2/session/oidc", key: null });
  assert.equal(answer.status, 303, answer.text);
  const [cookie = ""] = cookiesOf(answer.headers);
  return { location: String(answer.headers["location"]), cookie, pair: cookie.split(";", 1)[0] ?? "" };
}

async function finish(cookie: string, parameters: URLSearchParams) {
  const headers = cookie === "" ? {} : { cookie };
  const answer = await t.ask({ url: `/v2/session/oidc/callback?${parameters}`, key: null, headers });
  return {
    ...answer,
    cookies: cookiesOf(answer.headers),
    session: pairOf(cookiesOf(answer.headers), "__Host-pierhead_session"),
  };
}

/** Runs a whole sign-in as the user that the provider reports. */
async function signIn(userClaims: UserClaims) {
  provider.userClaims = userClaims;
  const { location, pair } = await begin();
  return finish(pair, provider.signIn(location).parameters);
}

async function addMember(email: string, role: string, more: object = {}, key = t.tenant.adminKey): Promise<string> {
  const made = await t.ask({ method: "POST", url: "/v2/admin/members", key, payload: { email, role, ...more } });
  assert.equal(made.status, 201, made.text);
  return made.body.id;
}

const askAs = (cookie: string, url: string, headers: Record<string, string> = {}) =>
  t.ask({ url, key: null, headers: { cookie, ...fromConsole, ...headers } });
const verified = (email: string): UserClaims => ({ email, email_verified: true });
const tokenCalls = () => provider.server.calls.filter(({ path }) => path === "/token").length;

test("a member signs in with a code, PKCE, state and nonce, and then has the role of the membership", async () => {
  const id = await addMember("ada@example.org", "deployer", { name: "Ada" });
  const { location, cookie, pair } = await begin();
  const asked = Object.fromEntries(new URL(location).searchParams);
  assert.equal(asked["redirect_uri"], `${ownUrl}/v2/session/oidc/callback`);
  assert.deepEqual([asked["code_challenge_method"], asked["scope"]], ["S256", "openid email"]);
  assert.match(cookie, /^__Host-pierhead_sign_in=[\w-]{40,}; Path=\/; HttpOnly; SameSite=Lax; Max-Age=600; Secure$/);
  for (const part of ["state", "nonce", "code_challenge"]) assert.equal(asked[part]?.length, 43);
  assert.equal(new Set([asked["state"], asked["nonce"], asked["code_challenge"]]).size, 3);
  provider.userClaims = verified("Ada@Example.org");
  const done = await finish(pair, provider.signIn(location).parameters);
  assert.deepEqual([done.status, done.headers["location"]], [303, `${ownUrl}/`]);
  assert.match(pairOf(done.cookies, "__Host-pierhead_sign_in"), /=$/);
  const kept = done.cookies.find((one) => one.startsWith("__Host-pierhead_session=")) ?? "";
  assert.match(
    kept,
    /^__Host-pierhead_session=phs_[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Priority=High; Expires=[^;]+; Secure$/,
  );
  const call = provider.server.calls.findLast(({ path }) => path === "/token");
  const { code_verifier: verifier = "", client_secret: secret } = call?.form ?? {};
  assert.equal(createHash("sha256").update(verifier).digest("base64url"), asked["code_challenge"]);
  assert.equal(secret, "canary-9d1f");

  const me = (await askAs(done.session, "/v2/session")).body;
  assert.deepEqual(
    [me.member_id, me.api_key_id, me.name, me.role, me.scope],
    [id, null, "Ada", "deployer", "workspace"],
  );
  assert.deepEqual(me.workspaces, [{ id: t.tenant.tenantId, name: "acme", role: "deployer", scope: "workspace" }]);
  assert.ok(Date.parse(me.expires_at) <= Date.now() + 12 * 3_600_000);
  assert.equal((await askAs(done.session, "/v2/deployments")).status, 200);
  assert.equal((await askAs(done.session, "/v2/admin/api-keys")).status, 403, "no admin");
  const log = await t.ask({ url: "/v2/admin/audit-log?action=session.create" });
  const { actor, actor_name, subject_id } = log.body.items[0];
  assert.deepEqual([actor, actor_name, subject_id], [`member:${id}`, "ada@example.org", id]);

  const out = await t.ask({
    method: "DELETE",
    url: "/v2/session",
    key: null,
    headers: { cookie: done.session, ...fromConsole },
  });
  assert.equal(out.status, 204);
  assert.equal((await askAs(done.session, "/v2/session")).status, 401, "signed out");
  const { items } = (await t.ask({ url: "/v2/admin/audit-log?action=session.delete" })).body;
  assert.equal(items[0]?.actor, log.body.items[0].actor);
});

test("other pages and other origins cannot use a member's session", async () => {
  await addMember("cas@example.org", "reader");
  const { session } = await signIn(verified("cas@example.org"));
  const plain = await t.ask({ url: "/v2/deployments", key: null, headers: { cookie: session } });
  assert.equal(plain.status, 401);
  assert.equal((await askAs(session, "/v2/deployments", { "sec-fetch-site": "same-site" })).status, 401);
});

test("rejects a user who is not a member, and creates nothing for them", async () => {
  const answer = await signIn(verified("eve<b>@example.org"));
  assert.equal(answer.status, 400);
  assert.match(answer.text, /eve&#60;b&#62;@example.org is not a member of this server/);
  assert.equal(answer.session, "");
});

test("compares addresses case-insensitively, but distinguishes letters that only look the same in lower case", async () => {
  await addMember("Kate@example.org", "admin");
  assert.equal((await signIn(verified("KATE@Example.org"))).status, 303);
  const answer = await signIn(verified("\u212aate@example.org"));
  assert.deepEqual([answer.status, answer.session], [400, ""]);
  assert.match(answer.text, /is not a member of this server/);
  await addMember("\u212aate@example.org", "reader");
  const { session } = await signIn(verified("\u212aATE@example.org"));
  assert.equal((await askAs(session, "/v2/session")).body.role, "reader");
});

test("accepts an address only if the provider has verified it, unless the operator trusts the provider", async () => {
  await addMember("grace@example.org", "admin");
  for (const userClaims of [{ email: "grace@example.org" }, { email: "grace@example.org", email_verified: false }]) {
    const answer = await signIn(userClaims);
    assert.deepEqual([answer.status, answer.session], [400, ""]);
    assert.match(answer.text, /has not verified your address grace@example.org/);
  }
  assert.match((await signIn({})).text, /did not say what your email address is/);
  const inUserinfo = await signIn({ ...verified("grace@example.org"), isInUserinfo: true });
  assert.equal(inUserinfo.status, 303, "some providers report it only at the userinfo endpoint");
  const { oidc } = t.deps.settings;
  assert.ok(oidc);
  oidc.trustsEmail = true;
  assert.equal((await signIn({ email: "grace@example.org" })).status, 303);
  oidc.trustsEmail = false;
});

test("rejects an address that no database can store", async () => {
  const answer = await signIn(verified("ada@example.org\u0000"));
  assert.deepEqual([answer.status, answer.session], [400, ""], answer.text);
});

test("a sign-in ends once, in the browser that started it, and in time", async () => {
  await addMember("heidi@example.org", "reader");
  provider.userClaims = verified("heidi@example.org");
  const [mine, other] = [await begin(), await begin()];
  const { parameters } = provider.signIn(mine.location);
  const before = tokenCalls();
  const wrong = new URLSearchParams({ ...Object.fromEntries(parameters), state: "x".repeat(43) });
  const twice = new URLSearchParams([...parameters, ["state", parameters.get("state") ?? ""]]);
  for (const [cookie, given] of [
    ["", parameters],
    [other.pair, parameters],
    [mine.pair, wrong],
    [mine.pair, twice],
    [mine.pair, new URLSearchParams()],
  ] as const) {
    const refused = await finish(cookie, given);
    assert.deepEqual([refused.status, refused.session], [400, ""]);
    assert.match(refused.text, /was not started in this browser/);
  }
  assert.equal(tokenCalls(), before, "no code was spent");
  assert.equal((await finish(mine.pair, parameters)).status, 303);
  const again = await finish(mine.pair, parameters);
  assert.match(again.text, /was not started in this browser/);
  assert.equal(tokenCalls(), before + 1);

  const late = provider.signIn(other.location).parameters;
  await t.db.query(sql`update sign_ins set expires_at = now() - interval '1 second'`);
  assert.equal((await finish(other.pair, late)).status, 400);
  const forged = provider.signIn((await begin()).location).parameters;
  assert.equal((await finish("__Host-pierhead_sign_in=phs_invented", forged)).status, 400);
});

test("of two concurrent answers to one sign-in one is accepted", async () => {
  provider.userClaims = verified("heidi@example.org");
  const { location, pair } = await begin();
  const { parameters } = provider.signIn(location);
  const answers = await Promise.all([finish(pair, parameters), finish(pair, parameters)]);
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [303, 400]);
});

const nowS = Math.floor(Date.now() / 1_000);
for (const [what, lie] of [
  ["for another sign-in", { claims: { nonce: "n".repeat(43) } }],
  ["without a nonce", { claims: { nonce: undefined } }],
  ["for another client", { claims: { aud: "another-client" } }],
  ["for us that another client asked for", { claims: { azp: "another-client" } }],
  ["of another issuer", { claims: { iss: "https://elsewhere.example" } }],
  ["that has expired", { claims: { exp: nowS - 3_600, iat: nowS - 7_200 } }],
  ["with a forged signature", { isForged: true }],
  ["without a signature", { isUnsigned: true }],
] as const) {
  test(`a token ${what} signs no one in`, async () => {
    const answer = await signIn({ ...verified("heidi@example.org"), ...lie });
    assert.deepEqual([answer.status, answer.session], [400, ""], answer.text);
    assert.match(answer.text, /Not signed in/);
  });
}

test("explains an answer of another issuer and a refusal of the provider", async () => {
  const one = await begin();
  const { parameters } = provider.signIn(one.location);
  parameters.set("iss", "https://elsewhere.example");
  const before = tokenCalls();
  assert.equal((await finish(one.pair, parameters)).status, 400);
  assert.equal(tokenCalls(), before);
  const two = await begin();
  const state = new URL(two.location).searchParams.get("state") ?? "";
  const denied = await finish(two.pair, new URLSearchParams({ error: "access_denied", state, iss: provider.issuer }));
  assert.match(denied.text, /has denied the access/);
});

test("a member of several workspaces has the strongest role in each, and reaches no other", async () => {
  const { organizationId, tenantId } = t.tenant;
  const second = await createWorkspace(t.db, { organizationId, name: "second" });
  const operator = await t.mintKey({ isOrganizational: true });
  await addMember("ivan@example.org", "reader", { organization_id: organizationId }, operator);
  await addMember("ivan@example.org", "admin", { workspace_id: second }, operator);
  const { session } = await signIn(verified("ivan@example.org"));
  const me = (await askAs(session, "/v2/session")).body;
  assert.deepEqual(
    me.workspaces.map(({ name, role, scope }: Record<string, string>) => [name, role, scope]),
    [
      ["acme", "reader", "organization"],
      ["second", "admin", "workspace"],
    ],
  );
  const statusIn = async (tenant: string, url: string) => (await askAs(session, url, { "x-tenant-id": tenant })).status;
  assert.equal(await statusIn(tenantId, "/v2/deployments"), 200);
  assert.equal(await statusIn(second, "/v2/deployments"), 200);
  assert.equal(await statusIn(tenantId, "/v2/admin/api-keys"), 403, "a reader there");
  assert.equal(await statusIn(second, "/v2/admin/api-keys"), 200);
  assert.equal(await statusIn(t.stranger.tenantId, "/v2/deployments"), 403);
  const keys = await askAs(session, "/v2/admin/audit-log", { "x-tenant-id": second });
  const places = new Set(keys.body.items.map(({ workspace_id }: Record<string, string>) => workspace_id));
  assert.deepEqual([...places], [second], "an admin of one workspace sees only that one");
});

test("another organization that adds a person as its member does not choose the workspace in which that person works", async () => {
  const { stranger, tenant } = t;
  await addMember("kim@example.org", "reader");
  const { session: before } = await signIn(verified("kim@example.org"));
  await addMember("kim@example.org", "admin", {}, stranger.adminKey);
  const { session: after } = await signIn(verified("kim@example.org"));
  for (const session of [before, after]) {
    const { body } = await askAs(session, "/v2/session");
    assert.deepEqual([body.workspace_id, body.role], [tenant.tenantId, "reader"]);
    assert.equal(body.workspaces[0].id, tenant.tenantId);
    assert.equal(body.workspaces.length, 2);
    // Requests that name no workspace, as scripts and the command line send them.
    assert.equal((await askAs(session, "/v2/admin/api-keys")).status, 403);
    assert.equal((await askAs(session, "/v2/admin/api-keys", { "x-tenant-id": stranger.tenantId })).status, 200);
  }
});

test("changing or ending a membership takes effect at once and ends sessions without one", async () => {
  const id = await addMember("judy@example.org", "reader");
  const { session } = await signIn(verified("judy@example.org"));
  assert.equal((await askAs(session, "/v2/admin/api-keys")).status, 403);
  const url = `/v2/admin/members/${id}`;
  assert.equal((await t.ask({ method: "PATCH", url, payload: { role: "admin" } })).status, 200);
  assert.equal((await askAs(session, "/v2/admin/api-keys")).status, 200);
  assert.equal((await t.ask({ method: "DELETE", url })).status, 204);
  assert.equal((await askAs(session, "/v2/session")).status, 401);
});

test("stored sign-ins and sessions cannot be used to sign in", async () => {
  const { pair } = await begin();
  const { session } = await signIn(verified("ada@example.org"));
  const { rows } = await t.db.query<{ row: string }>(sql`
    select n::text as row from sign_ins n union all select s::text from sessions s`);
  const secrets = [pair, session].map((one) => one.split("=")[1] ?? "");
  assert.ok(rows.length > 1 && secrets.every((secret) => secret.length > 40));
  for (const { row } of rows) assert.ok(!secrets.some((secret) => row.includes(secret)));
});

test("a HEAD request on a link starts and spends nothing", async () => {
  const { location, pair } = await begin();
  const { parameters } = provider.signIn(location);
  provider.userClaims = verified("ada@example.org");
  const url = `/v2/session/oidc/callback?${parameters}`;
  const look = await t.ask({ method: "HEAD", url, key: null, headers: { cookie: pair } });
  assert.deepEqual([look.status, cookiesOf(look.headers)], [200, []]);
  assert.equal((await finish(pair, parameters)).status, 303);
});

test("shows everyone where to sign in, and reports when nothing is configured", async () => {
  const info = await t.ask({ url: "/info", key: null });
  assert.deepEqual(info.body.sign_in, { name: "Example ID", url: `${ownUrl}/v2/session/oidc` });
  assert.ok(!info.text.includes("canary"));
  const plain = await startApi();
  assert.equal((await plain.ask({ url: "/info", key: null })).body.sign_in, null);
  for (const url of ["/v2/session/oidc", "/v2/session/oidc/callback?code=a&state=b"]) {
    const answer = await plain.ask({ url, key: null });
    assert.equal(answer.status, 400);
    assert.match(answer.text, /is not set up on this server/);
  }
});

test("reports a provider that does not answer, and works again when it does", async () => {
  await using other = await startIdentityProvider();
  const fetch = createProviderFetch({ allowPrivateNetwork: true });
  const oidc = new Oidc({ ...settings, issuer: other.issuer, trustsEmail: false }, fetch);
  other.isDown = true;
  await assert.rejects(oidc.begin("secret", ownUrl), { name: "OAuthFailure", reason: "provider_error" });
  other.isDown = false;
  assert.ok((await oidc.begin("secret", ownUrl)).startsWith(`${other.issuer}/auth?`));
  const gone = new Oidc({ ...settings, issuer: "http://127.0.0.1:1", trustsEmail: false }, fetch);
  await assert.rejects(gone.begin("secret", ownUrl), { reason: "provider_unreachable" });
});

test("fails plainly with metadata that lead a browser nowhere, and ignores numbers instead of lists", async () => {
  await using other = await startIdentityProvider();
  const honest = other.server.answer;
  const announce = (fields: object) => {
    other.server.answer = async (call) => {
      const answer = await honest(call);
      return "json" in answer && call.path.startsWith("/.well-known/")
        ? { json: { ...(answer.json as object), ...fields } }
        : answer;
    };
    const fetch = createProviderFetch({ allowPrivateNetwork: true });
    return new Oidc({ ...settings, issuer: other.issuer, trustsEmail: false }, fetch);
  };
  for (const authorization_endpoint of ["sign-in", 7, "javascript:alert(1)"]) {
    await assert.rejects(announce({ authorization_endpoint }).begin("secret", ownUrl), { reason: "no_endpoints" });
  }
  const oidc = announce({ token_endpoint_auth_methods_supported: 7 });
  other.userClaims = verified("ana@example.org");
  const { parameters } = other.signIn(await oidc.begin("secret", ownUrl));
  assert.equal(await oidc.finish("secret", parameters, ownUrl), "ana@example.org");
});

test("limits the sign-ins started from one address", async () => {
  const statuses = new Set<number>();
  for (let count = 0; count < 5_000 && !statuses.has(429); count += 1) {
    statuses.add((await t.ask({ method: "HEAD", url: "/v2/session/oidc", key: null })).status);
  }
  assert.deepEqual([...statuses], [200, 429]);
});
