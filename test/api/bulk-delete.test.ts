import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { createWorkspace } from "../../src/store/tenants/tenants.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const url = "/v2/deployments";
let made = 0;

async function create(type = "dev", more: Parameters<typeof t.ask>[0] = {}): Promise<string> {
  made += 1;
  const payload = {
    name: `bulk-${made}`,
    source: "internal_source",
    source_config: { deployment_type: type },
    source_revision_config: {},
  };
  return (await t.ask({ method: "POST", url, payload, ...more })).body.id;
}
const deleteAll = (query: string, more: Parameters<typeof t.ask>[0] = {}) =>
  t.ask({ method: "DELETE", url: `${url}?${query}`, ...more });
const statusOf = async (id: string) => (await t.ask({ url: `${url}/${id}` })).body.status;
const repeated = (ids: string[]) => ids.map((id) => `deployment_ids=${id}`).join("&");
const missing = (id: string) => ({ deployment_id: id, status_code: 404, detail: `Deployment ID ${id} not found.` });

test("deletes several deployments in one call, as separate parameters or one list", async () => {
  const ids = [await create(), await create(), await create()];
  const one = await deleteAll(`${repeated(ids.slice(0, 1))}&deployment_ids=${ids.slice(1).join(",")}`);
  assert.deepEqual([one.status, one.body], [200, { deleted: ids, failed: [] }]);
  for (const id of ids) assert.equal(await statusOf(id), "AWAITING_DELETE");
  const again = await deleteAll(repeated([...ids, ids[0] as string]));
  assert.deepEqual([again.status, again.body.deleted], [200, ids]);
});

test("answers 207 with the reasons when some fail, and 404 for the first when all are unknown", async () => {
  const [id, unknown, another] = [await create(), randomUUID(), randomUUID()];
  const some = await deleteAll(repeated([unknown, id]));
  assert.deepEqual([some.status, some.body], [207, { deleted: [id], failed: [missing(unknown)] }]);
  const none = await deleteAll(repeated([unknown, another]));
  assert.deepEqual([none.status, none.body], [404, { detail: `Deployment ID ${unknown} not found.` }]);
});

test("a deployment of another workspace is as unknown as one that never existed", async () => {
  const [own, foreign] = [await create("dev", { key: t.stranger.adminKey }), await create()];
  const answer = await deleteAll(repeated([own, foreign]), { key: t.stranger.adminKey });
  assert.deepEqual([answer.status, answer.body], [207, { deleted: [own], failed: [missing(foreign)] }]);
  assert.equal((await deleteAll(repeated([foreign]), { key: t.stranger.adminKey })).status, 404);
  assert.equal(await statusOf(foreign), "AWAITING_DATABASE");
});

test("force requires an earlier delete of each deployment", async () => {
  const [fresh, dying] = [await create(), await create()];
  await deleteAll(repeated([dying]));
  const some = await deleteAll(`${repeated([fresh, dying])}&force=true`);
  assert.deepEqual([some.status, some.body.deleted, some.body.failed[0].status_code], [207, [dying], 400]);
  const none = await deleteAll(`${repeated([fresh])}&force=true`);
  assert.deepEqual([none.status, none.body.deleted], [207, []]);
  assert.equal(await statusOf(fresh), "AWAITING_DATABASE");
});

test("rejects no id, an invalid id and more than a hundred with 422 and deletes nothing", async () => {
  const id = await create();
  const refusal = async (query: string) => {
    const { status, body } = await deleteAll(query);
    return [status, body.detail.map(({ type, loc }: { type: string; loc: unknown[] }) => [type, loc])];
  };
  assert.deepEqual(await refusal(""), [422, [["missing", ["query", "deployment_ids"]]]]);
  assert.deepEqual(await refusal(`${repeated([id])}&deployment_ids=x`), [
    422,
    [["uuid_parsing", ["query", "deployment_ids", 1]]],
  ]);
  const many = repeated([id, ...Array.from({ length: 100 }, () => randomUUID())]);
  assert.deepEqual(await refusal(many), [422, [["too_long", ["query", "deployment_ids"]]]]);
  assert.equal(await statusOf(id), "AWAITING_DATABASE");
});

test("deletes a deployment's previews with it", async () => {
  const [parent, preview, other] = [await create(), await create(), await create()];
  await t.db.query(
    sql`update deployments set parent_deployment_id = ${parent}, is_preview = true where id = ${preview}`,
  );
  assert.equal((await t.ask({ method: "DELETE", url: `${url}/${parent}` })).status, 204);
  assert.deepEqual(await Promise.all([parent, preview, other].map(statusOf)), [
    "AWAITING_DELETE",
    "AWAITING_DELETE",
    "AWAITING_DATABASE",
  ]);
});

test("counts free deployments of the whole organization until they are deleted", async () => {
  const count = async () => (await t.ask({ url: `${url}/free-count` })).body;
  assert.deepEqual(await count(), { count: 0 });
  const id = await create("dev_free");
  await create("dev_free_zero");
  await create("dev_zero");
  await create("dev_free", { key: t.stranger.adminKey });
  const elsewhere = await createWorkspace(t.db, { organizationId: t.tenant.organizationId, name: "elsewhere" });
  const key = await t.mintKey({ isOrganizational: true });
  await create("dev_free", { key, headers: { "x-tenant-id": elsewhere } });
  assert.deepEqual(await count(), { count: 3 });
  await deleteAll(repeated([id]));
  assert.deepEqual(await count(), { count: 2 });
});
