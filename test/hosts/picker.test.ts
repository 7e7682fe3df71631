import assert from "node:assert/strict";
import { after, test } from "node:test";
import { createGithubApp } from "../../src/integrations/github-app.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "../api/harness.ts";
import { appId, clientSecret, privateKeyPem, startGithub, webhookSecret } from "./github-server.ts";

const github = await startGithub({ "acme/bot": "/nowhere" });
after(() => github[Symbol.asyncDispose]());
const created_at = "2020-01-01T00:00:00Z";
github.state.installations.set(42, { account: "old", created_at });
github.state.userInstallations.push(42);
const client = { id: "Iv1.x", secret: clientSecret };
const settings = { appId, privateKey: privateKeyPem, webhookSecret, webUrl: github.origin, allowPrivateNetwork: true };
const t = await startApi({}, { github: createGithubApp({ ...settings, client }) });
const sessions = "/v2/integrations/forge-github/picker-sessions";

/** Signs in at GitHub through a workspace's link. @returns the id of the picker session. */
async function signIn(key = t.tenant.adminKey, return_to?: string): Promise<string> {
  const link = await t.ask({
    ...{ method: "POST", url: "/v2/integrations/github/installation-link", key },
    payload: return_to === undefined ? {} : { return_to },
  });
  const url = new URL(link.body.oauth_reuse_url);
  assert.equal(url.origin + url.pathname, `${github.origin}/login/oauth/authorize`);
  assert.equal(url.searchParams.get("client_id"), client.id);
  const query = new URLSearchParams({ code: "c0de", state: url.searchParams.get("state") ?? "" });
  const page = await t.ask({ url: `/v2/auth/setup/github?${query}`, key: null });
  assert.equal(page.status, 200, page.text);
  assert.equal((await t.ask({ url: `/v2/auth/setup/github?${query}`, key: null })).status, 400, "a link works once");
  const id = /picker_session=([\w-]{43})"/.exec(page.text)?.[1];
  assert.ok(id, page.text);
  return id;
}

const read = (id: string, key = t.tenant.adminKey) => t.ask({ url: `${sessions}/${id}`, key });
const select = (id: string, payload: object, key = t.tenant.adminKey) =>
  t.ask({ method: "POST", url: `${sessions}/${id}/selection`, payload, key });
const accounts = async (key = t.tenant.adminKey) =>
  (await t.ask({ url: "/v1/integrations/github/install", key })).body.map(({ name }: { name: string }) => name);

test("lets a signed-in user select one of their installations, once, and returns them to their page", async () => {
  const id = await signIn(undefined, "/host/new");
  const shown = (installation_id: number, account_login: string) => ({
    ...{ installation_id, account_login, account_type: "Organization", already_in_org: false },
  });
  const return_to = "http://127.0.0.1:8124/host/new";
  assert.deepEqual((await read(id)).body, { installs: [shown(41, "acme"), shown(42, "old")], return_to });
  assert.equal((await select(id, { action: "ATTACH", installation_id: 43 })).status, 400);
  assert.equal((await select(id, { action: "ATTACH" })).status, 400);
  assert.equal((await select(id, { action: "STEAL", installation_id: 42 })).status, 422);
  const chosen = await select(id, { action: "ATTACH", installation_id: 42 });
  assert.deepEqual([chosen.status, chosen.body], [200, { redirect_url: return_to }]);
  assert.deepEqual(await accounts(), ["old"]);
  assert.equal((await select(id, { action: "ATTACH", installation_id: 41 })).status, 404);
  assert.equal((await read(id)).status, 404);
});

test("marks installations that the organization already uses and returns to the console by default", async () => {
  const id = await signIn();
  const { body } = await read(id);
  assert.deepEqual(
    body.installs.map((one: Record<string, unknown>) => [one["installation_id"], one["already_in_org"]]),
    [
      [41, false],
      [42, true],
    ],
  );
  assert.equal(body.return_to, null);
  const { body: again } = await select(id, { action: "ATTACH", installation_id: 42 });
  assert.deepEqual(again, { redirect_url: "http://127.0.0.1:8124/host/integrations" });
  assert.deepEqual(await accounts(), ["old"], "attached once");
});

test("installs the App on another account through a new link", async () => {
  const { body } = await select(await signIn(), { action: "INSTALL_NEW", installation_id: null });
  assert.match(body.redirect_url, /\/apps\/pierhead\/installations\/new\?state=install\./);
});

test("hides a picker session from other workspaces and readers, and after it expires", async () => {
  const id = await signIn();
  const reader = await t.mintKey({ role: "reader" });
  const choice = { action: "ATTACH", installation_id: 41 };
  const foreign = [await read(id, t.stranger.adminKey), await select(id, choice, t.stranger.adminKey)];
  const unknown = await read("A".repeat(43));
  for (const { status, body } of foreign) assert.deepEqual([status, body], [404, unknown.body]);
  for (const { status } of [await read(id, reader), await select(id, choice, reader)]) assert.equal(status, 403);
  await t.db.query(sql`update picker_sessions set expires_at = now()`);
  assert.equal((await read(id)).status, 404);
  assert.deepEqual(await accounts(t.stranger.adminKey), []);
});

test("offers no sign-in for an App without a client", async () => {
  const plain = await startApi({}, { github: createGithubApp({ ...settings, client: null }) });
  const link = await plain.ask({ method: "POST", url: "/v2/integrations/github/installation-link" });
  assert.equal(link.body.oauth_reuse_url, null);
});
