import assert from "node:assert/strict";
import { createHmac, randomUUID } from "node:crypto";
import { after, test } from "node:test";
import { ApiFailure, createClient } from "../../src/client/client.ts";
import { appManifest, isReachable, manifestTarget } from "../../src/integrations/github-manifest.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { runCli } from "../cli/run-cli.ts";
import { startTestServer } from "../support/server.ts";
import { appId, clientSecret, privateKeyPem, startGithub, webhookSecret } from "./github-server.ts";
import { pushOf } from "./recorded-messages.ts";

const github = await startGithub({ "acme/bot": "/nowhere" });
const environment = {
  ...{ PIERHEAD_COMPUTE: "simulated", PIERHEAD_GITHUB_URL: github.origin },
  PIERHEAD_PUBLIC_URL: "https://pierhead.acme.dev",
};
const t = await startTestServer(environment);
after(async () => {
  await t[Symbol.asyncDispose]();
  await github[Symbol.asyncDispose]();
});

/** Replaces the server's public address with the address on which it listens in this test. */
const here = (url: string) => url.replace("https://pierhead.acme.dev", t.url);
const makeLink = async (body: Parameters<typeof t.client.createGithubAppLink>[0] = {}) =>
  here((await t.client.createGithubAppLink(body)).create_url);

/** Reads the page's form like a browser. */
async function formOf(link: string) {
  const response = await fetch(link);
  const html = await response.text();
  assert.equal(response.status, 200, html);
  const unescaped = (value = "") => value.replace(/&#(\d+);/g, (_, code) => String.fromCharCode(Number(code)));
  const action = unescaped(/<form method="post" action="([^"]*)"/.exec(html)?.[1]);
  const manifest = unescaped(/name="manifest" value="([^"]*)"/.exec(html)?.[1]);
  return { action, manifest, response };
}

/** Submits the form. @returns the address to which GitHub redirects the user. */
async function press({ action, manifest }: { action: string; manifest: string }): Promise<string> {
  const response = await fetch(action, {
    method: "POST",
    body: new URLSearchParams({ manifest }),
    redirect: "manual",
  });
  assert.equal(response.status, 302, await response.text());
  return here(response.headers.get("location") ?? "");
}

const refusedWith = (status: number) => (error: unknown) => error instanceof ApiFailure && error.status === status;

test("creates an App with one link and one button, without a restart, and keeps it after a restart", async () => {
  await assert.rejects(t.client.createInstallationLink(), refusedWith(400));
  const link = await makeLink({ body: { organization: "acme", name: "Pierhead of Acme" } });
  const { action, manifest, response } = await formOf(link);
  assert.ok(action.startsWith(`${github.origin}/organizations/acme/settings/apps/new?state=`), action);
  assert.match(
    response.headers.get("content-security-policy") ?? "",
    new RegExp(`form-action 'self' ${github.origin} `),
  );
  const asked = JSON.parse(manifest);
  assert.deepEqual(
    [asked.name, asked.hook_attributes.url, asked.callback_urls, asked.public],
    [
      "Pierhead of Acme",
      "https://pierhead.acme.dev/v1/integrations/github/webhook",
      ["https://pierhead.acme.dev/v2/auth/setup/github"],
      false,
    ],
  );
  const back = await press({ action, manifest });
  assert.equal((await fetch(back, { method: "HEAD" })).status, 200, "a HEAD request does not use up the code");
  const done = await fetch(back);
  const page = await done.text();
  assert.equal(done.status, 200, page);
  for (const hidden of [clientSecret, webhookSecret, "PRIVATE KEY"]) assert.ok(!page.includes(hidden));
  await worksWithIt();
  assert.equal((await fetch(back)).status, 400, "the link works once");
  await t.restart();
  await worksWithIt();
});

async function worksWithIt(): Promise<void> {
  const app = await t.client.getGithubApp();
  assert.deepEqual(
    [app.app_id, app.source, app.hears_pushes, app.proves_owners, app.github_url],
    [appId, "manifest", true, true, github.origin],
  );
  assert.match((await t.client.createInstallationLink()).install_url, /\/apps\/pierhead\/installations\/new\?state=/);
  const { workspaceId } = t.server.credentials;
  const { id } = await t.client.attachInstallation({ body: { installation_id: 41, workspace_id: workspaceId } });
  const repositories = await t.client.listGithubRepos({ integration_id: id });
  assert.deepEqual(
    repositories.map(({ name }) => name),
    ["bot"],
  );
  const body = JSON.stringify(pushOf("acme/bot", "main", randomUUID().replaceAll("-", "").padEnd(40, "0")));
  const tell = async (secret: string) => {
    const signature = `sha256=${createHmac("sha256", secret).update(body).digest("hex")}`;
    const headers = { "x-github-event": "push", "x-hub-signature-256": signature };
    return (await fetch(`${t.url}/v1/integrations/github/webhook`, { method: "POST", body, headers })).status;
  };
  assert.deepEqual([await tell(webhookSecret), await tell("another")], [202, 403]);
}

test("shows the App on the command line and selects an installed account after a sign-in", async () => {
  const cli = async (...argv: string[]) => {
    const ran = await runCli(["integrations", ...argv, "--data-dir", t.dataDir]);
    assert.equal(ran.code, 0, ran.stderr);
    return ran;
  };
  const shown = await cli("app", "show");
  assert.match(shown.stdout, /^Pierhead of Acme, id 1337, at .*\/apps\/pierhead\n.*\nGitHub sends pushes\.\n$/);
  const { resources } = await t.client.listIntegrations();
  for (const { id } of resources) await t.client.deleteIntegration({ integration_id: id });
  const { stderr } = await cli("install");
  const signIn = /If the App is already installed: (\S+)/.exec(stderr)?.[1] ?? "";
  const atGithub = await fetch(signIn, { redirect: "manual" });
  const page = await (await fetch(here(atGithub.headers.get("location") ?? ""))).text();
  const session = /pierhead integrations pick ([\w-]{43})/.exec(page)?.[1] ?? page;
  assert.match((await cli("pick", session)).stdout, /^INSTALLATION +ACCOUNT\s+41 +acme\s+$/);
  await cli("pick", session, "41");
  assert.match((await cli("list")).stdout, /github +acme .*installation 41/);
  assert.match((await runCli(["integrations", "pick", session, "41", "--data-dir", t.dataDir])).stderr, /one choice/);
});

test("stores no App secret in clear text and records the creator in the audit log", async () => {
  for (const table of ["github_app", "github_app_links", "audit_log", "events", "idempotency_keys"]) {
    const { rows } = await t.server.db.query<{ row: string }>(
      sql`select t::text as row from ${sql.identifier(table)} t`,
    );
    const all = rows.map(({ row }) => row).join();
    for (const hidden of [clientSecret, webhookSecret, privateKeyPem.split("\n")[3] ?? ""]) {
      assert.ok(!all.includes(hidden) && !all.includes(Buffer.from(hidden).toString("hex")), table);
    }
  }
  const { rows } = await t.server.db.query<{ actor: string; subject_name: string }>(sql`
    select actor, subject_name from audit_log where action = 'github_app.create'`);
  assert.equal(rows.length, 1);
  assert.match(rows[0]?.actor ?? "", /^key:/);
});

test("rejects a second App until the first one is deleted, and creates only one of two simultaneous ones", async () => {
  await assert.rejects(makeLink(), refusedWith(409));
  await t.client.deleteGithubApp();
  await assert.rejects(t.client.getGithubApp(), refusedWith(400));
  await assert.rejects(t.client.deleteGithubApp(), refusedWith(400));
  const links = [await makeLink(), await makeLink()];
  const backs = await Promise.all(links.map(async (link) => press(await formOf(link))));
  const statuses = await Promise.all(backs.map(async (back) => (await fetch(back)).status));
  assert.deepEqual(statuses.toSorted(), [200, 400]);
  await t.client.deleteGithubApp();
});

test("rejects a link whose key was revoked, a code that GitHub does not know, and an invented state", async () => {
  const { key, id } = await t.client.createApiKey({ body: { name: "gone", role: "admin", scope: "installation" } });
  const other = createClient({ baseUrl: t.url, apiKey: key });
  const link = here((await other.createGithubAppLink()).create_url);
  const back = await press(await formOf(link));
  await t.client.revokeApiKey({ api_key_id: id });
  assert.equal((await fetch(back)).status, 400);
  assert.equal((await fetch(link)).status, 400);

  const state = new URL(await makeLink()).searchParams.get("state") ?? "";
  const come = (query: Record<string, string>) =>
    fetch(`${t.url}/v2/auth/github-app/created?${new URLSearchParams(query)}`);
  assert.equal((await come({ code: "x" })).status, 400);
  assert.equal((await come({ state: "A".repeat(43), code: "x" })).status, 400);
  assert.match(await (await come({ state, code: "../../user" })).text(), /Delete the App at GitHub/);
  assert.ok(github.calls.some(({ path }) => path === "/api/v3/app-manifests/..%2F..%2Fuser/conversions"));
  await assert.rejects(t.client.getGithubApp(), refusedWith(400));
});

test("lets only an administrator of the installation create, read or delete the App", async () => {
  const { key } = await t.client.createApiKey({ body: { name: "org", role: "admin", scope: "organization" } });
  const organization = createClient({ baseUrl: t.url, apiKey: key });
  for (const act of ["createGithubAppLink", "getGithubApp", "deleteGithubApp"] as const) {
    await assert.rejects(organization[act](), refusedWith(403), act);
  }
});

test("prefers the App in the configuration and does not let the API change it", async () => {
  const back = await press(await formOf(await makeLink()));
  assert.equal((await fetch(back)).status, 200);
  const { PIERHEAD_GITHUB_PRIVATE_KEY } = github.environment;
  await t.restart({ PIERHEAD_GITHUB_APP_ID: "7", PIERHEAD_GITHUB_PRIVATE_KEY });
  const app = await t.client.getGithubApp();
  assert.deepEqual([app.app_id, app.source, app.hears_pushes], ["7", "configuration", false]);
  await assert.rejects(t.client.deleteGithubApp(), refusedWith(409));
  await assert.rejects(makeLink(), refusedWith(409));
  await t.restart();
  assert.equal((await t.client.getGithubApp()).app_id, appId);
});

test("requests a webhook only if GitHub can reach this server", () => {
  for (const address of [
    "http://127.0.0.1:8124",
    "http://localhost:8124",
    "http://pi.local",
    "http://10.0.0.7",
    "http://[::1]:1",
  ]) {
    assert.equal(isReachable(address), false, address);
    const manifest = appManifest({ name: "x", serverUrl: address, isPublic: false });
    assert.ok(!("hook_attributes" in manifest) && !("default_events" in manifest), address);
  }
  assert.ok(isReachable("https://pierhead.acme.dev"));
  assert.ok(isReachable("https://8.8.8.8"));
  assert.equal(manifestTarget("https://github.com", null, "s"), "https://github.com/settings/apps/new?state=s");
});
