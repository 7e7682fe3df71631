import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { tagsMax, tagsOfDeploymentMax, tagValuesMax } from "../../src/domain/limits.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const { stranger } = t;
const deployerKey = await t.mintKey({ role: "deployer" });
const readerKey = await t.mintKey({ role: "reader" });
const url = "/v2/admin/tags";

const create = (payload: object, key = t.tenant.adminKey) => t.ask({ method: "POST", url, payload, key });
const createDeployment = async (name: string, key = t.tenant.adminKey) =>
  (
    await t.ask({
      method: "POST",
      url: "/v2/deployments",
      payload: { name, source: "internal_docker", source_config: {}, source_revision_config: {} },
      key,
    })
  ).body.id as string;
const put = (deploymentId: string, tag_value_ids: string[], key = deployerKey) =>
  t.ask({ method: "PUT", url: `/v2/admin/deployments/${deploymentId}/tags`, payload: { tag_value_ids }, key });
const found = async (ids: string[], key = readerKey) =>
  (await t.ask({ url: `/v2/deployments?tag_value_ids=${ids.join(",")}`, key })).body.resources
    .map(({ name }: { name: string }) => name)
    .sort();

const team = (await create({ name: "team", description: "Whose it is", values: ["search", "billing"] })).body;
const stage = (await create({ name: "stage", values: ["live", "trial"] })).body;
const idOfValue = (tag: { values: { id: string; name: string }[] }, name: string) =>
  tag.values.find((value) => value.name === name)?.id as string;
const [search, billing] = [idOfValue(team, "search"), idOfValue(team, "billing")];
const [live, trial] = [idOfValue(stage, "live"), idOfValue(stage, "trial")];

test("lists tags by name with their values, to every reader", async () => {
  const { body } = await t.ask({ url, key: readerKey });
  assert.deepEqual(
    body.resources.map((tag: { name: string; values: { name: string }[] }) => [
      tag.name,
      tag.values.map(({ name }) => name),
    ]),
    [
      ["stage", ["live", "trial"]],
      ["team", ["billing", "search"]],
    ],
  );
  assert.equal((await t.ask({ url: `${url}/${team.id}`, key: readerKey })).body.description, "Whose it is");
});

test("finds deployments by tag: values of one tag are alternatives, different tags must all match", async () => {
  const [a, b, c] = [await createDeployment("a"), await createDeployment("b"), await createDeployment("c")];
  assert.equal((await put(a, [search, live])).status, 200);
  await put(b, [billing, live]);
  await put(c, [search, trial]);
  assert.deepEqual(await found([search]), ["a", "c"]);
  assert.deepEqual(await found([search, live]), ["a"]);
  assert.deepEqual(await found([search, billing]), ["a", "b", "c"]);
  assert.deepEqual(await found([search, billing, live]), ["a", "b"]);
  assert.deepEqual(await found([billing, trial]), []);
  assert.deepEqual(await found([search, randomUUID()]), [], "an unknown value matches nothing");
  const both = await t.ask({ url: `/v2/deployments?name=c&tag_value_ids=${search}`, key: readerKey });
  assert.equal(both.body.resources.length, 1);
  const broken = await t.ask({ url: `/v2/deployments?tag_value_ids=${search},x` });
  assert.deepEqual([broken.status, broken.body.detail[0].loc], [422, ["query", "tag_value_ids"]]);
});

test("replaces the tags of a deployment as a whole; readers see them but cannot change them", async () => {
  const id = await createDeployment("replaced");
  await put(id, [search, live]);
  const after = await put(id, [billing, billing]);
  assert.deepEqual(after.body.tags, [{ tag_id: team.id, tag_value_id: billing, name: "team", value: "billing" }]);
  const read = await t.ask({ url: `/v2/admin/deployments/${id}/tags`, key: readerKey });
  assert.deepEqual(read.body, after.body);
  assert.equal((await put(id, [], readerKey)).status, 403);
  assert.deepEqual((await put(id, [])).body.tags, []);
});

test("deleting a value or a tag removes it from every deployment", async () => {
  const tag = (await create({ name: "doomed", values: ["one", "two"] })).body;
  const id = await createDeployment("tagged");
  const names = async () =>
    (await t.ask({ url: `/v2/admin/deployments/${id}/tags` })).body.tags.map(({ value }: { value: string }) => value);
  await put(id, [search, ...tag.values.map((value: { id: string }) => value.id)]);
  assert.deepEqual(await names(), ["one", "two", "search"]);
  await t.ask({ method: "DELETE", url: `${url}/${tag.id}/values/${idOfValue(tag, "one")}` });
  assert.deepEqual(await names(), ["two", "search"]);
  assert.equal((await t.ask({ method: "DELETE", url: `${url}/${tag.id}` })).status, 204);
  assert.deepEqual(await names(), ["search"]);
});

test("names are unique among tags and among the values of one tag", async () => {
  assert.deepEqual((await create({ name: "team" })).body.detail, "'team' already exists.");
  assert.equal((await create({ name: "owner", values: ["x", "x"] })).body.values.length, 1);
  const again = await t.ask({ method: "POST", url: `${url}/${team.id}/values`, payload: { name: "search" } });
  assert.equal(again.status, 409);
  const renamed = await t.ask({ method: "PATCH", url: `${url}/${stage.id}`, payload: { name: "team" } });
  assert.equal(renamed.status, 409);
  const value = await t.ask({
    method: "PATCH",
    url: `${url}/${stage.id}/values/${live}`,
    payload: { name: "trial" },
  });
  assert.equal(value.status, 409);
  assert.equal((await create({ name: "team" }, stranger.adminKey)).status, 201, "another workspace has its own names");
});

test("only admins create and change tags", async () => {
  for (const key of [readerKey, deployerKey]) {
    assert.equal((await create({ name: "x" }, key)).status, 403);
    for (const method of ["PATCH", "DELETE"] as const) {
      assert.equal((await t.ask({ method, url: `${url}/${team.id}`, payload: {}, key })).status, 403);
    }
  }
});

test("tags and values of another workspace answer like unknown ones and cannot be set on a deployment", async () => {
  const theirs = (await create({ name: "theirs", values: ["x"] }, stranger.adminKey)).body;
  const id = await createDeployment("own");
  for (const tagId of [theirs.id, randomUUID()]) {
    for (const [method, path] of [
      ["GET", ""],
      ["PATCH", ""],
      ["DELETE", ""],
      ["POST", "/values"],
    ] as const) {
      const payload = method === "GET" || method === "DELETE" ? {} : { payload: { name: "mine" } };
      const answer = await t.ask({ method, url: `${url}/${tagId}${path}`, ...payload });
      assert.deepEqual([answer.status, answer.body], [404, { detail: `Tag ID ${tagId} not found.` }], method);
    }
  }
  for (const valueId of [theirs.values[0].id, randomUUID()]) {
    const expected = [404, { detail: `Tag value ID ${valueId} not found.` }];
    const assigned = await put(id, [search, valueId]);
    assert.deepEqual([assigned.status, assigned.body], expected);
    const renamed = await t.ask({
      method: "PATCH",
      url: `${url}/${team.id}/values/${valueId}`,
      payload: { name: "mine" },
    });
    assert.deepEqual([renamed.status, renamed.body], expected);
    assert.deepEqual(await found([valueId]), []);
  }
  assert.deepEqual((await t.ask({ url: `/v2/admin/deployments/${id}/tags` })).body.tags, [], "all or nothing");
});

test("limits the tags, their values, and what a deployment carries", async () => {
  const refused = async (payload: object, key: string) => (await create(payload, key)).body.detail as string;
  const values = Array.from({ length: tagValuesMax + 1 }, (_, index) => `v${index}`);
  assert.match(await refused({ name: "long", values }, stranger.adminKey), /at most 200 values/);
  const full = (await create({ name: "full", values: values.slice(1) }, stranger.adminKey)).body;
  const payload = { name: "one more" };
  const more = await t.ask({ method: "POST", url: `${url}/${full.id}/values`, payload, key: stranger.adminKey });
  assert.match(more.body.detail, /at most 200 values/);
  const id = await createDeployment("loaded", stranger.adminKey);
  const ids = full.values.map((value: { id: string }) => value.id);
  assert.match(
    (await put(id, ids.slice(0, tagsOfDeploymentMax + 1), stranger.adminKey)).body.detail,
    /at most 50 tags/,
  );
  assert.equal((await put(id, ids.slice(0, tagsOfDeploymentMax), stranger.adminKey)).status, 200);
  const present = (await t.ask({ url: `${url}?limit=100`, key: stranger.adminKey })).body.resources.length;
  for (let count = present; count < tagsMax; count += 1) await create({ name: `t${count}` }, stranger.adminKey);
  assert.match(await refused({ name: "last" }, stranger.adminKey), /at most 50 tags in a workspace/);
});

test("returns the latest revision and the tags of many deployments in the order of the request", async () => {
  const [first, second] = [await createDeployment("summary-1"), await createDeployment("summary-2")];
  await put(first, [billing, live]);
  const foreign = await createDeployment("summary-3", stranger.adminKey);
  const address = `/v2/deployments/summaries?deployment_ids=${[second, foreign, first].join(",")}`;
  const { status, body } = await t.ask({ url: address, key: readerKey });
  assert.equal(status, 200);
  assert.deepEqual(
    body.deployments.map(({ deployment_id, tags }: { deployment_id: string; tags: { value: string }[] }) => [
      deployment_id,
      tags.map(({ value }) => value),
    ]),
    [
      [second, []],
      [first, ["live", "billing"]],
    ],
  );
  const own = await t.ask({ url: `/v2/deployments/${second}/revisions`, key: readerKey });
  assert.deepEqual(body.deployments[0].latest_revision, own.body.resources[0] ?? null);
  assert.equal((await t.ask({ url: "/v2/deployments/summaries", key: readerKey })).status, 422);
});
