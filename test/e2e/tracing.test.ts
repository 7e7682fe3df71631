import assert from "node:assert/strict";
import { test } from "node:test";
import { ApiFailure } from "../../src/client/client.ts";
import { readConfig } from "../../src/server/config.ts";
import { openTracing } from "../../src/server/langsmith-projects.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createAgentRepository } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { startTracingServer } from "../support/tracing-server.ts";

const config = (url: string) => ({
  PIERHEAD_TRACING: "langsmith",
  PIERHEAD_TRACING_URL: `${url}/`,
  PIERHEAD_TRACING_KEY: "ls-key",
});
const simulated = { PIERHEAD_COMPUTE: "simulated" };

const createNamed = ({ client }: TestServer, name: string) =>
  client.createDeployment({
    body: {
      name,
      source: "internal_template",
      source_config: { template_id: "node-server", deployment_type: "dev" },
      source_revision_config: {},
    },
  });

async function deploy(pierhead: TestServer, name: string) {
  const made = await createNamed(pierhead, name);
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const revision = await pierhead.client.waitForRevision(ids);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  return made;
}

const eventsOf = async ({ server }: TestServer, id: string) => {
  const { rows } = await server.db.query<{ kind: string; data: { message?: string } }>(sql`
    select kind, data from events where deployment_id = ${id} and kind like 'tracing.%' order by id`);
  return rows;
};
const refusal = async (work: Promise<unknown>) => {
  const error = await work.then(
    () => assert.fail("the server accepted the request"),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ApiFailure, String(error));
  return [error.status, error.message];
};

test("creates a tracing project with the deployment's name and gives the agent its endpoint and key", async () => {
  await using tracing = await startTracingServer();
  await using pierhead = await startTestServer(config(tracing.url));
  await using repository = await createAgentRepository();
  const made = await pierhead.client.createDeployment({
    body: {
      name: "support bot",
      source: "github",
      source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const revision = await pierhead.client.waitForRevision(ids);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  await eventually(
    async () => tracing.projects.get(made.tracer_session_id as string),
    (name) => name === "support bot",
    { what: "the project in the backend" },
  );
  const { url } = await pierhead.client.getDeployment(ids);
  const env = (await (await fetch(`${url}/env`)).json()) as Record<string, string>;
  assert.deepEqual(
    ["LANGSMITH_PROJECT", "LANGSMITH_TRACING", "LANGSMITH_ENDPOINT", "LANGSMITH_API_KEY"].map((name) => env[name]),
    ["support bot", "true", tracing.url, "ls-key"],
  );
  const { rows } = await pierhead.server.db.query<{ row: string }>(sql`select t::text as row from assignments t`);
  assert.ok(!rows.some(({ row }) => row.includes("ls-key")), "assignments must not contain the key");
});

test("rejects the name of a foreign tracing project, and the name of an existing deployment", async () => {
  await using tracing = await startTracingServer();
  await using pierhead = await startTestServer({ ...config(tracing.url), ...simulated });
  tracing.projects.set(crypto.randomUUID(), "by-hand");
  assert.deepEqual(await refusal(createNamed(pierhead, "by-hand")), [
    409,
    "Deployments create a tracing project in LangSmith with the same name as the deployment. " +
      "There already exists a project in LangSmith named: by-hand.",
  ]);
  await deploy(pierhead, "mine");
  await eventually(
    async () => tracing.projects.size,
    (size) => size === 2,
    { what: "the project" },
  );
  assert.deepEqual(await refusal(createNamed(pierhead, "mine")), [409, "A deployment named 'mine' already exists."]);
});

test("deploys while the backend is down, records an event, and creates the project when it is up", async () => {
  await using tracing = await startTracingServer();
  tracing.state = "away";
  await using pierhead = await startTestServer({ ...config(tracing.url), ...simulated });
  const { id, tracer_session_id: session } = await deploy(pierhead, "patient");
  const [failed] = await eventually(
    () => eventsOf(pierhead, id),
    (rows) => rows.length > 0,
    { what: "an event" },
  );
  assert.equal(failed?.kind, "tracing.failed");
  assert.match(failed?.data.message ?? "", /answered 503 when asked to create the project 'patient'/);
  tracing.state = "up";
  await eventually(
    async () => tracing.projects.get(session as string),
    (name) => name === "patient",
    {
      what: "the delayed project",
    },
  );
  const kinds = await eventually(
    async () => (await eventsOf(pierhead, id)).map(({ kind }) => kind),
    (rows) => rows.includes("tracing.project_ready"),
    { what: "the event of success" },
  );
  assert.deepEqual(kinds, ["tracing.failed", "tracing.project_ready"], "each reason must be recorded once");
});

test("keeps the project and its name when a deployment is deleted, unless the request deletes the project", async () => {
  await using tracing = await startTracingServer();
  await using pierhead = await startTestServer({ ...config(tracing.url), ...simulated });
  const { client } = pierhead;
  const kept = await deploy(pierhead, "kept");
  const dropped = await deploy(pierhead, "dropped");
  await eventually(
    async () => tracing.projects.size,
    (size) => size === 2,
    { what: "both projects" },
  );
  await client.deleteDeployment({ deployment_id: kept.id });
  await client.deleteDeployment({ deployment_id: dropped.id, delete_tracing_project: true });
  await Promise.all([kept, dropped].map(({ id }) => client.waitForDeletion({ deployment_id: id })));
  assert.deepEqual([...tracing.projects.values()], ["kept"], "the project must be deleted before the deployment");
  const [status, text] = await refusal(createNamed(pierhead, "kept"));
  assert.deepEqual([status, String(text).includes("tracing project")], [409, true]);
  const again = await createNamed(pierhead, "dropped");
  assert.equal(again.tracer_session_id, dropped.tracer_session_id);
});

test("without a backend, the project record outlives its deployment and does not block the name", async () => {
  await using pierhead = await startTestServer(simulated);
  const first = await createNamed(pierhead, "again");
  await pierhead.client.deleteDeployment({ deployment_id: first.id });
  await pierhead.client.waitForDeletion({ deployment_id: first.id });
  const second = await createNamed(pierhead, "again");
  assert.deepEqual([second.tracer_session_id !== null, second.tracer_session_id], [true, first.tracer_session_id]);
  const { rows } = await pierhead.server.db.query<{ deployment_id: string; status: string }>(sql`
    select deployment_id, status from tracing_projects`);
  assert.deepEqual(rows, [{ deployment_id: second.id, status: "ready" }]);
});

test("refuses to start with an incomplete tracing configuration and names the variable", () => {
  for (const url of ["", "collector:4318", "/v1"]) {
    const half = readConfig({ PIERHEAD_TRACING: "otlp", PIERHEAD_TRACING_URL: url });
    assert.throws(() => openTracing(half), /PIERHEAD_TRACING_URL must be an http or https URL/);
  }
});
