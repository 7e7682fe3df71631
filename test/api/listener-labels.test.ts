import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const url = "/v2/listeners";

async function listen(labels: object | undefined, namespaces: string[] | null = ["agents"]) {
  const payload = {
    compute_type: "k8s",
    compute_id: randomUUID(),
    compute_config: { k8s_namespaces: namespaces },
    ...(labels && { labels }),
  };
  const made = await t.ask({ method: "POST", url, payload, key: t.tenant.adminKey });
  assert.equal(made.status, 201, made.text);
  return made.body as { id: string; listener_key: string; labels: object };
}

const connect = (key: string, facts: object = {}) =>
  t.ask({
    method: "POST",
    url: "/dp/v1/sessions",
    key,
    payload: { instance_id: "i", version: "1", protocols: [1], compute_type: "k8s", ...facts },
  });

const deploy = (selector: object, more: object = {}) =>
  t.ask({
    method: "POST",
    url: "/v2/deployments",
    payload: {
      name: randomUUID(),
      source: "external_docker",
      source_config: { resource_spec: {}, listener_selector: selector },
      source_revision_config: { image_uri: "registry.example.org/acme/bot:1.0" },
      ...more,
    },
  });

test("labels of a listener are set, read, listed, replaced and removed", async () => {
  const { id, labels } = await listen({ region: "eu", "example.com/gpu": "l4" });
  assert.deepEqual(labels, { region: "eu", "example.com/gpu": "l4" });
  const patch = async (payload: object) => (await t.ask({ method: "PATCH", url: `${url}/${id}`, payload })).body;
  assert.deepEqual((await patch({ version: "2" })).labels, labels, "a change without labels leaves them");
  assert.deepEqual((await patch({ labels: null })).labels, labels);
  assert.deepEqual((await patch({ labels: { region: "us" } })).labels, { region: "us" });
  assert.deepEqual((await t.ask({ url: `${url}/${id}` })).body.labels, { region: "us" });
  const listed = (await t.ask({ url: `${url}?limit=100` })).body.resources;
  assert.deepEqual(listed.find((one: { id: string }) => one.id === id).labels, { region: "us" });
  assert.match((await patch({ labels: { region: "u s" } })).detail, /^Listener configuration error: 'labels' /);
  assert.deepEqual((await patch({ labels: {} })).labels, {});

  const { rows } = await t.db.query<{ row: string }>(sql`
    select a::text as row from audit_log a where subject_id = ${id} and action = 'listener.patch' order by id`);
  assert.ok(
    rows.some(({ row }) => row.includes("labels.region")),
    JSON.stringify(rows),
  );
});

test("a deployment runs on the connected listener with its labels that has the fewest deployments", async () => {
  const lost = await listen({ tier: "prod" });
  const first = await listen({ tier: "prod", gpu: "l4" });
  const second = await listen({ tier: "prod" });
  await listen({ tier: "test" });
  for (const one of [first, second]) assert.equal((await connect(one.listener_key)).status, 201);

  const placed = [];
  for (let made = 0; made < 3; made += 1) placed.push((await deploy({ tier: "prod" })).body.source_config);
  assert.deepEqual(
    placed.map((config) => config.listener_id),
    [first.id, second.id, first.id],
  );
  assert.deepEqual(placed[0].listener_config, { k8s_namespace: "agents" });
  assert.equal("listener_selector" in placed[0], false, "responses name the listener only");
  assert.equal((await deploy({ tier: "prod", gpu: "l4" })).body.source_config.listener_id, first.id);

  await t.ask({ method: "PATCH", url: `${url}/${first.id}`, payload: { drain: true } });
  await t.ask({ method: "PATCH", url: `${url}/${second.id}`, payload: { drain: true } });
  assert.equal((await deploy({ tier: "prod" })).body.source_config.listener_id, lost.id);
});

test("a deployment stays on its listener when labels change", async () => {
  const { id } = await listen({ region: "eu-9" });
  const { body } = await deploy({ region: "eu-9" });
  await t.ask({ method: "PATCH", url: `${url}/${id}`, payload: { labels: {} } });
  assert.equal((await t.ask({ url: `/v2/deployments/${body.id}` })).body.source_config.listener_id, id);
  const moved = await t.ask({
    method: "PATCH",
    url: `/v2/deployments/${body.id}`,
    payload: { source_config: { listener_selector: { region: "eu-9" } } },
  });
  assert.match(moved.body.detail, /'source_config\.listener_selector' cannot be changed after creation\./);
});

test("labels that no listener has are refused with those that exist, of this workspace only", async () => {
  await listen({ disk: "fast" });
  await t.ask({
    method: "POST",
    url,
    payload: { compute_type: "k8s", compute_id: "theirs", compute_config: {}, labels: { owner: "stranger" } },
    key: t.stranger.adminKey,
  });
  const refused = await deploy({ disk: "none" });
  assert.equal(refused.status, 400);
  assert.match(refused.body.detail, /^Source configuration error: no listener fits .*\(disk=none\)\. .*disk=fast/);
  assert.doesNotMatch(refused.body.detail, /stranger/);
  assert.match((await deploy({ owner: "stranger" })).body.detail, /no listener fits/);
});

test("a source to build goes to a listener with these labels that builds images", async () => {
  await listen({ builds: "yes" });
  const builder = await listen({ builds: "yes" });
  const source = {
    source: "internal_source",
    source_config: { listener_selector: { builds: "yes" } },
    source_revision_config: {},
  };
  assert.match((await deploy({}, source)).body.detail, /build no images\.$/);
  assert.equal((await connect(builder.listener_key, { image_registry: "registry.example.org/a" })).status, 201);
  const placed = await deploy({}, source);
  assert.deepEqual([placed.status, placed.body.source_config.listener_id], [201, builder.id], placed.text);
});
