import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { revokeApiKey } from "../../src/store/tenants/api-keys.ts";
import { changeWorkspace, createWorkspace } from "../../src/store/tenants/tenants.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const { tenant, stranger } = t;
const organizationKey = await t.mintKey({ isOrganizational: true });
const list = (headers: Record<string, string>) => t.ask({ url: "/v2/deployments", key: null, headers });

const invalid = [401, { detail: "Invalid token" }];
const mismatch = [403, { detail: "API key tenant mismatch" }];
const forbidden = [403, { detail: "Forbidden" }];
const ok = [200, { resources: [], offset: 0 }];
const workspaceRequired = [
  403,
  {
    detail: "This API key is org-scoped and requires workspace specification. Please provide 'X-Tenant-ID' header.",
    error: "org_scoped_key_requires_workspace",
  },
];

test("key and workspace header together decide the workspace, as in the contract's table", async () => {
  const own = { "x-api-key": tenant.adminKey };
  const org = { "x-api-key": organizationKey };
  const rows: [string, Record<string, string>, unknown[]][] = [
    ["workspace key, no header", own, ok],
    ["workspace key, empty header", { ...own, "x-tenant-id": "" }, ok],
    ["workspace key, own workspace", { ...own, "x-tenant-id": tenant.tenantId }, ok],
    ["workspace key, own workspace in capitals", { ...own, "X-Tenant-ID": tenant.tenantId.toUpperCase() }, ok],
    ["workspace key, another workspace", { ...own, "x-tenant-id": stranger.tenantId }, mismatch],
    ["workspace key, a text that is no uuid", { ...own, "x-tenant-id": "my team" }, mismatch],
    ["workspace key, own organization", { ...own, "x-organization-id": tenant.organizationId }, ok],
    ["workspace key, another organization", { ...own, "x-organization-id": stranger.organizationId }, forbidden],
    ["organization key, no header", org, workspaceRequired],
    ["organization key, a workspace of it", { ...org, "x-tenant-id": tenant.tenantId }, ok],
    ["organization key, a foreign workspace", { ...org, "x-tenant-id": stranger.tenantId }, forbidden],
    ["organization key, an unknown workspace", { ...org, "x-tenant-id": randomUUID() }, forbidden],
    ["organization key, a text that is no uuid", { ...org, "x-tenant-id": "' or 1=1" }, forbidden],
    ["bearer workspace key", { authorization: `Bearer ${tenant.adminKey}` }, ok],
    ["bearer organization key", { authorization: `bearer ${organizationKey}`, "x-tenant-id": tenant.tenantId }, ok],
    ["other spellings", { "X-API-Key": tenant.adminKey }, ok],
    ["no key", {}, invalid],
    ["no key, a workspace", { "x-tenant-id": tenant.tenantId }, invalid],
    ["an empty key", { "x-api-key": " " }, invalid],
    ["an unknown key", { "x-api-key": "ph_000000000000_0000000000000000000000000000000000000000000" }, invalid],
    ["a wrong secret behind a right prefix", { "x-api-key": `${tenant.adminKey.slice(0, -1)}x` }, invalid],
    ["another scheme", { authorization: `Basic ${tenant.adminKey}` }, invalid],
  ];
  for (const [name, headers, expected] of rows) {
    const answer = await list(headers);
    assert.deepEqual([answer.status, answer.body], expected, name);
  }
});

test("a refusal names the header that was wrong, beside the texts that clients match", async () => {
  const own = { "x-api-key": tenant.adminKey };
  const hints = {
    "X-Tenant-Id": { ...own, "x-tenant-id": stranger.tenantId },
    "X-Organization-Id": { ...own, "x-organization-id": stranger.organizationId },
    "X-Tenant-Id header does not name": { "x-api-key": organizationKey, "x-tenant-id": stranger.tenantId },
    "X-Api-Key": { "x-api-key": "ph_unknown" },
  };
  for (const [hint, headers] of Object.entries(hints))
    assert.match(String((await list(headers)).headers["x-pierhead-hint"]), new RegExp(hint));
  assert.equal((await list({})).headers["x-pierhead-hint"], undefined);
});

test("answers 401 before it validates the request", async () => {
  const answer = await t.ask({
    method: "POST",
    url: "/v2/deployments",
    key: null,
    payload: "{",
    headers: { "content-type": "application/json" },
  });
  assert.deepEqual([answer.status, answer.body], invalid);
  assert.equal(answer.headers["www-authenticate"], "Bearer");
});

test("each role may do what it is for", async () => {
  const asked = {
    read: { url: "/v2/deployments" },
    write: { method: "DELETE", url: `/v2/deployments/${randomUUID()}` },
    debug: { url: `/debug/v1/deployments/${randomUUID()}` },
    listen: { method: "POST", url: "/dp/v1/heartbeat" },
  } as const;
  const statuses = async (key: string) => {
    const answers = Object.values(asked).map((request) => t.ask({ ...request, key }));
    return (await Promise.all(answers)).map(({ status }) => status);
  };
  assert.deepEqual(await statuses(await t.mintKey({ role: "reader" })), [200, 403, 403, 403]);
  assert.deepEqual(await statuses(await t.mintKey({ role: "deployer" })), [200, 404, 404, 403]);
  assert.deepEqual(await statuses(await t.mintKey({ role: "admin" })), [200, 404, 404, 403]);
  const listenerKey = await t.mintKey({ role: "listener", isOrganizational: true, listenerId: t.deps.listenerId });
  const [read, write, debug, listen] = await statuses(listenerKey);
  assert.deepEqual([read, write, debug], [403, 403, 403]);
  assert.ok(listen !== 401 && listen !== 403);
});

test("names the missing role", async () => {
  const answer = await t.ask({
    method: "POST",
    url: "/v2/deployments",
    key: await t.mintKey({ role: "reader" }),
    payload: {},
  });
  assert.deepEqual([answer.status, answer.body], [403, { detail: "This call needs a key with the role 'deployer'." }]);
});

test("an expired key is rejected from its expiry on, and a revoked one soon after", async () => {
  const expired = await t.mintKey({ expiresAt: new Date(Date.now() - 1) });
  assert.equal((await list({ "x-api-key": expired })).status, 401);
  const revoked = await t.mintKey();
  assert.equal((await list({ "x-api-key": revoked })).status, 200);
  const { rows } = await t.db.query<{ id: string }>(
    sql`select id from api_keys where prefix = ${revoked.split("_")[1]}`,
  );
  const revoke = (organizationId: string) =>
    revokeApiKey(t.db, { organizationId, workspaceId: null }, rows[0]?.id ?? "", "test");
  assert.equal(await revoke(stranger.organizationId), false);
  assert.equal(await revoke(tenant.organizationId), true);
  await until(async () => (await list({ "x-api-key": revoked })).status === 401);
});

test("records when a key was last used", async () => {
  const key = await t.mintKey();
  await list({ "x-api-key": key });
  await until(async () => {
    const { rows } = await t.db.query(
      sql`select 1 from api_keys where prefix = ${key.split("_")[1]} and last_used_at is not null`,
    );
    return rows.length === 1;
  });
});

test("a workspace with disabled deployments answers with the text that clients match on", async () => {
  const tenantId = await createWorkspace(t.db, { organizationId: tenant.organizationId, name: "off" });
  const everywhere = { organizationId: null, workspaceId: null };
  await changeWorkspace(t.db, everywhere, tenantId, { deploymentsEnabled: false, actor: "test" });
  for (const key of [organizationKey, await t.mintKey({ tenant: { ...tenant, tenantId } })]) {
    const answer = await t.ask({ url: "/v2/deployments", key, headers: { "x-tenant-id": tenantId } });
    assert.equal(answer.status, 403);
    assert.match(answer.body.detail, /not enabled/);
  }
});

test("health and documents need no key", async () => {
  for (const url of ["/ok", "/health", "/ready", "/info", "/openapi.json", "/docs", "/redoc"]) {
    assert.equal((await t.ask({ url, key: null })).status, 200, url);
  }
});

async function until(holds: () => Promise<boolean>): Promise<void> {
  const end = Date.now() + 20_000;
  while (!(await holds())) {
    assert.ok(Date.now() < end, "never held");
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
