import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const t = await startApi();

async function createGithub(name: string) {
  const payload = {
    name,
    source: "github",
    source_config: { repo_url: "https://github.com/acme/bot", build_on_push: false, install_command: "npm ci" },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    secrets: [{ name: "A", value: "1" }],
  };
  const { body } = await t.ask({ method: "POST", url: "/v2/deployments", payload });
  return { id: body.id as string, first: body.latest_revision_id as string, url: `/v2/deployments/${body.id}` };
}

/** Moves a revision as the reconciler would, so that a later status can be tested. */
const settle = (revisionId: string, status: string) =>
  t.db.query(sql`update revisions set status = ${status} where id = ${revisionId}`);

const post = (url: string, payload?: object) => t.ask({ method: "POST", url, ...(payload && { payload }) });

test("lists revisions newest first, in pages, by status", async () => {
  const { url, first } = await createGithub("listed");
  const second = (await post(`${url}/revisions`)).body.id;
  const third = (await post(`${url}/revisions`, {})).body.id;
  await settle(first, "DEPLOYED");
  const ids = async (query: string) =>
    (await t.ask({ url: `${url}/revisions?${query}` })).body.resources.map((one: { id: string }) => one.id);
  assert.deepEqual(await ids(""), [third, second, first]);
  assert.deepEqual(await ids("limit=1&offset=1"), [second]);
  assert.deepEqual(await ids("status=DEPLOYED,%20NO_SUCH"), [first]);
  assert.deepEqual(await ids("status=CREATING,DEPLOYED"), [third, second, first]);
  assert.deepEqual(await ids("status=NO_SUCH"), []);
  assert.deepEqual(await ids("remote_reconciled=true"), []);
  assert.deepEqual(await ids("remote_reconciled=false&limit=1"), [third]);
});

test("a posted revision inherits settings and answers 201", async () => {
  const { url } = await createGithub("posted");
  const answer = await post(`${url}/revisions`, { source_revision_config: { repo_ref: "refs/tags/v1" } });
  assert.equal(answer.status, 201);
  assert.equal(answer.body.source_revision_config.repo_ref, "refs/tags/v1");
  assert.equal(answer.body.source_revision_config.langgraph_config_path, "langgraph.json");
  assert.equal(answer.body.triggered_by, "api");
  const read = await t.ask({ url: `${url}/revisions/${answer.body.id}` });
  assert.deepEqual(read.body, answer.body);
  const deployment = (await t.ask({ url })).body;
  assert.equal(deployment.latest_revision_id, answer.body.id);
  assert.deepEqual(deployment.secrets, [{ name: "A", value: "1" }]);
  const immutable = await post(`${url}/revisions`, { source_config: { deployment_type: "dev" } });
  assert.equal(immutable.status, 400);
});

test("a client that reads the resources, sets a few and sends them back, as Terraform does, may raise a request above the default limit", async () => {
  const source_revision_config = { image_uri: "registry.example.org/bot:1" };
  const made = await post("/v2/deployments", {
    ...{ name: "resized", source: "external_docker", source_revision_config },
    source_config: { resource_spec: { cpu: 1, labels: { team: "a" } } },
  });
  const url = `/v2/deployments/${made.body.id}`;
  const specOf = async () => (await t.ask({ url })).body.source_config.resource_spec;
  const set = async (own: object) => {
    const resource_spec = { ...(await specOf()), ...own };
    const answer = await post(`${url}/revisions`, { source_revision_config, source_config: { resource_spec } });
    assert.equal(answer.status, 201, answer.text);
    return specOf();
  };
  const before = await specOf();
  assert.deepEqual([before.cpu_limit, before.memory_limit_mb, before.max_scale], [2, 4096, 1]);
  assert.deepEqual(await set({ cpu: 1 }), before, "only an image");
  const raised = await set({ cpu: 4, memory_mb: 6_000, min_scale: 3 });
  assert.deepEqual([raised.cpu_limit, raised.memory_limit_mb, raised.max_scale], [8, 12_000, 3]);
  assert.deepEqual(raised.labels, { team: "a" });
  assert.deepEqual([raised.queue_cpu, raised.queue_memory_mb], [1, 2048], "unset values stay");
  const limited = await set({ cpu: 4, cpu_limit: 5 });
  assert.equal(limited.cpu_limit, 5);
  const contradiction = { ...limited, cpu: 6 };
  const refused = await post(`${url}/revisions`, { source_config: { resource_spec: contradiction } });
  assert.match(refused.body.detail, /'source_config.resource_spec.cpu_limit' must not be below cpu \(6\)/);
  const partial = await post(`${url}/revisions`, { source_config: { resource_spec: { cpu: 2, cpu_limit: 1 } } });
  assert.equal(partial.status, 400);
});

test("sizes of queue replicas that a client read and sent back ask for no workers, and its own do", async () => {
  const source_revision_config = { image_uri: "registry.example.org/bot:1" };
  const create = async (name: string, resource_spec: object) => {
    const source_config = { resource_spec };
    const payload = { name, source: "external_docker", source_revision_config, source_config };
    return (await post("/v2/deployments", payload)).body;
  };
  const made = await create("queued", { cpu: 1 });
  const url = `/v2/deployments/${made.id}`;
  const specOf = async () => (await t.ask({ url })).body.source_config.resource_spec;
  /** Changes some sizes as clients do that know the field, and as those do that do not. */
  const set = async (own: object, { isKnown }: { isKnown: boolean }) => {
    const { workers, ...read } = await specOf();
    const resource_spec = { ...read, ...(isKnown && { workers }), ...own };
    const answer = await post(`${url}/revisions`, { source_revision_config, source_config: { resource_spec } });
    assert.equal(answer.status, 201, answer.text);
    const { workers: has, queue_cpu } = await specOf();
    return { has, queue_cpu };
  };
  assert.equal((await specOf()).workers, false);
  for (const isKnown of [true, false]) {
    assert.deepEqual(await set({ cpu: 4 }, { isKnown }), { has: false, queue_cpu: 1 });
    assert.deepEqual(await set({ memory_mb: 1024 }, { isKnown }), { has: false, queue_cpu: 1 });
    assert.deepEqual(await set({ queue_cpu: 2 }, { isKnown }), { has: true, queue_cpu: 2 });
    assert.deepEqual(await set({ cpu: 1 }, { isKnown }), { has: true, queue_cpu: 2 });
    assert.deepEqual(await set({ workers: false, queue_cpu: 1 }, { isKnown }), { has: false, queue_cpu: 1 });
  }
  const copy = await create("queued-copy", await specOf());
  assert.equal(copy.source_config.resource_spec.workers, false, "a copy of the whole spec");
  assert.equal((await create("queued-plain", { workers: true })).source_config.resource_spec.workers, true);
});

test("numbers the revisions of a deployment, and says why each exists and who made it", async () => {
  const { url } = await createGithub("numbered");
  const change = (payload: object) => t.ask({ method: "PATCH", url, payload });
  await change({ secrets: [{ name: "A", value: "2" }] });
  await change({ source_revision_config: { repo_ref: "dev" }, secrets: [{ name: "A", value: "3" }] });
  await change({ display_name: "no revision" });
  await post(`${url}/revisions`);
  const { resources } = (await t.ask({ url: `${url}/revisions` })).body;
  const shown = resources.map((one: { number: number; reason: string }) => [one.number, one.reason]);
  const expected = [
    [4, "deploy"],
    [3, "deploy"],
    [2, "variables"],
    [1, "deploy"],
  ];
  assert.deepEqual(shown, expected);
  const other = await createGithub("numbered-too");
  const [only] = (await t.ask({ url: `${other.url}/revisions` })).body.resources;
  assert.equal(only.number, 1);
  assert.equal(only.made_by.kind, "key");
  assert.equal(typeof only.made_by.name, "string");
});

test("distinguishes an unknown revision from an unknown deployment", async () => {
  const { url } = await createGithub("unknown");
  const other = await createGithub("unknown-other");
  const unknown = randomUUID();
  for (const id of [unknown, other.first]) {
    for (const call of [
      { url: `${url}/revisions/${id}` },
      { url: `${url}/revisions/${id}/logs?type=build` },
      { method: "POST", url: `${url}/revisions/${id}/redeploy` },
      { method: "POST", url: `${url}/revisions/${id}/interrupt` },
      { method: "POST", url: `${url}/revisions/${id}/interruption` },
    ] as const) {
      const answer = await t.ask(call);
      assert.deepEqual([answer.status, answer.body], [404, { detail: `Revision ID ${id} not found.` }], call.url);
    }
  }
  const bad = await t.ask({ url: `${url}/revisions/abc` });
  assert.deepEqual(bad.body.detail[0].loc, ["path", "revision_id"]);
});

test("a redeploy runs the named revision's code with the current settings", async () => {
  const { id, url, first } = await createGithub("redeployed");
  const early = await post(`${url}/revisions/${first}/redeploy`);
  assert.equal(early.status, 400);
  await settle(first, "DEPLOYED");
  const artifact = randomUUID();
  await t.db.query(
    sql`insert into artifacts (id, tenant_id, key, manifest) values (${artifact}, ${t.tenant.tenantId}, 'key-1', '{"rollout":"rolling","digest":"sha256:1","builder":"2"}')`,
  );
  await t.db.query(sql`update revisions set artifact_id = ${artifact}, artifact_key = 'key-1' where id = ${first}`);
  await t.ask({
    method: "PATCH",
    url,
    payload: { secrets: [{ name: "B", value: "2" }], source_revision_config: { repo_ref: "dev" } },
  });
  const again = await post(`${url}/revisions/${first}/redeploy`);
  assert.equal(again.status, 200);
  assert.equal(again.body.id, id);
  assert.equal(again.body.source_revision_config.repo_ref, "main");
  assert.deepEqual(again.body.secrets, [{ name: "B", value: "2" }]);
  const revision = (await t.ask({ url: `${url}/revisions/${again.body.latest_revision_id}` })).body;
  assert.deepEqual([revision.triggered_by, revision.reason], ["redeploy", "redeploy"]);
  assert.deepEqual(revision.based_on, { id: first, number: 1 });
  assert.equal(revision.rollout, "rolling");
  assert.deepEqual([revision.artifact_digest, revision.builder_version], ["sha256:1", "2"]);
  assert.equal(revision.source_revision_config.repo_ref, "main");
});

test("an interrupt stops unfinished revisions, is repeatable, and refuses finished ones", async () => {
  for (const word of ["interrupt", "interruption"]) {
    const { url, first } = await createGithub(`stopped-${word}`);
    for (let time = 0; time < 2; time += 1) {
      const answer = await t.ask({ method: "POST", url: `${url}/revisions/${first}/${word}` });
      assert.deepEqual([answer.status, answer.text], [204, ""]);
    }
    assert.equal((await t.ask({ url: `${url}/revisions/${first}` })).body.status, "INTERRUPTED");
    await settle(first, "DEPLOYED");
    const late = await t.ask({ method: "POST", url: `${url}/revisions/${first}/${word}` });
    assert.deepEqual(late.body, { detail: `Revision ID ${first} is already DEPLOYED and cannot be interrupted.` });
  }
});
