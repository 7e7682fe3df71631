import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { saveArtifact } from "../../src/store/builds/artifacts.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { startApi } from "./harness.ts";

const t = await startApi();

const post = (url: string, payload?: object) => t.ask({ method: "POST", url, ...(payload && { payload }) });
const patch = (url: string, payload: object) => t.ask({ method: "PATCH", url, payload });

/** Creates a deployment of `main` with the variable A=1. */
async function create(changes: object = {}) {
  const { body } = await post("/v2/deployments", {
    name: `again-${randomUUID()}`,
    source: "github",
    source_config: { repo_url: "https://github.com/acme/bot", build_on_push: false },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    secrets: [{ name: "A", value: "1" }],
    ...changes,
  });
  return { id: body.id as string, url: `/v2/deployments/${body.id}`, first: body.latest_revision_id as string };
}

/** Ends the newest revision, as the reconciler would. A deployed one becomes the active one and knows its commit. */
async function end(id: string, status: string, commit = "a".repeat(40)): Promise<string> {
  const { rows } = await t.db.query<{ id: string }>(sql`
    update revisions r set status = ${status}, source_revision_config =
           r.source_revision_config || jsonb_build_object('repo_commit_sha', ${commit}::text)
      from deployments d where d.id = ${id} and r.id = d.latest_revision_id returning r.id`);
  const revisionId = rows[0]?.id as string;
  await t.db.query(sql`
    update deployments set status = 'READY',
           active_revision_id = case when ${status} = 'DEPLOYED' then ${revisionId}::uuid else active_revision_id end
     where id = ${id}`);
  return revisionId;
}

const newest = async (url: string) => (await t.ask({ url: `${url}/revisions?limit=1` })).body.resources[0];
const secretSetOf = async (revisionId: string) => {
  const { rows } = await t.db.query<{ secret_set_id: string }>(sql`
    select secret_set_id from revisions where id = ${revisionId}`);
  return rows[0]?.secret_set_id;
};
const actionsOf = async (id: string) => {
  const { rows } = await t.db.query<{ action: string; data: { secrets?: object } }>(sql`
    select action, data from audit_log where deployment_id = ${id} order by id desc limit 1`);
  return rows[0];
};

/** Makes a first revision of `main` with A=1, and a second of `dev` with A=2 and B; both were deployed. */
async function twice() {
  const made = await create();
  await end(made.id, "DEPLOYED");
  await patch(made.url, {
    source_revision_config: { repo_ref: "dev" },
    secrets: [
      { name: "A", value: "2" },
      { name: "B", value: "new" },
    ],
  });
  return { ...made, second: await end(made.id, "DEPLOYED", "b".repeat(40)) };
}

test("a rollback restores code and variables of the revision, after a preview that names what changes", async () => {
  const { id, url, first } = await twice();
  const preview = (await t.ask({ url: `${url}/revisions/${first}/rollback` })).body;
  assert.deepEqual(preview.variables, { added: [], removed: ["B"], changed: ["A"] });
  assert.deepEqual([preview.from.number, preview.to.number], [2, 1]);
  const fields = preview.changes.map(({ field, before, after }: Record<string, string>) => [field, before, after]);
  assert.deepEqual(fields, [
    ["source_revision_config.repo_ref", "dev", "main"],
    ["source_revision_config.repo_commit_sha", "b".repeat(40), "a".repeat(40)],
  ]);

  const { status, body } = await post(`${url}/revisions/${first}/rollback`);
  assert.equal(status, 200);
  assert.deepEqual(body.secrets, [{ name: "A", value: "1" }]);
  assert.equal(body.source_revision_config.repo_ref, "main");
  const revision = await newest(url);
  assert.deepEqual([revision.reason, revision.based_on], ["rollback", { id: first, number: 1 }]);
  assert.equal(await secretSetOf(revision.id), await secretSetOf(first), "the stored set itself");
  const row = await actionsOf(id);
  assert.equal(row?.action, "revision.rollback");
  assert.deepEqual(row?.data.secrets, { added: [], removed: ["B"], changed: ["A"] });
});

test("the preview lists variables that only a failed revision has set", async () => {
  const { id, url, first } = await twice();
  await patch(`${url}/variables`, { set: [{ name: "ADDED", value: "1" }] });
  await end(id, "DEPLOY_FAILED");
  const preview = (await t.ask({ url: `${url}/revisions/${first}/rollback` })).body;
  assert.deepEqual(preview.variables, { added: [], removed: ["ADDED", "B"], changed: ["A"] });
});

test("a rollback of only the code keeps the variables", async () => {
  const { url, first, second } = await twice();
  const preview = (await t.ask({ url: `${url}/revisions/${first}/rollback?code_only=true` })).body;
  assert.deepEqual(preview.variables, { added: [], removed: [], changed: [] });
  const { body } = await post(`${url}/revisions/${first}/rollback`, { code_only: true });
  assert.equal(body.source_revision_config.repo_ref, "main");
  assert.deepEqual(body.secrets.length, 2);
  const revision = await newest(url);
  assert.equal(await secretSetOf(revision.id), await secretSetOf(second));
});

test("a rollback restores resources, and refuses a revision that never served", async () => {
  const spec = (cpu: number) => ({ source_config: { resource_spec: { cpu } } });
  const { id, url, first } = await create({
    ...{ source: "external_docker", secrets: [], source_revision_config: { image_uri: "registry.example.org/bot:1" } },
    ...spec(1),
  });
  await end(id, "DEPLOYED");
  await patch(url, spec(4));
  const second = await end(id, "DEPLOY_FAILED");
  const refused = await post(`${url}/revisions/${second}/rollback`);
  assert.equal(refused.headers["x-pierhead-error"], "neverServed");
  const { body } = await post(`${url}/revisions/${first}/rollback`);
  assert.equal(body.source_config.resource_spec.cpu, 1);
});

test("a change of variables runs the code that serves, not the newest commit", async () => {
  const { id, url, first } = await create();
  await end(id, "DEPLOYED");
  await patch(url, { source_revision_config: { repo_ref: "broken" } });
  await end(id, "BUILD_FAILED", "c".repeat(40));
  const { body } = await patch(`${url}/variables`, { set: [{ name: "B", value: "2" }], remove: ["A"] });
  assert.deepEqual(body.secrets, [{ name: "B", value: "2" }]);
  assert.equal(body.source_revision_config.repo_ref, "broken", "the settings of the next deploy stay");
  const revision = await newest(url);
  assert.deepEqual([revision.reason, revision.based_on.id], ["variables", first]);
  assert.equal(revision.source_revision_config.repo_commit_sha, "a".repeat(40));
  const before = await newest(url);
  await patch(`${url}/variables`, { set: [{ name: "B", value: "2" }], remove: ["UNKNOWN"] });
  assert.equal((await newest(url)).id, before.id, "the same values change nothing");
  assert.deepEqual((await patch(`${url}/variables`, { remove: ["B"] })).body.secrets, [], "also the last one");
});

test("a change of variables while a revision is in progress runs the code of that revision", async () => {
  const { id, url } = await create();
  await end(id, "DEPLOYED");
  const { body } = await patch(url, { source_revision_config: { repo_ref: "dev" } });
  await patch(`${url}/variables`, { set: [{ name: "A", value: "3" }] });
  const revision = await newest(url);
  assert.deepEqual([revision.based_on.id, revision.source_revision_config.repo_ref], [body.latest_revision_id, "dev"]);
});

test("setting a variable that the newest revision lacked runs that revision's code, and setting another one does not", async () => {
  const { id, url } = await twice();
  await patch(url, { source_revision_config: { repo_ref: "next" } });
  const failed = await end(id, "DEPLOY_FAILED", "c".repeat(40));
  const failure = { code: "variables_missing", variables: ["KEY", "OTHER"] };
  await t.db.query(sql`update revisions set failure = ${JSON.stringify(failure)}::jsonb where id = ${failed}`);

  await patch(`${url}/variables`, { set: [{ name: "KEY", value: "k" }] });
  const revision = await newest(url);
  assert.equal(revision.source_revision_config.repo_ref, "next");
  assert.equal(revision.source_revision_config.repo_commit_sha, "c".repeat(40));
  await end(id, "DEPLOY_FAILED", "c".repeat(40));

  await patch(`${url}/variables`, { set: [{ name: "UNRELATED", value: "u" }] });
  assert.equal((await newest(url)).source_revision_config.repo_ref, "dev");
});

test("variables of a deployment without a revision are stored for its first one", async () => {
  const made = await create({ source: "internal_source", source_config: {}, source_revision_config: {} });
  const { body } = await patch(`${made.url}/variables`, { set: [{ name: "B", value: "2" }] });
  assert.equal(body.latest_revision_id, null);
  assert.deepEqual(body.secrets.length, 2);
});

test("the newest commit is deployed on request, after a rollback too", async () => {
  const { url, first } = await twice();
  await post(`${url}/revisions/${first}/rollback`);
  const { status, body } = await post(`${url}/deploy-latest`);
  assert.equal(status, 200);
  const revision = await newest(url);
  assert.equal(body.latest_revision_id, revision.id);
  const { repo_ref: ref, repo_commit_sha: commit } = revision.source_revision_config;
  assert.deepEqual([revision.reason, ref, commit], ["latest", "dev", null]);
  const made = await create({ source: "internal_source", source_config: {}, source_revision_config: {} });
  assert.equal((await post(`${made.url}/deploy-latest`)).headers["x-pierhead-error"], "latestNotApplicable");
});

test("a restart runs exactly what serves again, and only when no revision is in progress", async () => {
  const { id, url, first } = await create();
  assert.equal((await post(`${url}/restart`)).headers["x-pierhead-error"], "revisionInProgress");
  await end(id, "BUILD_FAILED");
  assert.equal((await post(`${url}/restart`)).headers["x-pierhead-error"], "nothingServes");
  await post(`${url}/retry`);
  const active = await end(id, "DEPLOYED");
  await patch(url, { secrets: [{ name: "A", value: "bad" }] });
  await end(id, "DEPLOY_FAILED");
  const { status, body } = await post(`${url}/restart`);
  assert.equal(status, 200);
  assert.deepEqual(body.secrets, [{ name: "A", value: "bad" }], "the settings of the deployment stay");
  const revision = await newest(url);
  assert.deepEqual([revision.reason, revision.based_on.id], ["restart", active]);
  assert.equal(await secretSetOf(revision.id), await secretSetOf(first));
  assert.equal((await actionsOf(id))?.action, "deployment.restart");
});

test("a retry runs the newest revision again with the current settings, if it failed", async () => {
  const { id, url, first } = await create();
  await end(id, "BUILD_FAILED");
  await patch(url, { source_config: { install_command: "npm ci" } });
  await end(id, "BUILD_FAILED");
  assert.equal((await post(`${url}/retry`)).status, 200);
  const revision = await newest(url);
  assert.deepEqual([revision.reason, revision.based_on.number], ["retry", 2]);
  assert.notEqual(revision.based_on.id, first);
  await end(id, "DEPLOYED");
  assert.equal((await post(`${url}/retry`)).headers["x-pierhead-error"], "nothingFailed");
});

test("a scale runs the code that serves with other numbers of replicas, and names why it cannot", async () => {
  const { id, url } = await twice();
  const scale = (to: string, body: object) => patch(`${to}/scale`, body);
  const { status, body } = await scale(url, { min_replicas: 3 });
  assert.equal(status, 200);
  assert.deepEqual(body.source_config.resource_spec, { min_scale: 3, max_scale: 3 });
  const revision = await newest(url);
  assert.deepEqual([revision.reason, revision.source_revision_config.repo_commit_sha], ["size", "b".repeat(40)]);
  assert.equal((await actionsOf(id))?.action, "deployment.scale");
  await scale(url, { min_replicas: 3, max_replicas: 3 });
  assert.equal((await newest(url)).id, revision.id, "the same numbers change nothing");
  await end(id, "DEPLOYED", "b".repeat(40));
  const changed = await patch(url, { source_revision_config: { repo_ref: "main" } });
  assert.deepEqual(changed.body.source_config.resource_spec, { min_scale: 3, max_scale: 3 }, "later deploys keep them");

  const development = await create({
    source_config: { repo_url: "https://github.com/acme/bot", build_on_push: false, deployment_type: "dev" },
  });
  const refused = await scale(development.url, { min_replicas: 2 });
  assert.equal(refused.headers["x-pierhead-error"], "cannotScale");
  assert.match(refused.body.detail, /type 'dev', which runs one replica/);
  assert.match((await scale(url, { min_replicas: 3, max_replicas: 2 })).body.detail, /must not be below min_replicas/);
  assert.match(
    (await scale(url, { min_replicas: 0, max_replicas: 3 })).body.detail,
    /type 'prod', which always runs a replica and never sleeps\. Scale it to 1-3\. .*'dev_zero', which sleeps and runs at most one/,
  );
  assert.equal((await scale(url, { min_replicas: -1 })).status, 422);
});

test("a scale of an agent with its state in memory names the databases that it lacks before the engine", async () => {
  const { id, url } = await create();
  const revision = await end(id, "DEPLOYED");
  const artifactId = await saveArtifact(t.db, t.tenant.tenantId, randomUUID(), {
    ...{ kind: "image", digest: "sha256:1", uri: "agent:1", health_path: "/ok", rollout: "handover", engine: "memory" },
  });
  await t.db.query(sql`update revisions set artifact_id = ${artifactId} where id = ${revision}`);
  const refused = async () => (await patch(`${url}/scale`, { min_replicas: 2 })).body.detail as string;
  assert.match(
    await refused(),
    /in its memory\. It has no database yet: set POSTGRES_URI_CUSTOM and REDIS_URI_CUSTOM first\. Change its engine to 'aegra'/,
  );
  await patch(`${url}/variables`, { set: [{ name: "POSTGRES_URI_CUSTOM", value: "postgres://db/agent" }] });
  assert.match(await refused(), /set REDIS_URI_CUSTOM first\./);
  const asleep = (await patch(`${url}/scale`, { min_replicas: 0, max_replicas: 3 })).body.detail as string;
  assert.match(asleep, /always runs a replica and never sleeps\. Deploy the source under a new name/);
});

test("a deployment without a type sleeps when its smallest number of replicas is 0, and one of type prod refuses that", async () => {
  const image = { image_uri: "registry.example/agent:1" };
  const resource_spec = { min_scale: 0, max_scale: 3 };
  const made = { source: "external_docker", source_revision_config: image, secrets: [] };
  const { url } = await create({ ...made, source_config: { resource_spec } });
  const spec = async () => (await t.ask({ url })).body.source_config.resource_spec;
  assert.deepEqual([(await spec()).min_scale, (await spec()).max_scale], [0, 3]);
  const scaled = await patch(`${url}/scale`, { min_replicas: 2 });
  assert.equal(scaled.body.source_config.resource_spec.min_scale, 2);
  const asleep = await patch(`${url}/scale`, { min_replicas: 0 });
  const { min_scale, max_scale } = asleep.body.source_config.resource_spec;
  assert.deepEqual([min_scale, max_scale], [0, 1]);

  const { id: _, url: typed } = await create();
  const refused = await patch(typed, { source_config: { resource_spec: { min_scale: 0 } } });
  assert.match(
    refused.body.detail,
    /min_scale' must be at least 1 for type 'prod'\. A deployment of type 'dev_zero' sleeps/,
  );
});

test("a scale refuses several replicas of local state, also while the next revision is built", async () => {
  const { id, url } = await twice();
  const artifactId = randomUUID();
  await t.db.query(sql`
    insert into artifacts (id, tenant_id, key, manifest)
    select ${artifactId}, tenant_id, ${artifactId}, '{"rollout":"handover","engine":"file"}' from deployments where id = ${id}`);
  await t.db.query(sql`
    update revisions r set artifact_id = ${artifactId} from deployments d where d.id = ${id} and r.id = d.active_revision_id`);
  const refused = async () => {
    const { status, headers, body } = await patch(`${url}/scale`, { min_replicas: 1, max_replicas: 2 });
    assert.deepEqual([status, headers["x-pierhead-error"]], [400, "cannotScale"]);
    assert.match(
      body.detail,
      /keeps threads and runs in files\. It has no database yet: set POSTGRES_URI_CUSTOM first\. Change its engine to 'postgres'/,
    );
  };
  await refused();
  await patch(url, { source_revision_config: { repo_ref: "main" } });
  assert.equal((await newest(url)).status, "CREATING");
  await refused();
});
