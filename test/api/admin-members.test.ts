import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { digestOf, mintSessionToken } from "../../src/auth/api-key.ts";
import { consoleHeader, sessionCookie } from "../../src/contract/administration/session.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createMemberSession, findMemberships } from "../../src/store/tenants/sessions.ts";
import { eachDatabase } from "../support/database.ts";
import { eventually } from "../support/eventually.ts";
import { startApi, startApiOn, type TestApi } from "./harness.ts";

const t = await startApi();
const { tenant, stranger } = t;
const organizationKey = await t.mintKey({ isOrganizational: true });
const url = "/v2/admin/members";

const add = (payload: object, key = tenant.adminKey) => t.ask({ method: "POST", url, payload, key });
const emails = async (key: string, query = "") =>
  (await t.ask({ url: `${url}?${query}`, key })).body.resources.map(({ email }: { email: string }) => email);

test("adds a person to a workspace, finds them by address in any case, changes their role and removes them", async () => {
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

test("rejects a duplicate member, but allows a workspace and its organization at once", async () => {
  const email = "grace@example.org";
  assert.equal((await add({ email, role: "reader" })).status, 201);
  const again = await add({ email: "GRACE@example.org", role: "admin" });
  assert.deepEqual([again.status, again.body.detail], [409, "'grace@example.org' is already a member."]);
  const everywhere = { email, role: "reader", organization_id: tenant.organizationId };
  assert.equal((await add(everywhere, organizationKey)).body.workspace_id, null);
  assert.equal((await add(everywhere, organizationKey)).status, 409);
  assert.equal((await add({ email, role: "reader" }, stranger.adminKey)).status, 201);
});

test("a workspace key adds members only to its workspace; targets out of reach answer like unknown ones", async () => {
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

test("rejects an invalid address or role and names the field", async () => {
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

eachDatabase(
  "a role that was taken away has no effect after the response, also under an Idempotency-Key and for requests in flight",
  async (db) => {
    const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-members-"));
    const here = await startApiOn(db, { dataDir });
    try {
      await takeRoleAway(here);
    } finally {
      await here.api.close();
      here.deps.sealer.close();
      await rm(dataDir, { recursive: true, force: true });
    }
  },
  // The embedded database has one connection, so no other statement runs while a request runs as a unit.
  { kinds: ["postgres"] },
);

async function takeRoleAway({ db, ask }: TestApi): Promise<void> {
  const email = "eve@example.org";
  const { body } = await ask({ method: "POST", url, payload: { email, role: "admin" } });
  const token = mintSessionToken();
  const session = { tokenHash: digestOf(token), memberships: await findMemberships(db, email), email };
  await createMemberSession(db, { ...session, expiresAt: new Date(db.now().getTime() + 600_000) });
  const signedIn = { key: null, headers: { cookie: `${sessionCookie}=${token}`, [consoleHeader]: "1" } };
  const look = async () => (await ask({ url, ...signedIn })).status;

  const [isHeld, held] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  const holding = db.transaction(async (trx) => {
    await trx.query(sql`lock table idempotency_keys in share mode`);
    isHeld.resolve();
    await held.promise;
  });
  await isHeld.promise;
  const headers = { "idempotency-key": randomUUID() };
  const change = ask({ method: "PATCH", url: `${url}/${body.id}`, payload: { role: "reader" }, headers });
  const waiting = () =>
    db.query(sql`
      select 1 from pg_locks l join pg_database d on d.oid = l.database and d.datname = current_database()
       where l.relation = 'idempotency_keys'::regclass and not l.granted`);
  await eventually(waiting, ({ rows }) => rows.length > 0);
  assert.equal(await look(), 200, "not committed yet");
  held.resolve();
  await holding;
  assert.equal((await change).status, 200);
  assert.equal(await look(), 403);
}
