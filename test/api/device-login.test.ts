import assert from "node:assert/strict";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { digestOf, mintSessionToken } from "../../src/auth/api-key.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createMemberSession, findMemberships } from "../../src/store/tenants/sessions.ts";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { type KeyOptions, startApi } from "./harness.ts";

const consoleDir = await mkdtemp(path.join(tmpdir(), "pierhead-console-"));
after(() => rm(consoleDir, { recursive: true, force: true }));
const t = await startApi({ consoleDir, rateLimit: { perS: 100_000, burst: 100_000 } });
const url = "/v2/device-logins";

const start = (client_name = "laptop", headers = {}) =>
  t.ask({ method: "POST", url, key: null, payload: { client_name }, headers });
const poll = (device_code: string) => t.ask({ method: "POST", url: `${url}/key`, key: null, payload: { device_code } });
const read = (user_code: string, key: string | null = t.tenant.adminKey) =>
  t.ask({ url: `${url}?user_code=${user_code}`, key });
const decide = (user_code: string, more: object, key = t.tenant.adminKey, headers = {}) =>
  t.ask({ method: "POST", url: `${url}/decision`, payload: { user_code, ...more }, key, headers });
const sessionOf = async (key: string) => (await t.ask({ url: "/v2/session", key })).body;

/** Runs a login that this key allows, and returns the key of the command line. */
async function login(by: string, more: object = {}) {
  const { body } = await start();
  assert.equal((await decide(body.user_code, { allow: true, ...more }, by)).status, 204);
  const done = await poll(body.device_code);
  assert.equal(done.body.status, "allowed", done.text);
  return done.body.key;
}

/** A person with this role who signed in at the identity provider. */
async function signInMember(role: string) {
  const email = `${role}-${crypto.randomUUID()}@example.org`;
  const { body } = await t.ask({ method: "POST", url: "/v2/admin/members", payload: { email, role } });
  const token = mintSessionToken();
  const memberships = await findMemberships(t.db, email);
  const expiresAt = new Date(Date.now() + 3_600_000);
  await createMemberSession(t.db, { tokenHash: digestOf(token), memberships, email, expiresAt });
  const headers = { cookie: `pierhead_session=${token}`, "x-pierhead-console": "1" };
  const allow = async () => {
    const { body: started } = await start();
    const payload = { user_code: started.user_code, allow: true };
    const answer = await t.ask({ method: "POST", url: `${url}/decision`, key: null, payload, headers });
    assert.equal(answer.status, 204, answer.text);
    return (await poll(started.device_code)).body.key;
  };
  return { id: body.id as string, path: `/v2/admin/members/${body.id}`, allow };
}

test("a command line waits, is allowed under its code, and gets a key with the person's role once", async () => {
  const started = await start();
  assert.equal(started.status, 201);
  const { device_code, user_code, verification_uri, expires_in } = started.body;
  assert.match(user_code, /^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$/);
  assert.match(verification_uri, /\/host\/device$/, "the address has no code");
  assert.equal(expires_in, 600);
  assert.deepEqual((await poll(device_code)).body, { status: "pending", key: null });

  const reader = await t.mintKey({ role: "reader" });
  const found = await read(user_code.toLowerCase().replace("-", " "), reader);
  assert.deepEqual([found.body.client_name, found.body.address], ["laptop", "127.0.0.1"]);
  assert.ok(!found.text.includes(device_code));
  assert.equal((await decide(user_code, { allow: true }, reader)).status, 204);
  assert.equal(
    (await decide(user_code, { allow: false })).body.detail.split(".")[0],
    "No command line waits under this code",
  );

  const { key } = (await poll(device_code)).body;
  assert.deepEqual(
    [key.name, key.role, key.scope, key.workspace_id],
    ["laptop", "reader", "workspace", t.tenant.tenantId],
  );
  const days = (Date.parse(key.expires_at) - Date.now()) / 86_400_000;
  assert.ok(days > 89 && days <= 90);
  assert.equal((await sessionOf(key.key)).role, "reader");
  assert.equal((await poll(device_code)).status, 404, "a second poll gets nothing");
  const { body } = await t.ask({ url: "/v2/admin/audit-log" });
  const actions = body.items.map((one: { action: string }) => one.action);
  assert.ok(actions.includes("device_login.allow") && actions.includes("api_key.create"));
});

test("a refused, an expired and an unknown login give no key", async () => {
  const refused = (await start()).body;
  assert.equal((await decide(refused.user_code, { allow: false })).status, 204);
  assert.deepEqual((await poll(refused.device_code)).body, { status: "refused", key: null });
  const expired = (await start()).body;
  await decide(expired.user_code, { allow: true });
  await t.db.query(sql`update device_logins set expires_at = now() - interval '1 second'`);
  assert.equal((await poll(expired.device_code)).status, 404);
  assert.equal((await read(expired.user_code)).status, 404);
  assert.equal((await poll("phd_x")).status, 404);
  assert.equal((await read(expired.user_code, null)).status, 401, "a code is no credential");
});

test("the key of a command line reaches no further than the person's own, and ends with it", async () => {
  const { user_code } = (await start()).body;
  for (const scope of ["organization", "installation"])
    assert.equal((await decide(user_code, { allow: true, scope })).status, 403, scope);
  const agent = await t.mintKey({ role: "agent" });
  assert.equal((await decide(user_code, { allow: true }, agent)).status, 403);
  const expiresAt = new Date(Date.now() + 3_600_000);
  const short = await login(await t.mintKey({ role: "deployer", expiresAt }));
  assert.equal(short.expires_at, expiresAt.toISOString());
  const wide = await login(await t.mintKey({ isOperator: true }), { scope: "installation" });
  assert.deepEqual([wide.scope, wide.role], ["installation", "admin"]);
});

test("revoking a key ends the command lines that it allowed, directly or through others", async () => {
  const options: KeyOptions = { role: "deployer" };
  const parent = await t.mintKey(options);
  const child = await login(parent);
  const grandchild = await login(child.key);
  const waiting = (await start()).body;
  await decide(waiting.user_code, { allow: true }, parent);
  const { api_key_id } = await sessionOf(parent);
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/admin/api-keys/${api_key_id}` })).status, 204);
  for (const { key } of [child, grandchild]) assert.equal((await t.ask({ url: "/v2/session", key })).status, 401);
  assert.deepEqual((await poll(waiting.device_code)).body, { status: "refused", key: null });
});

test("a member's command lines end with the membership and with its role", async () => {
  const member = await signInMember("admin");
  const first = await member.allow();
  assert.equal((await sessionOf(first.key)).role, "admin");
  const second = await login(first.key);
  await t.ask({ method: "PATCH", url: member.path, payload: { role: "reader" } });
  for (const { key } of [first, second]) assert.equal((await t.ask({ url: "/v2/session", key })).status, 401);
  const third = await member.allow();
  assert.equal((await sessionOf(third.key)).role, "reader");
  await t.ask({ method: "DELETE", url: member.path });
  assert.equal((await t.ask({ url: "/v2/session", key: third.key })).status, 401);
});

test("a command line ends its own key, and no key that an administrator made", async () => {
  const { key } = await login(t.tenant.adminKey);
  assert.equal((await t.ask({ method: "DELETE", url, key: t.tenant.adminKey })).status, 403);
  assert.equal((await t.ask({ method: "DELETE", url, key })).status, 204);
  assert.equal((await t.ask({ url: "/v2/session", key })).status, 401);
});

test("refuses guessed codes, floods of logins, and names that could pass for a sentence", async () => {
  for (const name of ["Support asks you to allow", "<b>", "", "a".repeat(65)])
    assert.equal((await start(name)).status, 422);
  const guesser = await t.mintKey({ role: "reader" });
  const answers = [];
  for (let at = 0; at < 12; at += 1) answers.push((await read("BCDF-GHJK", guesser)).status);
  assert.deepEqual([answers[0], answers.at(-1)], [404, 429]);
  const floods = await startApi({ consoleDir, rateLimit: { perS: 100_000, burst: 100_000 } });
  const statuses: number[] = [];
  // A slow machine earns a few more logins meanwhile.
  while (statuses.length < 60 && statuses.at(-1) !== 429)
    statuses.push((await floods.ask({ method: "POST", url, key: null, payload: { client_name: "a" } })).status);
  assert.deepEqual([statuses[0], statuses.at(-1)], [201, 429]);
});

test("pierhead login --browser stores the key that the console allows, and logout revokes it", async () => {
  await t.api.listen({ host: "127.0.0.1", port: 0 });
  const server = `http://127.0.0.1:${(t.api.server.address() as AddressInfo).port}`;
  await using home = await createDirectory();
  const env = { PIERHEAD_CONFIG_DIR: home.directory, PIERHEAD_DATA_DIR: "" };
  let isAllowed = false;
  const onStderr = (text: string) => {
    const code = /^ {2}([A-Z]{4}-[A-Z]{4})$/m.exec(text)?.[1];
    if (code === undefined || isAllowed) return;
    isAllowed = true;
    void decide(code, { allow: true });
  };
  const ran = await runCli(["login", server, "--browser", "--name", "team", "--json"], { env, onStderr });
  assert.equal(ran.code, 0, ran.stderr);
  assert.deepEqual([JSON.parse(ran.stdout).context, JSON.parse(ran.stdout).session.role], ["team", "admin"]);
  const { contexts } = JSON.parse(await readFile(path.join(home.directory, "contexts.json"), "utf8"));
  const key = contexts.team.api_key;
  assert.ok(!(ran.stdout + ran.stderr).includes(key));
  assert.equal((await sessionOf(key)).workspace_id, t.tenant.tenantId);
  assert.match((await runCli(["logout"], { env })).stderr, /The key is revoked/);
  assert.equal((await t.ask({ url: "/v2/session", key })).status, 401);
});
