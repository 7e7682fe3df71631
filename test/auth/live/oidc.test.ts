import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import path from "node:path";
import { after, test } from "node:test";
import { createClient } from "../../../src/client/client.ts";
import { eventually } from "../../support/eventually.ts";
import { clientSecret, startLiveWorld } from "./world.ts";

// 10 s after it was issued, a token has less than the minimum life of a minute, so it is refreshed on request. The 50 calls
// may take this long on a busy machine.
const world = await startLiveWorld({ accessTokenTtlS: 70 });
after(() => world[Symbol.asyncDispose]());
const { identity, browser, app } = world;
const isRefresh = ({ grant }: { grant?: string }) => grant === "refresh_token";

await world.client.createOAuthProvider({
  body: {
    provider_id: "one",
    name: "Example ID",
    client_id: "pierhead",
    client_secret: clientSecret,
    auth_url: `${identity.issuer}/auth`,
    token_url: `${identity.issuer}/token`,
    revocation_url: `${identity.issuer}/token/revocation`,
    issuer: identity.issuer,
    uses_pkce: true,
    allowed_redirect_uris: [app.redirectUri],
  },
});

const scopes = ["openid", "email", "offline_access"];
const ask = (user: string, more: object = {}) =>
  world.client.authenticate({ body: { provider: "one", scopes, user_id: user, ...more } as never });
const userOf = async (token: string | null) => {
  const answer = await fetch(`${identity.issuer}/me`, { headers: { authorization: `Bearer ${token}` } });
  return { status: answer.status, sub: answer.ok ? ((await answer.json()) as { sub: string }).sub : null };
};
const begin = async (user: string, more: object = {}) => {
  const { status, url, auth_id } = await ask(user, more);
  assert.ok(url !== null && auth_id !== null, status);
  return { url, authId: auth_id };
};
const connect = async (user: string) => {
  const { url } = await begin(user);
  await browser.consent(url, { user });
  const { token, metadata } = await ask(user);
  return { token, tokenId: metadata?.["token_id"] as string };
};
/** Returns a client that acts for one user. */
const clientOf = (user: string) => createClient({ baseUrl: world.url, apiKey: world.apiKey, userId: user });

test("a user signs in and consents in a browser, and the waiting agent gets a token that the server accepts", async () => {
  const { url, authId } = await begin("alice", { agent_id: "helper" });
  const waiting = world.client.waitForAuth({ auth_id: authId, timeout: 60 }, { deadlineMs: 70_000 });
  const page = await browser.consent(url, { user: "alice" });
  assert.equal(page.title, "Connected");
  for (const shown of ["Example ID is connected.", "helper", "alice"]) assert.ok(page.text.includes(shown), page.text);
  const { status, token } = await waiting;
  assert.equal(status, "completed");
  assert.deepEqual(await userOf(token), { status: 200, sub: "alice" });
  const again = await ask("alice", { agent_id: "helper" });
  assert.deepEqual([again.status, again.url], ["completed", null]);
  const [event] = await clientOf("alice").listTokenEvents({ limit: 1 });
  assert.deepEqual([event?.event_type, event?.provider_account_label], ["connected", "alice@example.org"]);
});

test("a denial is shown to the user and ends the agent's wait", async () => {
  const { url, authId } = await begin("denier");
  const waiting = world.client.waitForAuth({ auth_id: authId, timeout: 60 }, { deadlineMs: 70_000 });
  const page = await browser.consent(url, { user: "denier", denies: true });
  assert.equal(page.title, "Not connected");
  assert.match(page.text, /has denied the access/);
  assert.deepEqual(await waiting, { status: "not_found", token: null });
  const [event] = await clientOf("denier").listTokenEvents({ limit: 1 });
  assert.deepEqual([event?.event_type, event?.reason], ["flow_failed", "access_denied"]);
});

test("of 50 concurrent requests for an expired token, one refreshes it, and the rotated token works next time", async () => {
  const { token } = await connect("bob");
  const isExpired = async () => {
    const [kept] = await clientOf("bob").listOAuthTokens({ provider_id: "one" });
    return Date.parse(kept?.expires_at ?? "") - Date.now() < 59_500;
  };
  const round = async () => {
    await eventually(isExpired, (expired) => expired, { what: "the expiry of the token" });
    const before = identity.count(isRefresh);
    const answers = await Promise.all(Array.from({ length: 50 }, () => ask("bob")));
    assert.deepEqual([...new Set(answers.map(({ status }) => status))], ["completed"]);
    const [fresh, ...others] = new Set(answers.map((answer) => answer.token));
    assert.deepEqual([others, identity.count(isRefresh) - before], [[], 1]);
    return fresh ?? null;
  };
  const second = await round();
  assert.notEqual(second, token);
  assert.deepEqual(await userOf(second), { status: 200, sub: "bob" });
  assert.notEqual(await round(), second);
});

test("a deleted token is revoked at its provider", async () => {
  const { token, tokenId } = await connect("carol");
  assert.equal((await userOf(token)).status, 200);
  await clientOf("carol").deleteOAuthToken({ token_id: tokenId });
  assert.equal((await userOf(token)).status, 401);
  assert.deepEqual(await clientOf("carol").hasOAuthToken({ provider_id: "one" }), { has_token: false });
});

test("a grant that the provider ended is noticed, and the user has to consent again", async () => {
  const { token, tokenId } = await connect("dora");
  // A refresh token that is used twice ends its grant at the provider. Here the revocation endpoint ends it.
  await fetch(`${identity.issuer}/token/revocation`, {
    method: "POST",
    body: new URLSearchParams({ token: token ?? "", client_id: "pierhead", client_secret: clientSecret }),
  });
  const secrets = identity.lines.flatMap((line) => line.secrets ?? []);
  const refresh = secrets[secrets.indexOf(token ?? "") + 1] ?? "";
  await fetch(`${identity.issuer}/token/revocation`, {
    method: "POST",
    body: new URLSearchParams({ token: refresh, client_id: "pierhead", client_secret: clientSecret }),
  });
  const expired = await eventually(
    () => ask("dora"),
    ({ status }) => status !== "completed",
    { what: "the refusal of the refresh" },
  );
  assert.equal(expired.status, "token_expired");
  const page = await browser.consent(expired.url ?? "", { user: "dora" });
  assert.equal(page.title, "Connected");
  const renewed = await ask("dora");
  assert.deepEqual([renewed.status, renewed.metadata?.["token_id"]], ["completed", tokenId]);
});

for (const [what, change] of [
  [
    "without a challenge",
    (url: URL) => ["code_challenge", "code_challenge_method"].map((name) => url.searchParams.delete(name)),
  ],
  ["with a plain challenge", (url: URL) => url.searchParams.set("code_challenge_method", "plain")],
  ["with another's challenge", (url: URL) => url.searchParams.set("code_challenge", "a".repeat(43))],
] as const) {
  test(`an authorization request ${what} ends without a token`, async () => {
    const user = `eve ${what}`;
    const { url, authId } = await begin(user);
    const changed = new URL(url);
    change(changed);
    const isRefusedAtOnce = what !== "with another's challenge";
    const page = isRefusedAtOnce ? await browser.look(changed.href) : await browser.consent(changed.href, { user });
    assert.equal(page.title, "Not connected", page.text);
    assert.equal((await world.client.waitForAuth({ auth_id: authId, timeout: 5 })).status, "not_found");
    assert.equal((await ask(user, { check_only: true })).status, "connection_required");
  });
}

test("reloading the callback page is refused and does not send the code again", async () => {
  const { url } = await begin("frank");
  const page = await browser.consent(url, { user: "frank" });
  const before = identity.lines.length;
  const again = await browser.look(page.url);
  assert.equal(again.title, "Not connected");
  assert.equal(identity.lines.length, before);
  assert.equal((await ask("frank")).status, "completed", "the token is kept");
});

test("only the caller that started can submit a code that the application received, with the correct issuer", async () => {
  const { url, authId } = await begin("grace", { redirect_uri: app.redirectUri });
  assert.equal((await browser.consent(url, { user: "grace" })).title, "App");
  const { code = "", state = "", iss = "" } = Object.fromEntries(app.received.at(-1)?.searchParams ?? []);
  assert.equal(iss, identity.issuer);
  const done = await world.client.finishAuthRequest({ provider_id: "one", body: { code, state, iss } });
  assert.deepEqual([done.status, done.auth_id, done.token], ["completed", authId, null]);
  assert.deepEqual(await userOf((await ask("grace")).token), { status: 200, sub: "grace" });
});

test("a sign-in can be repeated after a crash in the middle of it", async () => {
  const { url, authId } = await begin("heidi");
  await world.crash();
  const page = await browser.consent(url, { user: "heidi" });
  assert.equal(page.title, "Connected");
  const { token } = await world.client.waitForAuth({ auth_id: authId, timeout: 5 });
  assert.deepEqual(await userOf(token), { status: 200, sub: "heidi" });
  await world.crash();
  assert.equal((await ask("heidi")).status, "completed");
});

test("logs, events and files contain no secret of a sign-in in readable form", async () => {
  const secrets = [...identity.lines.flatMap((line) => line.secrets ?? []), clientSecret];
  assert.ok(secrets.length > 20);
  const events = await Promise.all(
    ["alice", "bob", "dora"].map((user) => clientOf(user).listTokenEvents({ limit: 200 })),
  );
  const audit = await world.client.request("GET", "/v2/admin/audit-log?limit=100");
  const output = [world.log(), JSON.stringify(events), JSON.stringify(audit)].join("\n");
  assert.ok(output.includes("sign-in failed"), "the log was read");
  const files = await readdir(world.dataDir, { recursive: true, withFileTypes: true });
  const onDisk = await Promise.all(
    files.filter((file) => file.isFile()).map((file) => readFile(path.join(file.parentPath, file.name), "latin1")),
  );
  assert.ok(onDisk.length > 50);
  for (const secret of secrets) {
    assert.ok(!output.includes(secret), "the output contains a secret");
    assert.ok(!onDisk.some((text) => text.includes(secret)), "a file contains a secret");
  }
});
