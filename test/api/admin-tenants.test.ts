import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi, type Tenant } from "./harness.ts";

const t = await startApi();
const { tenant, stranger } = t;
const organizationKey = await t.mintKey({ isOrganizational: true });
const operatorKey = await t.mintKey({ isOperator: true });

const admin = (method: "GET" | "POST" | "PATCH" | "DELETE", path: string, key: string, payload?: object) =>
  t.ask({ method, url: `/v2/admin${path}`, key, ...(payload !== undefined && { payload }) });
const createWorkspace = async (name: string, key = organizationKey) =>
  (await admin("POST", "/workspaces", key, { name })).body;
const deployIn = (tenantId: string, name: string) =>
  t.ask({
    method: "POST",
    url: "/v2/deployments",
    key: organizationKey,
    headers: { "x-tenant-id": tenantId },
    payload: { name, source: "internal_docker", source_config: {}, source_revision_config: {} },
  });

test("each scope sees its own organization and workspaces, and an operator sees all of them", async () => {
  const names = async (path: string, key: string) =>
    (await admin("GET", path, key)).body.resources.map(({ name }: { name: string }) => name);
  await createWorkspace("zoo");
  assert.deepEqual(await names("/organizations", tenant.adminKey), ["acme"]);
  assert.deepEqual(await names("/organizations", operatorKey), ["acme", "other"]);
  assert.deepEqual(await names("/workspaces", tenant.adminKey), ["acme"]);
  assert.deepEqual(await names("/workspaces", organizationKey), ["acme", "zoo"]);
  assert.deepEqual(await names("/workspaces", operatorKey), ["acme", "other", "zoo"]);
  assert.deepEqual(await names(`/workspaces?organization_id=${stranger.organizationId}`, operatorKey), ["other"]);
  assert.deepEqual(await names(`/workspaces?organization_id=${stranger.organizationId}`, organizationKey), []);
  const page = (await admin("GET", "/workspaces?limit=2&offset=1", operatorKey)).body;
  assert.deepEqual([page.resources.length, page.offset], [2, 3]);
});

test("organizations and workspaces out of reach answer exactly like unknown ones", async () => {
  const cases: [string, string, string][] = [
    ["organizations", stranger.organizationId, "Organization"],
    ["workspaces", stranger.tenantId, "Workspace"],
  ];
  for (const [path, foreign, what] of cases) {
    for (const id of [foreign, randomUUID()]) {
      const expected = [404, { detail: `${what} ID ${id} not found.` }];
      const read = await admin("GET", `/${path}/${id}`, tenant.adminKey);
      assert.deepEqual([read.status, read.body], expected);
      const renamed = await admin("PATCH", `/${path}/${id}`, organizationKey, { name: "mine" });
      assert.deepEqual([renamed.status, renamed.body], expected);
    }
  }
  const deleted = await admin("DELETE", `/workspaces/${stranger.tenantId}`, organizationKey);
  assert.equal(deleted.status, 404);
  const quotas = await admin("PATCH", `/workspaces/${stranger.tenantId}/quotas`, organizationKey, { deployments: 0 });
  assert.equal(quotas.status, 404);
});

test("names the required scope when a key does not reach far enough", async () => {
  const refusals: [string, Parameters<typeof admin>, string][] = [
    ["create workspace", ["POST", "/workspaces", tenant.adminKey, { name: "x" }], "organization"],
    ["delete workspace", ["DELETE", `/workspaces/${tenant.tenantId}`, tenant.adminKey], "organization"],
    ["set quotas", ["PATCH", `/workspaces/${tenant.tenantId}/quotas`, tenant.adminKey, {}], "organization"],
    ["rename organization", ["PATCH", `/organizations/${tenant.organizationId}`, tenant.adminKey, {}], "organization"],
    ["create organization", ["POST", "/organizations", organizationKey, { name: "x" }], "installation"],
    ["delete organization", ["DELETE", `/organizations/${tenant.organizationId}`, organizationKey], "installation"],
    [
      "change plan",
      ["PATCH", `/organizations/${tenant.organizationId}`, organizationKey, { plan: "cloud" }],
      "installation",
    ],
    [
      "switch deployments",
      ["PATCH", `/workspaces/${tenant.tenantId}`, organizationKey, { deployments_enabled: true }],
      "installation",
    ],
  ];
  for (const [name, call, scope] of refusals) {
    const { status, body } = await admin(...call);
    assert.deepEqual([status, body.detail], [403, `This call needs an admin key of the ${scope}.`], name);
  }
});

test("creates an organization with the plan of the mode, renames it, changes its plan, and deletes it when it is empty", async () => {
  const made = await admin("POST", "/organizations", operatorKey, { name: "customer" });
  assert.deepEqual([made.status, made.body.plan], [201, "self_hosted_enterprise"]);
  const path = `/organizations/${made.body.id}`;
  const patched = await admin("PATCH", path, operatorKey, { name: "Customer Ltd", plan: "cloud" });
  assert.deepEqual([patched.body.name, patched.body.plan], ["Customer Ltd", "cloud"]);
  const workspace = await admin("POST", "/workspaces", operatorKey, { name: "w", organization_id: made.body.id });
  assert.equal(workspace.body.organization_id, made.body.id);
  const refused = await admin("DELETE", path, operatorKey);
  assert.deepEqual(
    [refused.status, refused.body.detail],
    [409, "The organization cannot be deleted: it has 1 workspace."],
  );
  assert.equal((await admin("DELETE", `/workspaces/${workspace.body.id}`, operatorKey)).status, 204);
  assert.equal((await admin("DELETE", path, operatorKey)).status, 204);
  assert.equal((await admin("GET", path, operatorKey)).status, 404);
  const own = await admin("DELETE", `/organizations/${tenant.organizationId}`, operatorKey);
  assert.match(own.body.detail, /1 key of operators/);
});

test("workspace names are unique within an organization, not across organizations", async () => {
  const name = "same";
  const { id } = await createWorkspace(name);
  const again = await admin("POST", "/workspaces", organizationKey, { name });
  assert.deepEqual(
    [again.status, again.body.detail],
    [409, "A workspace named 'same' already exists in this organization."],
  );
  const renamed = await admin("PATCH", `/workspaces/${tenant.tenantId}`, organizationKey, { name });
  assert.equal(renamed.status, 409);
  const payload = { name, organization_id: stranger.organizationId };
  assert.equal((await admin("POST", "/workspaces", operatorKey, payload)).status, 201);
  assert.equal((await admin("PATCH", `/workspaces/${id}`, organizationKey, { name: "renamed" })).body.name, "renamed");
});

test("a name is one line without surrounding whitespace; anything else is rejected by field", async () => {
  for (const name of ["", " x", "x ", "a\nb", "a\u0000b", "\u001b[31m", "x".repeat(129), 5, null]) {
    const { status, body } = await admin("POST", "/workspaces", organizationKey, { name } as object);
    assert.deepEqual([status, body.detail[0].loc], [422, ["body", "name"]], JSON.stringify(name));
  }
});

test("a disabled workspace refuses deployments at once with the text that clients match on, and can be enabled again", async () => {
  const { id } = await createWorkspace("switched");
  assert.equal((await deployIn(id, "before")).status, 201);
  const path = `/workspaces/${id}`;
  const off = await admin("PATCH", path, operatorKey, { deployments_enabled: false });
  assert.equal(off.body.deployments_enabled, false);
  const refused = await deployIn(id, "after");
  assert.deepEqual([refused.status, /not enabled/i.test(refused.body.detail)], [403, true]);
  const insider = await t.mintKey({ tenant: { ...tenant, tenantId: id } });
  assert.equal((await admin("GET", "/api-keys", insider)).status, 200, "it can still be administered");
  await admin("PATCH", path, operatorKey, { deployments_enabled: true });
  assert.equal((await deployIn(id, "after")).status, 201);
});

test("refuses to delete a workspace with deployments; an empty one goes with its keys, members, tags and quotas", async () => {
  const { id } = await createWorkspace("doomed");
  const inside: Tenant = { ...tenant, tenantId: id };
  const key = await t.mintKey({ tenant: inside });
  const { id: deploymentId } = (await deployIn(id, "bot")).body;
  await admin("POST", "/members", key, { email: "a@example.org", role: "reader" });
  await t.ask({ method: "POST", url: "/v2/admin/tags", key, payload: { name: "team", values: ["a"] } });
  await admin("PATCH", `/workspaces/${id}/quotas`, organizationKey, { deployments: 3 });

  const refused = await admin("DELETE", `/workspaces/${id}`, organizationKey);
  assert.deepEqual(
    [refused.status, refused.body.detail],
    [409, "The workspace cannot be deleted: it has 1 deployment. Delete them first."],
  );
  await t.db.query(sql`delete from deployments where id = ${deploymentId}`);
  assert.equal((await admin("DELETE", `/workspaces/${id}`, organizationKey)).status, 204);
  assert.equal((await t.ask({ url: "/v2/deployments", key })).status, 401);
  assert.equal((await deployIn(id, "bot")).status, 403);
  const history = await admin("GET", `/audit-log?workspace_id=${id}`, organizationKey);
  assert.equal(history.body.items[0].action, "workspace.delete");
  assert.ok(history.body.items.length > 4, "its history is still readable");
});

test("an operator's key outlives the workspace that it acted in", async () => {
  const { id } = await createWorkspace("home");
  const key = await t.mintKey({ isOperator: true, tenant: { ...tenant, tenantId: id } });
  assert.equal((await admin("DELETE", `/workspaces/${id}`, key)).status, 204);
  const [mine] = (await admin("GET", "/api-keys?limit=100", key)).body.resources.filter(
    (one: { scope: string; workspace_id: string | null }) => one.scope === "installation" && one.workspace_id === null,
  );
  assert.ok(mine);
  const lost = await t.ask({ url: "/v2/deployments", key });
  assert.match(lost.body.detail, /requires workspace specification/);
  assert.equal((await t.ask({ url: "/v2/deployments", key, headers: { "x-tenant-id": tenant.tenantId } })).status, 200);
});

test("deployments created while their workspace is deleted are created in time or refused, never left behind", async () => {
  for (let round = 0; round < 8; round += 1) {
    const { id } = await createWorkspace(`racing-${round}`);
    const [made, deleted] = await Promise.all([
      deployIn(id, "bot"),
      admin("DELETE", `/workspaces/${id}`, organizationKey),
    ]);
    const ends = [made.status, deleted.status];
    assert.ok(JSON.stringify(ends) === "[201,409]" || JSON.stringify(ends) === "[403,204]", JSON.stringify(ends));
  }
});
