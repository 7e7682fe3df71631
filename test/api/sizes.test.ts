import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const url = "/v2/deployments";
const resize = (id: string, payload: object) =>
  t.ask({ method: "PATCH", url: `${url}/${id}/deployment-tier`, payload });
const resizeParts = (id: string, payload: object) =>
  t.ask({ method: "PATCH", url: `${url}/${id}/resource-tiers`, payload });

async function create(name: string, type: string | null, source = "github") {
  const git = {
    source_config: { repo_url: "https://github.com/acme/bot", deployment_type: type, build_on_push: false },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
  };
  const empty = { source_config: { deployment_type: type }, source_revision_config: {} };
  const payload = { name, source, ...(source === "github" ? git : empty) };
  const { status, body } = await t.ask({ method: "POST", url, payload });
  assert.equal(status, 201);
  return body;
}
const newest = async (id: string) => (await t.ask({ url: `${url}/${id}/revisions?limit=1` })).body.resources[0];

test("a new deployment has the smallest size of its kind; development types have none", async () => {
  const shown = async (type: string | null) => (await create(`new-${type}`, type)).deployment_tier;
  assert.equal(await shown(null), "DEDICATED_S");
  assert.equal(await shown("dev_zero"), "SERVERLESS_S");
  assert.equal(await shown("dev_free_zero"), "SERVERLESS_S");
  assert.equal(await shown("dev"), null);
});

test("another size creates a revision of the same commit, triggered by the tier; the same size creates none", async () => {
  const made = await create("resized", "prod");
  const sha = "0123456789abcdef0123456789abcdef01234567";
  await t.db.query(sql`update revisions set status = 'DEPLOYED',
             source_revision_config = source_revision_config || ${JSON.stringify({ repo_commit_sha: sha })}::jsonb
             where id = ${made.latest_revision_id}`);
  const same = await resize(made.id, { deployment_tier: "DEDICATED_S" });
  assert.deepEqual([same.status, same.body.latest_revision_id], [200, made.latest_revision_id]);
  const { status, body } = await resize(made.id, { deployment_tier: "DEDICATED_M" });
  assert.deepEqual([status, body.deployment_tier, body.tenant_id], [200, "DEDICATED_M", t.tenant.tenantId]);
  assert.notEqual(body.latest_revision_id, made.latest_revision_id);
  const revision = await newest(made.id);
  assert.deepEqual(
    [revision.id, revision.triggered_by, revision.source_revision_config.repo_commit_sha],
    [body.latest_revision_id, "tier", sha],
  );
  const patched = await t.ask({
    method: "PATCH",
    url: `${url}/${made.id}`,
    payload: { deployment_tier: "DEDICATED_L" },
  });
  assert.equal(patched.body.deployment_tier, "DEDICATED_L");
});

test("sizes runtime and database separately, by letter or by tier", async () => {
  const made = await create("parts", "prod");
  const { status, body } = await resizeParts(made.id, { compute_tier: "L", database_tier: "DEDICATED_M" });
  assert.deepEqual(
    [status, body.deployment_tier, body.compute_tier, body.database_tier],
    [200, "DEDICATED_S", "L", "M"],
  );
  const again = await resizeParts(made.id, { compute_tier: "DEDICATED_L", database_tier: null });
  assert.deepEqual([again.status, again.body.latest_revision_id], [200, body.latest_revision_id]);
  const whole = await resize(made.id, { deployment_tier: "DEDICATED_M" });
  assert.deepEqual([whole.body.compute_tier, whole.body.database_tier], [null, null]);
});

test("before the first build a size is only stored", async () => {
  const made = await create("unbuilt", "dev_zero", "internal_source");
  const { status, body } = await resize(made.id, { deployment_tier: "SERVERLESS_M" });
  assert.deepEqual([status, body.deployment_tier, body.latest_revision_id], [200, "SERVERLESS_M", null]);
});

test("answers 400 for a size of another kind or of a type without sizes, and 422 for an unknown one", async () => {
  const [prod, dev, zero] = [
    await create("kind-prod", "prod"),
    await create("kind-dev", "dev"),
    await create("kind-zero", "dev_zero"),
  ];
  for (const answer of [
    await resize(prod.id, { deployment_tier: "SERVERLESS_M" }),
    await resize(dev.id, { deployment_tier: "DEDICATED_S" }),
    await resize(zero.id, { deployment_tier: "DEDICATED_S" }),
    await resizeParts(zero.id, { database_tier: "M" }),
    await resizeParts(prod.id, {}),
    await resizeParts(prod.id, { compute_tier: null, database_tier: null }),
    await resizeParts(dev.id, { compute_tier: "S" }),
  ]) {
    assert.equal(answer.status, 400, answer.text);
    assert.match(answer.body.detail, /^Deployment error: '(deployment|compute|database)_tier' /);
  }
  const unknown = await resize(prod.id, { deployment_tier: "HUGE" });
  assert.deepEqual([unknown.status, unknown.body.detail[0].type], [422, "literal_error"]);
  const missing = await resize(prod.id, {});
  assert.deepEqual(missing.body.detail[0].loc, ["body", "deployment_tier"]);
  assert.equal((await resizeParts(prod.id, { compute_tier: "XL" })).status, 422);
});

test("does not resize deleted, unknown or foreign deployments", async () => {
  const made = await create("gone", "prod");
  await t.ask({ method: "DELETE", url: `${url}/${made.id}` });
  const deleted = await resize(made.id, { deployment_tier: "DEDICATED_M" });
  assert.deepEqual([deleted.status, deleted.body.detail], [400, `Deployment ID ${made.id} is being deleted.`]);
  assert.equal((await resize(randomUUID(), { deployment_tier: "DEDICATED_M" })).status, 404);
});
