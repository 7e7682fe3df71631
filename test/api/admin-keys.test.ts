import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const { tenant, stranger } = t;
const workspaceKey = tenant.adminKey;
const organizationKey = await t.mintKey({ isOrganizational: true });
const operatorKey = await t.mintKey({ isOperator: true });

const create = (payload: object, key = workspaceKey, headers = {}) =>
  t.ask({
    method: "POST",
    url: "/v2/admin/api-keys",
    payload: { name: "made", role: "admin", ...payload },
    key,
    headers,
  });
const revoke = (id: string, key = workspaceKey) => t.ask({ method: "DELETE", url: `/v2/admin/api-keys/${id}`, key });
const works = async (key: string, headers = {}) =>
  (await t.ask({ url: "/v2/deployments", key, headers })).status === 200;
const listed = async (key: string, query = "") =>
  (await t.ask({ url: `/v2/admin/api-keys?limit=100&${query}`, key })).body.resources as {
    id: string;
    scope: string;
  }[];

test("shows a new key once, accepts it at once, and never stores or shows it again", async () => {
  const made = await create({ name: "ci", role: "deployer", expires_at: "2999-01-01T00:00:00Z" });
  assert.equal(made.status, 201);
  const { key, ...shown } = made.body;
  assert.match(key, /^ph_[0-9a-f]{12}_[\w-]{43}$/);
  assert.ok(key.startsWith(shown.prefix));
  assert.deepEqual(
    [shown.role, shown.scope, shown.workspace_id, shown.status, shown.expires_at],
    ["deployer", "workspace", tenant.tenantId, "active", "2999-01-01T00:00:00.000Z"],
  );
  assert.ok(await works(key));
  const read = await t.ask({ url: `/v2/admin/api-keys/${shown.id}` });
  assert.deepEqual(read.body, { ...shown, last_used_at: read.body.last_used_at });
  const secret = key.slice(shown.prefix.length + 1); // a split would cut it at a "_" of its own
  for (const table of ["api_keys", "audit_log"]) {
    const { rows } = await t.db.query<{ row: string }>(sql`select x::text as row from ${sql.identifier(table)} x`);
    assert.ok(!rows.some(({ row }) => row.includes(secret)), table);
  }
  assert.ok(!(await t.ask({ url: "/v2/admin/audit-log" })).text.includes(secret));
});

test("a revoked key stops working at once, stays in the full list, and can be revoked again without effect", async () => {
  const { body } = await create({ role: "reader" });
  assert.ok(await works(body.key));
  assert.equal((await revoke(body.id)).status, 204);
  assert.equal(await works(body.key), false);
  assert.equal((await revoke(body.id)).status, 204);
  assert.ok(!(await listed(workspaceKey)).some(({ id }) => id === body.id));
  const [all] = (await listed(workspaceKey, "include_inactive=true")).filter(({ id }) => id === body.id);
  assert.equal((all as unknown as { status: string }).status, "revoked");
  const { items } = (await t.ask({ url: `/v2/admin/audit-log?action=api_key` })).body;
  const ofIt = items.filter(({ subject_id }: { subject_id: string }) => subject_id === body.id);
  assert.deepEqual(
    ofIt.map(({ action }: { action: string }) => action),
    ["api_key.revoke", "api_key.create"],
  );
});

test("a busy key stops working with the response that revokes it, also when that response is saved", async () => {
  for (let round = 0; round < 5; round += 1) {
    const { body } = await create({ role: "reader" });
    let isOver = false;
    const use = async () => {
      while (!isOver) await works(body.key);
    };
    const users = [use(), use(), use()];
    await t.ask({
      method: "DELETE",
      url: `/v2/admin/api-keys/${body.id}`,
      headers: { "idempotency-key": body.id },
    });
    assert.equal(await works(body.key), false);
    isOver = true;
    await Promise.all(users);
  }
});

test("no key creates a key that reaches further or into another tenant", async () => {
  const scopeMissing = (scope: string) => [403, { detail: `This call needs an admin key of the ${scope}.` }];
  const refused = async (payload: object, key: string) => {
    const { status, body } = await create(payload, key);
    return [status, body];
  };
  assert.deepEqual(await refused({ scope: "organization" }, workspaceKey), scopeMissing("organization"));
  assert.deepEqual(await refused({ scope: "installation" }, workspaceKey), scopeMissing("installation"));
  assert.deepEqual(await refused({ scope: "installation" }, organizationKey), scopeMissing("installation"));
  for (const workspace_id of [stranger.tenantId, randomUUID()]) {
    const expected = [404, { detail: `Workspace ID ${workspace_id} not found.` }];
    assert.deepEqual(await refused({ workspace_id }, workspaceKey), expected);
    assert.deepEqual(await refused({ workspace_id }, organizationKey), expected);
  }
  for (const organization_id of [stranger.organizationId, randomUUID()]) {
    const expected = [404, { detail: `Organization ID ${organization_id} not found.` }];
    assert.deepEqual(await refused({ scope: "organization", organization_id }, organizationKey), expected);
  }
  for (const role of ["reader", "deployer"] as const) {
    const key = await t.mintKey({ role });
    assert.equal((await create({ role: "reader" }, key)).status, 403, role);
  }
});

test("omitting a field never widens a key", async () => {
  const nowhere = await create({}, organizationKey);
  assert.deepEqual([nowhere.status, /workspace_id/.test(nowhere.body.detail)], [400, true]);
  const chosen = await create({}, organizationKey, { "x-tenant-id": tenant.tenantId });
  assert.deepEqual([chosen.body.scope, chosen.body.workspace_id], ["workspace", tenant.tenantId]);
  const own = await create({}, operatorKey);
  assert.deepEqual([own.body.scope, own.body.workspace_id], ["workspace", tenant.tenantId]);
});

test("explains why settings of a key contradict each other", async () => {
  const detailOf = async (payload: object) => {
    const { status, body } = await create(payload, operatorKey);
    assert.equal(status, 400, JSON.stringify(payload));
    return body.detail as string;
  };
  assert.match(await detailOf({ expires_at: "2001-01-01T00:00:00Z" }), /must be in the future/);
  assert.match(await detailOf({ role: "listener" }), /listener_id/);
  assert.match(await detailOf({ role: "reader", listener_id: randomUUID() }), /listener_id/);
  assert.match(await detailOf({ scope: "organization", workspace_id: tenant.tenantId }), /workspace_id/);
  assert.match(await detailOf({ scope: "installation", role: "reader" }), /role/);
  assert.match(
    await detailOf({ workspace_id: tenant.tenantId, organization_id: stranger.organizationId }),
    /organization_id/,
  );
});

test("a listener key belongs to a listener of the workspace, never to the built-in one", async () => {
  const payload = { compute_type: "k8s", compute_id: "cluster", compute_config: {} };
  const listener = (await t.ask({ method: "POST", url: "/v2/listeners", payload })).body;
  const made = await create({ role: "listener", listener_id: listener.id });
  assert.deepEqual([made.status, made.body.listener_id], [201, listener.id]);
  const heartbeat = await t.ask({ method: "POST", url: "/dp/v1/heartbeat", key: made.body.key, payload: {} });
  assert.equal(heartbeat.body.error, "stale_epoch", "admitted, but without a session yet");
  for (const listener_id of [t.deps.listenerId, randomUUID()]) {
    const answer = await create({ role: "listener", listener_id }, operatorKey);
    assert.deepEqual([answer.status, answer.body.detail], [404, `Listener ID ${listener_id} not found.`]);
  }
});

test("each scope lists its own keys: a workspace's, an organization's, and an operator's all but the built-in listener's", async () => {
  await t.mintKey({ role: "listener", isOrganizational: true, listenerId: t.deps.listenerId });
  const scopes = async (key: string) => [...new Set((await listed(key)).map(({ scope }) => scope))].sort();
  assert.deepEqual(await scopes(workspaceKey), ["workspace"]);
  assert.deepEqual(await scopes(organizationKey), ["organization", "workspace"]);
  assert.deepEqual(await scopes(operatorKey), ["installation", "organization", "workspace"]);
  const all = (await listed(operatorKey)) as unknown as { listener_id: string | null; organization_id: string }[];
  assert.ok(!all.some(({ listener_id }) => listener_id === t.deps.listenerId));
  assert.equal(new Set(all.map(({ organization_id }) => organization_id)).size, 2);
  const filtered = await listed(operatorKey, `organization_id=${stranger.organizationId}`);
  assert.equal(filtered.length, 1);
  assert.deepEqual(await listed(organizationKey, `organization_id=${stranger.organizationId}`), []);
});

test("keys out of reach answer like unknown ones, to read and to revoke", async () => {
  const ids = [randomUUID(), ...(await listed(stranger.adminKey)).map(({ id }) => id)];
  const [organizational] = (await listed(organizationKey)).filter(({ scope }) => scope === "organization");
  const [operators] = (await listed(operatorKey)).filter(({ scope }) => scope === "installation");
  for (const id of [...ids, organizational?.id, operators?.id] as string[]) {
    for (const method of ["GET", "DELETE"] as const) {
      const answer = await t.ask({ method, url: `/v2/admin/api-keys/${id}` });
      assert.deepEqual([answer.status, answer.body], [404, { detail: `API key ID ${id} not found.` }]);
    }
  }
  const byOrganization = await revoke(operators?.id as string, organizationKey);
  assert.equal(byOrganization.status, 404, "an organization cannot revoke an operator's key");
});

test("the last key that administers an organization, or the installation, cannot be revoked", async () => {
  const [own] = (await listed(stranger.adminKey)).filter(({ scope }) => scope === "workspace");
  const refused = await revoke(own?.id as string, stranger.adminKey);
  assert.equal(refused.status, 409);
  assert.match(refused.body.detail, /last key that administers the workspace.*Create another one first/);
  const another = (await create({ name: "another" }, stranger.adminKey)).body;
  assert.equal((await revoke(own?.id as string, another.key)).status, 204);
  assert.equal((await revoke(another.id, another.key)).status, 409);

  const [operators] = (await listed(operatorKey)).filter(({ scope }) => scope === "installation");
  const last = await revoke(operators?.id as string, operatorKey);
  assert.deepEqual([last.status, /administers the installation/.test(last.body.detail)], [409, true]);
});

test("when two administrators revoke each other at the same moment, one stays", async () => {
  const payload = { name: "racing" };
  const organization = await t.ask({ method: "POST", url: "/v2/admin/organizations", payload, key: operatorKey });
  const organization_id = organization.body.id;
  const request = { scope: "organization", organization_id };
  for (let round = 0; round < 5; round += 1) {
    const pair = [await create(request, operatorKey), await create(request, operatorKey)];
    const left = (await listed(operatorKey, `organization_id=${organization_id}`)).map(({ id }) => id);
    const ends = await Promise.all(left.map((id) => revoke(id, operatorKey)));
    assert.equal(ends.filter(({ status }) => status === 409).length, 1);
    assert.equal((await listed(operatorKey, `organization_id=${organization_id}`)).length, 1);
    assert.equal(pair.length, 2);
  }
});

test("an operator's key acts in its home workspace or in a named one of its organization, but not in others", async () => {
  assert.ok(await works(operatorKey));
  const made = await t.ask({
    method: "POST",
    url: "/v2/admin/workspaces",
    payload: { name: "second" },
    key: operatorKey,
  });
  assert.ok(await works(operatorKey, { "x-tenant-id": made.body.id }));
  const foreign = await t.ask({
    url: "/v2/deployments",
    key: operatorKey,
    headers: { "x-tenant-id": stranger.tenantId },
  });
  assert.deepEqual([foreign.status, foreign.body], [403, { detail: "Forbidden" }]);
});
