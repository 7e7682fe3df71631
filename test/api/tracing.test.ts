import assert from "node:assert/strict";
import { after, test } from "node:test";
import { langsmithProjects } from "../../src/integrations/langsmith-projects.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { startTracingServer } from "../support/tracing-server.ts";
import { startApi } from "./harness.ts";

const tracing = await startTracingServer();
after(() => tracing[Symbol.asyncDispose]());
const t = await startApi({}, { tracing: langsmithProjects({ url: tracing.url, key: "ls-key", workspaceId: null }) });

const create = (name: string, more: Parameters<typeof t.ask>[0] = {}) =>
  t.ask({
    method: "POST",
    url: "/v2/deployments",
    payload: { name, source: "internal_docker", source_config: {}, source_revision_config: {} },
    ...more,
  });
const taken = (name: string) => ({
  detail:
    "Deployments create a tracing project in LangSmith with the same name as the deployment. " +
    `There already exists a project in LangSmith named: ${name}.`,
});

test("two workspaces may use one name: their tracing projects get different names, and neither learns of the other", async () => {
  const first = await create("shared", { key: t.stranger.adminKey });
  tracing.projects.set(first.body.tracer_session_id, "shared");
  const second = await create("shared");
  assert.deepEqual([first.status, second.status], [201, 201]);
  assert.notEqual(second.body.tracer_session_id, first.body.tracer_session_id);
  const { rows } = await t.db.query<{ project: string; status: string }>(sql`
    select project, status from tracing_projects where name = 'shared' order by created_at`);
  assert.deepEqual(rows[0], { project: "shared", status: "wanted" });
  assert.match(rows[1]?.project ?? "", /^shared-[0-9a-f]{8}$/);
});

test("workspaces that take one name at the same moment all succeed", async () => {
  const keys = [t.tenant.adminKey, t.stranger.adminKey, t.tenant.adminKey, t.stranger.adminKey];
  const answers = await Promise.all(keys.map((key) => create("at-once", { key })));
  assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 201, 409, 409]);
});

test("refuses the name of an existing project, and of one that may remain from us while the backend is unreachable", async () => {
  tracing.projects.set(crypto.randomUUID(), "foreign");
  const refused = await create("foreign");
  assert.deepEqual([refused.status, refused.body], [409, taken("foreign")]);
  tracing.state = "away";
  assert.equal((await create("unasked")).status, 201);
  await t.db.query(sql`update tracing_projects set deployment_id = null where name = 'unasked'`);
  await t.db.query(sql`delete from deployments where name = 'unasked'`);
  const left = await create("unasked");
  assert.deepEqual([left.status, left.body], [409, taken("unasked")]);
  tracing.state = "up";
  assert.equal((await create("unasked")).status, 201, "it was never created there");
});

test("checks rules and taken names before it asks the backend", async () => {
  const before = tracing.calls.length;
  assert.equal((await create("-bad-")).status, 400);
  assert.deepEqual((await create("shared")).body, { detail: "A deployment named 'shared' already exists." });
  assert.equal(tracing.calls.length, before);
});

test("replays a create although its project exists by now", async () => {
  const headers = { "idempotency-key": "tracing-1" };
  const first = await create("repeated", { headers });
  tracing.projects.set(first.body.tracer_session_id, "repeated");
  const again = await create("repeated", { headers });
  assert.deepEqual([again.status, again.body], [201, first.body]);
});
