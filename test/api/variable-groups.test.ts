import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { sql } from "../../src/store/engine/sql.ts";
import { findSecretSet } from "../../src/store/secrets/secrets.ts";
import { startApi } from "./harness.ts";

const t = await startApi();
const groupsUrl = "/v2/variable-groups";

const call = (method: "POST" | "PATCH" | "PUT" | "DELETE", url: string, payload?: object, key?: string) =>
  t.ask({ method, url, ...(payload && { payload }), ...(key !== undefined && { key }) });

const variable = (name: string, value: string, is_secret?: boolean) => ({
  ...{ name, value },
  ...(is_secret !== undefined && { is_secret }),
});

async function createGroup(variables: object[] = [], name = `group-${randomUUID()}`) {
  const { status, body } = await call("POST", groupsUrl, { name, variables });
  assert.equal(status, 201);
  return { id: body.id as string, url: `${groupsUrl}/${body.id}`, name, body };
}

/** Creates a deployment with the variable OWN=own, whose first revision serves. */
async function createDeployment() {
  const { body } = await call("POST", "/v2/deployments", {
    name: `shared-${randomUUID()}`,
    source: "github",
    source_config: { repo_url: "https://github.com/acme/bot", build_on_push: false },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    secrets: [variable("OWN", "own")],
  });
  const made = { id: body.id as string, name: body.name as string, url: `/v2/deployments/${body.id}` };
  await serve(made.id);
  return made;
}

/** Ends the newest revision as deployed, as the reconciler would, and returns its id. */
async function serve(id: string): Promise<string> {
  const { rows } = await t.db.query<{ id: string }>(sql`
    update revisions r set status = 'DEPLOYED' from deployments d where d.id = ${id} and r.id = d.latest_revision_id
    returning r.id`);
  const revisionId = rows[0]?.id as string;
  await t.db.query(sql`
    update deployments set status = 'READY', active_revision_id = ${revisionId}::uuid where id = ${id}`);
  return revisionId;
}

const use = (url: string, ...ids: string[]) => call("PUT", `${url}/variable-groups`, { variable_group_ids: ids });

/** Returns what the newest revision runs with. */
async function valuesOf(deploymentId: string): Promise<Record<string, string>> {
  const { rows } = await t.db.query<{ secret_set_id: string }>(sql`
    select r.secret_set_id from deployments d join revisions r on r.id = d.latest_revision_id where d.id = ${deploymentId}`);
  const secretSetId = rows[0]?.secret_set_id as string;
  return (await findSecretSet(t.db, t.deps.sealer, { listenerId: null, deploymentId, secretSetId }))?.values ?? {};
}

test("a deployment runs with the variables of its groups: a later group wins, and its own variables win over all", async () => {
  const first = await createGroup([variable("A", "1"), variable("B", "1"), variable("OWN", "shared")]);
  const second = await createGroup([variable("B", "2")]);
  const { id, url } = await createDeployment();
  const { status, body } = await use(url, first.id, second.id);
  assert.equal(status, 200);
  assert.deepEqual(await valuesOf(id), { A: "1", B: "2", OWN: "own" });
  assert.deepEqual(body.secrets, [variable("OWN", "own")], "the variables of groups do not become its own");
  const { groups } = (await t.ask({ url: `${url}/variable-groups` })).body;
  assert.deepEqual(
    groups.map((group: { name: string }) => group.name),
    [first.name, second.name],
  );
  const { rows } = await t.db.query<{ action: string }>(sql`
    select action from audit_log where deployment_id = ${id} order by id desc limit 2`);
  assert.deepEqual(rows.map(({ action }) => action).sort(), ["deployment.variable_groups", "deployment.variables"]);
});

test("a changed group names the deployments without its values, and each gets them when its groups are set again", async () => {
  const group = await createGroup([variable("A", "1")]);
  const { id, name, url } = await createDeployment();
  const before = (await use(url, group.id)).body.latest_revision_id;
  const currentOf = async () => (await t.ask({ url: group.url })).body.deployments;
  assert.deepEqual(await currentOf(), [{ id, name, is_current: true }]);
  assert.equal((await use(url, group.id)).body.latest_revision_id, before, "nothing changed, so nothing is deployed");

  const changed = (await call("PATCH", group.url, { set: [variable("A", "2")] })).body;
  assert.deepEqual([changed.version, changed.deployments], [2, [{ id, name, is_current: false }]]);
  assert.deepEqual((await valuesOf(id))["A"], "1", "a revision never changes");
  await use(url, group.id);
  assert.deepEqual([(await valuesOf(id))["A"], await currentOf()], ["2", [{ id, name, is_current: true }]]);

  await use(url);
  assert.deepEqual([await valuesOf(id), await currentOf()], [{ OWN: "own" }, []]);
});

test("a rollback restores the values that the revision got from a group, and no value becomes the deployment's own", async () => {
  const group = await createGroup([variable("A", "1")]);
  const { id, url } = await createDeployment();
  await use(url, group.id);
  const old = await serve(id);
  await call("PATCH", group.url, { set: [variable("A", "2")], remove: [] });
  await use(url, group.id);
  await serve(id);
  const preview = (await t.ask({ url: `${url}/revisions/${old}/rollback` })).body;
  assert.deepEqual(preview.variables, { added: [], removed: [], changed: ["A"] });
  const { body } = await call("POST", `${url}/revisions/${old}/rollback`);
  assert.deepEqual([await valuesOf(id), body.secrets], [{ A: "1", OWN: "own" }, [variable("OWN", "own")]]);
  await serve(id);
  await call("POST", `${url}/restart`);
  assert.equal((await valuesOf(id))["A"], "1", "a restart keeps what serves");
  await serve(id);
  await call("PATCH", `${url}/variables`, { set: [variable("NEW", "n")] });
  assert.deepEqual(await valuesOf(id), { A: "2", OWN: "own", NEW: "n" }, "the next change takes the current values");
});

test("secrets of a group are never shown, are sealed in the database, and a change keeps them secret", async () => {
  const value = `hidden-${randomUUID()}`;
  const group = await createGroup([variable("KEY", value), variable("REGION", "eu", false)]);
  const shown = [
    { name: "KEY", value: null, is_secret: true },
    { name: "REGION", value: "eu", is_secret: false },
  ];
  assert.deepEqual(group.body.variables, shown);
  await call("PATCH", group.url, { set: [variable("KEY", `${value}2`)], name: `${group.name}-2` });
  const answers = [await t.ask({ url: group.url }), await t.ask({ url: `${groupsUrl}?limit=100` })];
  for (const { text } of answers) assert.ok(!text.includes(value));
  const { rows } = await t.db.query<{ row: string }>(sql`
    select g::text || (select string_agg(a::text, '') from audit_log a where a.subject_id = g.id) as row
      from variable_groups g where g.id = ${group.id}`);
  assert.ok(!rows[0]?.row.includes(value));
  const reserved = await call("PATCH", group.url, { set: [variable("POSTGRES_URI", "x")] });
  assert.equal(reserved.status, 400);
});

test("a used group cannot be deleted, and another workspace sees no group", async () => {
  const group = await createGroup([variable("A", "1")]);
  const { name, url } = await createDeployment();
  await use(url, group.id);
  const refused = await call("DELETE", group.url);
  assert.equal(refused.status, 409);
  assert.ok(refused.body.detail.includes(name));
  assert.equal((await call("POST", groupsUrl, { name: group.name })).status, 409);

  const key = t.stranger.adminKey;
  assert.equal((await t.ask({ url: group.url, key })).status, 404);
  assert.equal((await call("PATCH", group.url, { name: "mine" }, key)).status, 404);
  assert.equal((await call("DELETE", group.url, undefined, key)).status, 404);
  const foreign = (await call("POST", groupsUrl, { name: "theirs" }, key)).body;
  assert.equal((await use(url, foreign.id)).status, 404);

  await use(url);
  assert.equal((await call("DELETE", group.url)).status, 204);
});

test("the first revision of a new deployment has the variables of the groups that the request names", async () => {
  const first = await createGroup([variable("A", "1"), variable("OWN", "shared")]);
  const second = await createGroup([variable("A", "2")]);
  const create = (ids: string[], key?: string) =>
    call(
      "POST",
      "/v2/deployments",
      {
        name: `grouped-${randomUUID()}`,
        source: "github",
        source_config: { repo_url: "https://github.com/acme/bot", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
        secrets: [variable("OWN", "own")],
        variable_group_ids: ids,
      },
      key,
    );
  const { status, body, text } = await create([first.id, second.id]);
  assert.equal(status, 201, text);
  assert.deepEqual(await valuesOf(body.id), { A: "2", OWN: "own" });
  assert.deepEqual(body.secrets, [variable("OWN", "own")]);
  const users = (await t.ask({ url: second.url })).body.deployments;
  assert.deepEqual(users, [{ id: body.id, name: body.name, is_current: true }]);
  const { rows } = await t.db.query(sql`
    select from revisions where deployment_id = ${body.id}`);
  assert.equal(rows.length, 1, "nothing is deployed a second time");

  const refused = await create([randomUUID()]);
  assert.equal(refused.status, 404);
  const { body: list } = await t.ask({ url: "/v2/deployments?name_contains=grouped-" });
  assert.equal(list.resources.length, 1, "a refused request makes no deployment");
});
