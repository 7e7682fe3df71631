import assert from "node:assert/strict";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { readTrustedProxies } from "../../src/base/trusted-proxies.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { revokeApiKey } from "../../src/store/tenants/api-keys.ts";
import { eventually } from "../support/eventually.ts";
import { startApi } from "./harness.ts";

const consoleDir = await mkdtemp(path.join(tmpdir(), "pierhead-console-"));
after(() => rm(consoleDir, { recursive: true, force: true }));
const t = await startApi({ consoleDir, rateLimit: { perS: 1_000, burst: 10_000 } });
const fromConsole = { "x-pierhead-console": "1" };

async function signIn(key: string, headers: Record<string, string> = fromConsole) {
  const answer = await t.ask({ method: "POST", url: "/v2/session", key: null, headers, payload: { api_key: key } });
  const cookie = String(answer.headers["set-cookie"] ?? "");
  return { ...answer, cookie, pair: cookie.split(";", 1)[0] ?? "" };
}

const askAs = (cookie: string, headers: Record<string, string> = fromConsole) =>
  t.ask({ url: "/v2/deployments", key: null, headers: { cookie, ...headers } });

test("a key signs a browser in with a cookie that scripts cannot read and that replaces the key", async () => {
  const { status, body, cookie, pair } = await signIn(t.tenant.adminKey);
  assert.equal(status, 200);
  assert.match(
    cookie,
    /^pierhead_session=phs_[\w-]{43}; Path=\/; HttpOnly; SameSite=Strict; Priority=High; Expires=[^;]+$/,
  );
  assert.ok(!cookie.includes(t.tenant.adminKey) && !JSON.stringify(body).includes(t.tenant.adminKey));
  assert.deepEqual([body.role, body.scope, body.workspace_id], ["admin", "workspace", t.tenant.tenantId]);
  assert.deepEqual(body.workspaces, [{ id: t.tenant.tenantId, name: "acme", role: "admin", scope: "workspace" }]);
  assert.equal((await askAs(pair)).status, 200);
  const me = await t.ask({ url: "/v2/session", key: null, headers: { cookie: pair, ...fromConsole } });
  assert.deepEqual(me.body, body);
});

test("over https the cookie is never sent in clear text", async () => {
  const proxied = await startApi({ trustedProxies: readTrustedProxies("127.0.0.1") });
  const over = (proto: string, api: typeof t) =>
    api.ask({
      method: "POST",
      url: "/v2/session",
      key: null,
      payload: { api_key: api.tenant.adminKey },
      headers: { ...fromConsole, "x-forwarded-proto": proto },
    });
  const cookieOf = async (answer: ReturnType<typeof over>) => String((await answer).headers["set-cookie"]);
  assert.match(await cookieOf(over("https", proxied)), /; Secure$/);
  assert.doesNotMatch(await cookieOf(over("http", proxied)), /; Secure/);
  const behindUrl = await startApi({ publicUrl: "https://pierhead.example.org" });
  assert.match(await cookieOf(over("http", behindUrl)), /; Secure$/);
  assert.doesNotMatch(await cookieOf(over("https", t)), /; Secure/, "this peer is no proxy of the operator");
});

test("other pages cannot use the session: without the console's header, or by Fetch Metadata, it is ignored", async () => {
  const { pair } = await signIn(t.tenant.adminKey);
  const sites = ["cross-site", "same-site", "none"].map((site) => ({ ...fromConsole, "sec-fetch-site": site }));
  for (const headers of [{}, ...sites]) {
    assert.deepEqual((await askAs(pair, headers as Record<string, string>)).status, 401, JSON.stringify(headers));
    assert.equal((await signIn(t.tenant.adminKey, headers as Record<string, string>)).status, 403);
  }
  assert.equal((await askAs(pair, { ...fromConsole, "sec-fetch-site": "same-origin" })).status, 200);
});

test("wrong, expired and revoked keys, and those of listeners and agents, do not sign in", async () => {
  const expired = await t.mintKey({ expiresAt: new Date(Date.now() - 1) });
  for (const key of ["ph_000000000000_x", expired, "x"]) assert.equal((await signIn(key)).status, 401);
  assert.equal((await signIn(await t.mintKey({ role: "agent" }))).status, 403);
});

test("signing out ends the session itself, not only the cookie", async () => {
  const { pair } = await signIn(t.tenant.adminKey);
  const headers = { cookie: pair, ...fromConsole };
  const out = await t.ask({ method: "DELETE", url: "/v2/session", key: null, headers });
  assert.equal(out.status, 204);
  assert.match(String(out.headers["set-cookie"]), /^pierhead_session=; .*Expires=Thu, 01 Jan 1970/);
  assert.equal((await askAs(pair)).status, 401);
  assert.equal((await t.ask({ method: "DELETE", url: "/v2/session", key: null, headers })).status, 204);
  const { items } = (await t.ask({ url: "/v2/admin/audit-log?action=session.delete" })).body;
  assert.equal(items.length, 1);
  assert.deepEqual([items[0].workspace_id, items[0].actor], [t.tenant.tenantId, `key:${items[0].subject_id}`]);
});

test("a session ends with its key and at its own expiry", async () => {
  const key = await t.mintKey({ role: "reader" });
  const [first, second] = [await signIn(key), await signIn(t.tenant.adminKey)];
  assert.equal((await askAs(first.pair)).status, 200);
  const reach = { organizationId: null, workspaceId: null };
  assert.ok(await revokeApiKey(t.db, reach, first.body.api_key_id, "test"));
  await t.db.query(
    sql`update sessions set expires_at = now() - interval '1 second' where api_key_id = ${second.body.api_key_id}`,
  );
  await t.ask({
    method: "DELETE",
    url: "/v2/session",
    key: null,
    headers: { cookie: "pierhead_session=x", ...fromConsole },
  });
  for (const { pair } of [first, second]) assert.equal((await askAs(pair)).status, 401);
});

test("a session has the same role, workspace and organization as its key", async () => {
  const reader = await signIn(await t.mintKey({ role: "reader" }));
  const headers = { cookie: reader.pair, ...fromConsole };
  const post = await t.ask({ method: "POST", url: "/v2/listeners", key: null, headers, payload: {} });
  assert.equal(post.status, 403);
  const foreign = { ...fromConsole, "x-tenant-id": t.stranger.tenantId };
  assert.equal((await askAs(reader.pair, foreign)).status, 403);
  const whole = await signIn(await t.mintKey({ isOrganizational: true }));
  assert.deepEqual([whole.body.workspace_id, whole.body.workspaces.length], [null, 1]);
  assert.equal((await askAs(whole.pair)).status, 403);
  assert.equal((await askAs(whole.pair, { ...fromConsole, "x-tenant-id": t.tenant.tenantId })).status, 200);
});

test("a link signs one browser in, once, as the key that asked for it", async () => {
  const key = await t.mintKey({ role: "reader" });
  const made = await t.ask({ method: "POST", url: "/v2/session/links", key });
  assert.equal(made.status, 201);
  const code = new URL(made.body.url).hash.replace("#sign-in=", "");
  const stored = await t.db.query<{ row: string }>(sql`select s::text as row from sessions s`);
  assert.ok(!stored.rows.some(({ row }) => row.includes(code)));
  assert.equal((await askAs(`pierhead_session=${code}`)).status, 401, "the code is no session");
  assert.equal((await t.ask({ url: "/v2/deployments", key: code })).status, 401, "the code is no key");
  const first = await signIn(code);
  assert.deepEqual([first.status, first.body.role], [200, "reader"]);
  assert.equal((await askAs(first.pair)).status, 200);
  assert.equal((await signIn(code)).status, 401, "a second browser");
  const again = await t.ask({
    method: "POST",
    url: "/v2/session/links",
    key: null,
    headers: { cookie: first.pair, ...fromConsole },
  });
  assert.equal(again.status, 403, "a session cannot renew itself");
  const log = await t.ask({ url: "/v2/admin/audit-log?action=session.link" });
  assert.equal(log.body.items[0].subject_id, first.body.api_key_id);
});

test("a link expires at its time and with its key", async () => {
  const key = await t.mintKey({ role: "reader" });
  const codeOf = async () => {
    const { body } = await t.ask({ method: "POST", url: "/v2/session/links", key });
    return new URL(body.url).hash.replace("#sign-in=", "");
  };
  const late = await codeOf();
  await t.db.query(sql`update sessions set expires_at = now() - interval '1 second'`);
  assert.equal((await signIn(late)).status, 401);
  const orphan = await codeOf();
  const { api_key_id } = (await t.ask({ url: "/v2/session", key })).body;
  assert.ok(await revokeApiKey(t.db, { organizationId: null, workspaceId: null }, api_key_id, "test"));
  assert.equal((await signIn(orphan)).status, 401);
});

test("stores only a digest of the token and records the sign-in in the audit log", async () => {
  const { pair, body } = await signIn(t.tenant.adminKey);
  const token = pair.split("=")[1] ?? "";
  const { rows } = await t.db.query<{ row: string }>(sql`select s::text as row from sessions s`);
  assert.ok(rows.length > 0 && !rows.some(({ row }) => row.includes(token)));
  const log = await t.ask({ url: "/v2/admin/audit-log?action=session.create" });
  assert.equal(log.body.items[0].subject_id, body.api_key_id);
});

test("slows down guesses of keys at sign-in like all others", async () => {
  assert.equal((await signIn("ph_0")).status, 401);
  const guess = async () => {
    await Promise.all(Array.from({ length: 200 }, (_, index) => signIn(`ph_${index}`)));
    return (await signIn("ph_0")).status;
  };
  await eventually(guess, (status) => status === 429);
  const known = await signIn(t.tenant.adminKey);
  assert.equal(known.status, 200, "a key in use is still admitted");
});

test("serves the console at all of its addresses, with a policy that allows nothing else", async () => {
  assert.match((await t.ask({ url: "/", key: null })).text, /has not been built/);
  await mkdir(path.join(consoleDir, "assets"));
  await writeFile(
    path.join(consoleDir, "index.html"),
    '<!doctype html><base href="/"><script src="./assets/a-1.js"></script>',
  );
  await writeFile(path.join(consoleDir, "assets/a-1.js"), "console.log(1)");
  const id = t.tenant.tenantId;
  for (const [url, base] of [
    ["/", "/"],
    ["/host/deployments", "/"],
    ["/host/settings/keys", "/"],
    [`/o/${id}/host/deployments/${id}`, "/"],
    ["/api-host/host/deployments", "/api-host/"],
  ] as const) {
    const { status, headers, text } = await t.ask({ url, key: null });
    assert.equal(status, 200, url);
    assert.ok(text.includes(`<base href="${base}">`), text);
    const policy = String(headers["content-security-policy"]);
    assert.match(policy, /default-src 'none'; script-src 'self'; .*connect-src 'self'; .*frame-ancestors 'none'/);
    assert.ok(!policy.includes("unsafe"));
    assert.equal(headers["cache-control"], "no-cache");
  }
});

test("built files are cacheable without limit and compressed, and no other file is served", async () => {
  const found = await t.ask({ url: "/assets/a-1.js", key: null, headers: { "accept-encoding": "gzip, br" } });
  assert.deepEqual(
    [found.headers["content-type"], found.headers["cache-control"], found.headers["content-encoding"]],
    ["text/javascript; charset=utf-8", "public, max-age=31536000, immutable", "gzip"],
  );
  const raw = await t.api.inject({ url: "/assets/a-1.js", headers: { "accept-encoding": "gzip" } });
  assert.equal(gunzipSync(raw.rawPayload).toString(), "console.log(1)");
  const etag = String(found.headers["etag"]);
  const again = await t.ask({ url: "/assets/a-1.js", key: null, headers: { "if-none-match": etag } });
  assert.deepEqual([again.status, again.text, again.headers["content-length"]], [304, "", undefined]);
  for (const url of ["/assets/nothing.js", "/assets/..%2findex.html", "/assets/..%2f..%2fpackage.json"])
    assert.equal((await t.ask({ url, key: null })).status, 404, url);
});
