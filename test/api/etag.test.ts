import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { eachDatabase } from "../support/database.ts";
import { startApi, startApiOn, type TestApi } from "./harness.ts";

const t = await startApi();

async function make(api: TestApi = t) {
  const payload = {
    name: `tagged-${randomUUID()}`,
    source: "external_docker",
    source_config: { resource_spec: {} },
    source_revision_config: { image_uri: "registry.example/team/agent:1" },
  };
  const { body } = await api.ask({ method: "POST", url: "/v2/deployments", payload });
  const at = `/v2/deployments/${body.id}`;
  return { at, revisionAt: `${at}/revisions/${body.latest_revision_id}`, id: body.id as string };
}

const patch = (api: TestApi, at: string, ifMatch: string, payload: object = { display_name: randomUUID() }) =>
  api.ask({ method: "PATCH", url: at, headers: { "if-match": ifMatch }, payload });

const tagAt = async (api: TestApi, url: string) => String((await api.ask({ url })).headers["etag"]);

test("the ETag of a deployment and of a revision changes exactly when they change", async () => {
  const { at, revisionAt, id } = await make();
  for (const url of [at, revisionAt]) {
    const tag = await tagAt(t, url);
    assert.match(tag, /^"[\w-]+"$/);
    assert.equal(await tagAt(t, url), tag);
  }
  const [deployment, revision] = [await tagAt(t, at), await tagAt(t, revisionAt)];
  await t.db.query(sql`update revisions set status = 'QUEUED' where deployment_id = ${id}`);
  assert.notEqual(await tagAt(t, revisionAt), revision);
  assert.equal(await tagAt(t, at), deployment);
  const changed = await t.ask({ method: "PATCH", url: at, payload: { secrets: [{ name: "A", value: "1" }] } });
  assert.notEqual(changed.headers["etag"], deployment);
  assert.equal(changed.headers["etag"], await tagAt(t, at));
});

test("a GET with the current ETag answers 304 without a body, and in full after a change", async () => {
  const { at, revisionAt } = await make();
  for (const url of [at, revisionAt]) {
    const tag = await tagAt(t, url);
    for (const sent of [tag, `W/${tag}`, `"other", ${tag}`, "*"]) {
      const { status, text, headers } = await t.ask({ url, headers: { "if-none-match": sent } });
      assert.deepEqual([status, text, headers["etag"]], [304, "", tag], sent);
    }
    assert.equal((await t.ask({ url, headers: { "if-none-match": '"other"' } })).status, 200);
  }
  const tag = await tagAt(t, at);
  await t.ask({ method: "PATCH", url: at, payload: { display_name: "renamed" } });
  assert.equal((await t.ask({ url: at, headers: { "if-none-match": tag } })).body.display_name, "renamed");
});

test("rejects a change that was made for an older state with 412, for every operation, and changes nothing", async () => {
  for (const [method, under] of [
    ["PATCH", ""],
    ["POST", "/revisions"],
    ["POST", "/redeploy"],
    ["DELETE", ""],
  ] as const) {
    const { at, revisionAt, id } = await make();
    const old = await tagAt(t, at);
    await t.ask({ method: "PATCH", url: at, payload: { display_name: "meanwhile" } });
    await t.db.query(sql`update revisions set status = 'INTERRUPTED' where deployment_id = ${id}`);
    const url = under === "/redeploy" ? revisionAt + under : at + under;
    const send = (ifMatch: string) =>
      t.ask({ method, url, headers: { "if-match": ifMatch }, ...(method !== "DELETE" && { payload: {} }) });
    const now = await tagAt(t, at);
    const refused = await send(old);
    assert.equal(refused.status, 412, url);
    assert.match(refused.body.detail, /Read it again/);
    assert.equal(await tagAt(t, at), now);
    const done = await send(`"other", ${now}`);
    assert.ok(done.status < 300, done.text);
  }
});

test("a weak ETag does not match a change", async () => {
  const { at } = await make();
  assert.equal((await patch(t, at, `W/${await tagAt(t, at)}`)).status, 412);
});

test("ETags reveal nothing about deployments of other workspaces", async () => {
  const { at, id } = await make();
  const refused = await t.ask({
    method: "PATCH",
    url: at,
    headers: { "if-match": await tagAt(t, at) },
    payload: {},
    key: t.stranger.adminKey,
  });
  assert.deepEqual([refused.status, refused.body.detail], [404, `Deployment ID ${id} not found.`]);
});

eachDatabase("of many changes made at once for one state, exactly one is made", async (db) => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-etag-"));
  const api = await startApiOn(db, { dataDir });
  try {
    const { at } = await make(api);
    for (let round = 0; round < 10; round += 1) {
      const tag = await tagAt(api, at);
      const answers = await Promise.all(Array.from({ length: 8 }, () => patch(api, at, tag)));
      assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, ...Array(7).fill(412)]);
    }
  } finally {
    await api.api.close();
    api.deps.sealer.close();
    await rm(dataDir, { recursive: true, force: true });
  }
});
