import assert from "node:assert/strict";
import { test } from "node:test";
import { startApi } from "./harness.ts";

const t = await startApi();
const organizationKey = await t.mintKey({ isOrganizational: true });

const create = (tenantId: string, name: string, scale?: number) =>
  t.ask({
    method: "POST",
    url: "/v2/deployments",
    key: organizationKey,
    headers: { "x-tenant-id": tenantId },
    payload: {
      name,
      source: "external_docker",
      source_config: { resource_spec: scale === undefined ? {} : { max_scale: scale } },
      source_revision_config: { image_uri: "registry.example/agent:1" },
    },
  });
const change = (method: "PATCH" | "DELETE", tenantId: string, id: string, payload?: object) =>
  t.ask({
    method,
    url: `/v2/deployments/${id}`,
    key: organizationKey,
    headers: { "x-tenant-id": tenantId },
    ...(payload !== undefined && { payload }),
  });
const scaleTo = (max_scale: number) => ({ source_config: { resource_spec: { max_scale } } });

async function workspaceWith(name: string, quotas: object): Promise<string> {
  const made = await t.ask({ method: "POST", url: "/v2/admin/workspaces", payload: { name }, key: organizationKey });
  await limit(made.body.id, quotas);
  return made.body.id;
}
const limit = (id: string, payload: object, key = organizationKey) =>
  t.ask({ method: "PATCH", url: `/v2/admin/workspaces/${id}/quotas`, payload, key });
const quotasOf = async (id: string, key = organizationKey) =>
  (await t.ask({ url: `/v2/admin/workspaces/${id}/quotas`, key })).body;

test("without quotas everything is unlimited, and usage is still counted", async () => {
  const id = await workspaceWith("free", {});
  await create(id, "a", 3);
  await create(id, "b");
  const quotas = await quotasOf(id);
  assert.deepEqual(
    [quotas.deployments, quotas.replicas, quotas.build_minutes],
    [
      { limit: null, used: 2 },
      { limit: null, used: 4 },
      { limit: null, used: 0 },
    ],
  );
  assert.match(quotas.month, /^\d{4}-\d{2}$/);
});

test("null lifts a limit, an absent field keeps it, and a workspace's own key may only read", async () => {
  const id = await workspaceWith("changed", { deployments: 2, replicas: 5 });
  assert.equal((await limit(id, { deployments: null })).body.deployments.limit, null);
  assert.equal((await quotasOf(id)).replicas.limit, 5);
  const insider = await t.mintKey({ tenant: { ...t.tenant, tenantId: id } });
  assert.equal((await quotasOf(id, insider)).replicas.limit, 5);
  assert.equal((await limit(id, { replicas: 100 }, insider)).status, 403);
  for (const deployments of [-1, 1.5, "many"]) assert.equal((await limit(id, { deployments })).status, 422);
});

test("rejects one deployment too many with the quota, its value and what to do; deleting one makes room", async () => {
  const id = await workspaceWith("two", { deployments: 2 });
  const { body: first } = await create(id, "a");
  assert.equal((await create(id, "b")).status, 201);
  const refused = await create(id, "c");
  assert.deepEqual(
    [refused.status, refused.body],
    [
      400,
      {
        detail:
          "The quota 'deployments' of this workspace is 2 and 2 exist. Delete one, or ask an administrator of the " +
          "organization for more.",
        error: "quota_exceeded",
        quota: "deployments",
        limit: 2,
      },
    ],
  );
  assert.equal((await change("DELETE", id, first.id)).status, 204);
  assert.equal((await create(id, "c")).status, 201);
});

test("limits the replicas of all deployments together on create and growth, but never when one shrinks", async () => {
  const id = await workspaceWith("replicas", { replicas: 5 });
  const { body: a } = await create(id, "a", 2);
  const { body: b } = await create(id, "b", 2);
  const third = await create(id, "c", 2);
  assert.deepEqual([third.status, third.body.quota], [400, "replicas"]);
  assert.match(
    third.body.detail,
    /is 5: other deployments may run 4, this one asks for 2\. Choose a smaller max_scale/,
  );
  assert.equal((await change("PATCH", id, a.id, scaleTo(3))).status, 200);
  const grown = await change("PATCH", id, b.id, scaleTo(3));
  assert.deepEqual([grown.status, grown.body.error], [400, "quota_exceeded"]);
  await limit(id, { replicas: 1 });
  assert.equal((await change("PATCH", id, a.id, { display_name: "kept" })).status, 200);
  assert.equal((await change("PATCH", id, a.id, scaleTo(2))).status, 200);
  assert.equal((await quotasOf(id)).replicas.used, 4);
});

test("counts the maximum replicas of deployment types that are built here", async () => {
  const id = await workspaceWith("types", { replicas: 10 });
  const payload = (name: string, deployment_type: string) => ({
    name,
    source: "internal_docker",
    source_config: { deployment_type },
    source_revision_config: {},
  });
  const make = (name: string, type: string) =>
    t.ask({
      method: "POST",
      url: "/v2/deployments",
      key: organizationKey,
      headers: { "x-tenant-id": id },
      payload: payload(name, type),
    });
  assert.equal((await make("dev", "dev")).status, 201);
  assert.equal((await make("prod", "prod")).status, 400, "1 + 10 > 10");
  assert.equal((await make("zero", "dev_zero")).status, 201);
});

test("replays a create under its key although the first one used up the quota", async () => {
  const id = await workspaceWith("again", { deployments: 1 });
  const send = () =>
    t.ask({
      method: "POST",
      url: "/v2/deployments",
      key: organizationKey,
      headers: { "x-tenant-id": id, "idempotency-key": "once" },
      payload: { name: "a", source: "internal_docker", source_config: {}, source_revision_config: {} },
    });
  const [first, second] = [await send(), await send()];
  assert.deepEqual([first.status, second.status], [201, 201]);
  assert.equal(first.text, second.text);
});

test("of many concurrent creates exactly as many succeed as the quota allows", async () => {
  const id = await workspaceWith("race", { deployments: 3 });
  const answers = await Promise.all(Array.from({ length: 12 }, (_, index) => create(id, `a${index}`)));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [...Array(3).fill(201), ...Array(9).fill(400)]);
});
