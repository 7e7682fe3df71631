import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { startApi } from "./harness.ts";

const t = await startApi();
const { tenant, stranger } = t;
const organizationKey = await t.mintKey({ isOrganizational: true });
const url = "/v2/admin/members";

const add = (payload: object, key = tenant.adminKey) => t.ask({ method: "POST", url, payload, key });
const emails = async (key: string, query = "") =>
  (await t.ask({ url: `${url}?${query}`, key })).body.resources.map(({ email }: { email: string }) => email);

test("a person is added to a workspace, found by address in any case, given another role, and removed", async () => {
  const made = await add({ email: "Ada@Example.org", name: "Ada", role: "reader" });
  assert.equal(made.status, 201);
  assert.deepEqual(
    [made.body.email, made.body.workspace_id, made.body.organization_id],
    ["ada@example.org", tenant.tenantId, tenant.organizationId],
  );
  assert.deepEqual(await emails(tenant.adminKey, "email=ADA@example.ORG"), ["ada@example.org"]);
  const path = `${url}/${made.body.id}`;
  const patched = await t.ask({ method: "PATCH", url: path, payload: { role: "deployer" } });
  assert.deepEqual([patched.body.role, patched.body.name], ["deployer", "Ada"]);
  assert.equal((await t.ask({ method: "DELETE", url: path })).status, 204);
  assert.equal((await t.ask({ method: "DELETE", url: path })).status, 404);
});

test("nobody is twice in one place, but may be in a workspace and in all of its organization", async () => {
  const email = "grace@example.org";
  assert.equal((await add({ email, role: "reader" })).status, 201);
  const again = await add({ email: "GRACE@example.org", role: "admin" });
  assert.deepEqual([again.status, again.body.detail], [409, "'grace@example.org' is a member there already."]);
  const everywhere = { email, role: "reader", organization_id: tenant.organizationId };
  assert.equal((await add(everywhere, organizationKey)).body.workspace_id, null);
  assert.equal((await add(everywhere, organizationKey)).status, 409);
  assert.equal((await add({ email, role: "reader" }, stranger.adminKey)).status, 201);
});

test("a workspace's key adds to its workspace alone; a place out of reach answers as an unknown one", async () => {
  const member = { email: "new@example.org", role: "reader" };
  const refused = await add({ ...member, organization_id: tenant.organizationId });
  assert.deepEqual([refused.status, refused.body.detail], [403, "This call needs an admin key of the organization."]);
  for (const workspace_id of [stranger.tenantId, randomUUID()]) {
    const answer = await add({ ...member, workspace_id });
    assert.deepEqual([answer.status, answer.body.detail], [404, `Workspace ID ${workspace_id} not found.`]);
  }
  const nowhere = await add(member, organizationKey);
  assert.deepEqual([nowhere.status, /workspace_id/.test(nowhere.body.detail)], [400, true]);
  const both = await add(
    { ...member, organization_id: tenant.organizationId, workspace_id: tenant.tenantId },
    organizationKey,
  );
  assert.equal(both.status, 400);
});

test("members out of reach are neither listed, read, changed nor removed", async () => {
  const { id } = (await add({ email: "theirs@example.org", role: "reader" }, stranger.adminKey)).body;
  assert.ok(!(await emails(organizationKey)).includes("theirs@example.org"));
  for (const [method, payload] of [["GET"], ["PATCH", { role: "admin" }], ["DELETE"]] as const) {
    for (const one of [id, randomUUID()]) {
      const answer = await t.ask({ method, url: `${url}/${one}`, ...(payload && { payload }), key: organizationKey });
      assert.deepEqual([answer.status, answer.body], [404, { detail: `Member ID ${one} not found.` }]);
    }
  }
  for (const role of ["reader", "deployer"] as const) {
    assert.equal((await t.ask({ url, key: await t.mintKey({ role }) })).status, 403);
  }
});

test("what is no address or no role is refused by field", async () => {
  for (const [payload, field] of [
    [{ email: "nobody", role: "reader" }, "email"],
    [{ email: "a b@example.org", role: "reader" }, "email"],
    [{ email: "a@example.org", role: "listener" }, "role"],
    [{ email: "a@example.org" }, "role"],
  ] as const) {
    const { status, body } = await add(payload);
    assert.deepEqual([status, body.detail[0].loc], [422, ["body", field]]);
  }
});
