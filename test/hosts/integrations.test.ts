import assert from "node:assert/strict";
import { after, test } from "node:test";
import { digestOf } from "../../src/auth/api-key.ts";
import { createGithubApp } from "../../src/integrations/github-app.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createMemberSession, findMemberships } from "../../src/store/tenants/sessions.ts";
import { startApi } from "../api/harness.ts";
import { appId, privateKeyPem, startGithub, webhookSecret } from "./github-server.ts";

const repositories = Object.fromEntries(Array.from({ length: 130 }, (_, at) => [`acme/bot-${at}`, "/nowhere"]));
const github = await startGithub({ ...repositories, "acme/support-bot": "/nowhere" });
after(() => github[Symbol.asyncDispose]());
const settings = {
  appId,
  privateKey: privateKeyPem,
  webhookSecret,
  webUrl: github.origin,
  client: null,
  allowPrivateNetwork: true,
};
const t = await startApi({}, { github: createGithubApp(settings) });
const operator = await t.mintKey({ role: "admin", isOperator: true });
const post = (
  url: string,
  payload: object = {},
  more: { key?: string | null; headers?: Record<string, string> } = {},
) => t.ask({ method: "POST", url, payload, ...more });
const attach = (workspace_id: string, installation_id = 41) =>
  post("/v2/admin/integrations/github", { installation_id, workspace_id }, { key: operator });

async function linkState(): Promise<string> {
  const { status, body } = await post("/v2/integrations/github/installation-link", { return_to: "/ui/new" });
  assert.equal(status, 200, JSON.stringify(body));
  const url = new URL(body.install_url);
  assert.equal(url.origin + url.pathname, `${github.origin}/apps/pierhead/installations/new`);
  return url.searchParams.get("state") ?? "";
}

const setUp = (state: string, more: Record<string, string> = {}) =>
  t.ask({
    url: `/v2/auth/setup/github?${new URLSearchParams({ state, setup_action: "install", installation_id: "41", ...more })}`,
    key: null,
  });

test("lists no installations at first and links to the App's page", async () => {
  for (const url of ["/v1/integrations/github/install", "/v1/integrations/forge/github/install"]) {
    assert.deepEqual((await t.ask({ url })).body, []);
  }
  assert.deepEqual((await t.ask({ url: "/v2/integrations/github/installations" })).body, {
    items: [],
    next_cursor: null,
  });
  await linkState();
});

test("attaches a new installation once when the user returns from GitHub with the link's state", async () => {
  const state = await linkState();
  const { status, text } = await setUp(state);
  assert.equal(status, 200, text);
  assert.match(text, /This workspace can now deploy the repositories of acme/);
  const workspace = await t.ask({ url: `/v2/admin/workspaces/${t.tenant.tenantId}`, key: operator });
  assert.ok(text.includes(workspace.body.name), "the page names the workspace that made the link");
  assert.match(text, /<a href="http:\/\/127\.0\.0\.1:8124\/ui\/new">/);
  const { body } = await t.ask({ url: "/v1/integrations/github/install" });
  assert.deepEqual(body, [{ id: body[0].id, installation_id: 41, name: "acme" }]);
  assert.deepEqual((await t.ask({ url: "/v1/integrations/github/install", key: t.stranger.adminKey })).body, []);
  assert.match((await setUp(state)).text, /already used/);
  assert.match((await setUp(`install.${"A".repeat(43)}`)).text, /already used/);
});

test("rejects a link whose key was revoked or whose member is no longer an admin", async () => {
  const workspace_id = t.tenant.tenantId;
  const made = await post("/v2/admin/api-keys", { name: "short", role: "admin" });
  const stateBy = async (more: Parameters<typeof post>[2]) =>
    new URL((await post("/v2/integrations/github/installation-link", {}, more)).body.install_url).searchParams.get(
      "state",
    ) ?? "";
  const byKey = await stateBy({ key: made.body.key });
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/admin/api-keys/${made.body.id}` })).status, 204);
  const email = "ada@example.org";
  const member = (await post("/v2/admin/members", { email, role: "admin", workspace_id })).body.id;
  const memberships = await findMemberships(t.db, email);
  const expiresAt = new Date(Date.now() + 60_000);
  await createMemberSession(t.db, { tokenHash: digestOf("phs_ada"), memberships, email, expiresAt });
  const headers = { cookie: "pierhead_session=phs_ada", "x-pierhead-console": "1" };
  const [byMember, byReader] = [await stateBy({ key: null, headers }), await stateBy({ key: null, headers })];
  const setRole = (role: string) => t.ask({ method: "PATCH", url: `/v2/admin/members/${member}`, payload: { role } });
  await setRole("reader");
  github.state.installations.set(44, { account: "mine", created_at: new Date().toISOString() });
  for (const state of [byKey, byReader]) {
    const page = await setUp(state, { installation_id: "44" });
    assert.deepEqual([page.status, /no longer an admin of the workspace/.test(page.text)], [400, true], page.text);
  }
  await setRole("admin");
  assert.equal((await setUp(byMember, { installation_id: "44" })).status, 200);
});

test("does not attach an installation of another workspace or one that is older than the link", async () => {
  const state = async () => {
    const { body } = await post("/v2/integrations/github/installation-link", {}, { key: t.stranger.adminKey });
    return new URL(body.install_url).searchParams.get("state") ?? "";
  };
  assert.match((await setUp(await state())).text, /An operator can attach it/);
  github.state.installations.set(42, { account: "old", created_at: "2020-01-01T00:00:00Z" });
  assert.match((await setUp(await state(), { installation_id: "42" })).text, /An operator can attach it/);
  assert.deepEqual((await t.ask({ url: "/v1/integrations/github/install", key: t.stranger.adminKey })).body, []);
});

test("attaches an installation only for a user with access to it when the App has a sign-in", async () => {
  const proving = createGithubApp({ ...settings, client: { id: "Iv1.x", secret: "s" } });
  const other = await startApi({}, { github: proving });
  const state = async () => {
    const { body } = await other.ask({ method: "POST", url: "/v2/integrations/github/installation-link" });
    return new URL(body.install_url).searchParams.get("state") ?? "";
  };
  const come = async (more: Record<string, string>) => {
    const query = new URLSearchParams({
      state: await state(),
      setup_action: "install",
      installation_id: "42",
      ...more,
    });
    return other.ask({ url: `/v2/auth/setup/github?${query}`, key: null });
  };
  assert.match((await come({})).text, /no access to this installation/);
  assert.match((await come({ code: "c0de" })).text, /no access to this installation/);
  github.state.userInstallations.push(42);
  assert.equal((await come({ code: "c0de" })).status, 200);
});

test("lists repositories in pages by full name and requests them from the host at most once a minute", async () => {
  const { body: install } = await attach(t.tenant.tenantId);
  const before = github.calls.length;
  const lists = await Promise.all(
    Array.from({ length: 5 }, () => t.ask({ url: `/v1/integrations/github/${install.id}/repos` })),
  );
  const [{ status, body }] = lists as [(typeof lists)[0]];
  assert.equal(status, 200, JSON.stringify(body));
  assert.equal(body.length, 131);
  assert.deepEqual(body[0], {
    host_integration_id: install.id,
    id: 1,
    name: "bot-0",
    owner: "acme",
    url: `${github.origin}/acme/bot-0`,
    default_branch: "main",
  });
  const names = body.map(({ name }: { name: string }) => name);
  assert.deepEqual(names, names.toSorted());
  const asked = github.calls.slice(before).map(({ method, path }) => `${method} ${path}`);
  assert.deepEqual(asked, [
    "POST /api/v3/app/installations/41/access_tokens",
    "GET /api/v3/installation/repositories?per_page=100&page=1",
    "GET /api/v3/installation/repositories?per_page=100&page=2",
  ]);
  const paged = `/v2/integrations/github/installations/${install.id}/repositories?page_size=100`;
  const first = (await t.ask({ url: paged })).body;
  assert.equal(first.items.length, 100);
  const second = (await t.ask({ url: `${paged}&cursor=${first.next_cursor}` })).body;
  assert.deepEqual([second.items.length, second.next_cursor], [31, null]);
  assert.equal((await t.ask({ url: `${paged}&cursor=x` })).status, 400);
  const forge = (await t.ask({ url: "/v2/integrations/forge-github/installations" })).body.items[0];
  assert.deepEqual([forge.repository_selection, forge.settings_url.startsWith(github.origin)], ["selected", true]);
});

test("still lists an installation that was removed at GitHub, and all others", async () => {
  github.state.installations.set(45, { account: "leaver", created_at: new Date().toISOString() });
  const { body: gone } = await attach(t.tenant.tenantId, 45);
  github.state.installations.delete(45);
  for (const query of ["", "?cursor=", "?page_size=100&cursor="]) {
    const { status, body, text } = await t.ask({ url: `/v2/integrations/forge-github/installations${query}` });
    assert.equal(status, 200, text);
    const shown = Object.fromEntries(body.items.map((one: { name: string }) => [one.name, one]));
    assert.deepEqual(shown.leaver, { ...gone, repository_selection: null, settings_url: null });
    assert.equal(shown.acme.repository_selection, "selected");
  }
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/integrations/${gone.id}` })).status, 204);
});

test("reports a failing host, an unknown installation and an integration of another workspace", async () => {
  const { body: install } = await attach(t.stranger.tenantId);
  github.state.outage = 503;
  const link = await post("/v2/integrations/github/installation-link");
  github.state.outage = null;
  assert.deepEqual([link.status, link.headers["x-pierhead-error"]], [502, "codeHostFailed"]);
  assert.match(link.body.detail, /answered 503: Server Error/);
  assert.equal((await attach(t.tenant.tenantId, 4_711)).status, 502);
  const foreign = await t.ask({ url: `/v1/integrations/github/${install.id}/repos` });
  assert.deepEqual([foreign.status, foreign.body.detail], [404, `Integration ID ${install.id} not found.`]);
});

test("rejects a link that returns to another server", async () => {
  for (const return_to of ["https://evil.example/", "//evil.example/x", "/\\evil.example", "javascript:alert(1)"]) {
    assert.equal((await post("/v2/integrations/github/installation-link", { return_to })).status, 400, return_to);
  }
});

test("encrypts stored credentials and never returns a token", async () => {
  const token = "glpat-canary-token";
  const made = await post("/v2/integrations", {
    ...{ host: "gitlab", name: "Ours", url: "https://gitlab.example.org/acme/", token },
  });
  assert.equal(made.status, 201, JSON.stringify(made.body));
  const { webhook_secret: secret, ...integration } = made.body;
  assert.match(secret, /^whsec_[\w+/]{43}=$/);
  assert.deepEqual([integration.url, integration.has_token], ["https://gitlab.example.org/acme", true]);
  assert.equal(integration.webhook_url, `http://127.0.0.1:8124/v1/integrations/${integration.id}/webhook`);
  const at = `/v2/integrations/${integration.id}`;
  assert.deepEqual((await t.ask({ url: at })).body, integration);
  const patched = await t.ask({ method: "PATCH", url: at, payload: { name: "GitLab", token: "glpat-canary-two" } });
  assert.equal(patched.body.name, "GitLab");
  assert.notEqual((await post(`${at}/webhook-secret`)).body.webhook_secret, secret);
  for (const table of ["integrations", "audit_log", "events", "idempotency_keys"]) {
    const { rows } = await t.db.query<{ row: string }>(sql`select t::text as row from ${sql.identifier(table)} t`);
    const text = rows.map(({ row }) => row).join();
    for (const hidden of [token, "glpat-canary-two", secret]) {
      assert.ok(!text.includes(hidden) && !text.includes(Buffer.from(hidden).toString("hex")), table);
    }
  }
  const deployment = await post("/v2/deployments", {
    name: "uses-it",
    source: "github",
    source_config: {
      repo_url: "https://gitlab.example.org/acme/bot",
      build_on_push: false,
      integration_id: integration.id,
    },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
  });
  assert.equal(deployment.status, 201);
  assert.equal((await t.ask({ method: "DELETE", url: at })).status, 409);
  await t.ask({ method: "DELETE", url: `/v2/deployments/${deployment.body.id}` });
  assert.equal((await t.ask({ method: "DELETE", url: at })).status, 204);
});

test("rejects invalid addresses and credentials with an explanation", async () => {
  const key = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n-----END OPENSSH PRIVATE KEY-----\n";
  for (const [payload, words] of [
    [{ url: "https://gitlab.example.org" }, /'token' or 'ssh_key'/],
    [{ url: "ftp://x/y", token: "t" }, /must be https/],
    [{ url: "https://u:p@gitlab.example.org/", token: "t" }, /password or token/],
    [{ url: "https://gitlab.example.org/?a=b", token: "t" }, /query/],
    [{ url: "https://gitlab.example.org/a%2f..%2fb", token: "t" }, /encoded/],
    [{ url: "ssh://git@gitlab.example.org/acme", token: "t" }, /SSH key alone/],
    [{ url: "ssh://git@gitlab.example.org/acme", ssh_key: "no" }, /private key/],
    [{ url: "ssh://git@gitlab.example.org/acme", ssh_key: key }, /ssh_known_hosts/],
    [{ url: "ssh://git@gitlab.example.org/acme", ssh_key: key, ssh_known_hosts: "what" }, /known_hosts/],
  ] as const) {
    const { status, body } = await post("/v2/integrations", { host: "gitlab", name: "x", ...payload });
    assert.equal(status, 400, JSON.stringify(payload));
    assert.match(body.detail, words);
  }
});
