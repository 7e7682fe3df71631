import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { type AgentRepository, createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer } from "../support/server.ts";

const fromGit = (repository: AgentRepository, type: "dev" | "dev_zero") => ({
  body: {
    name: "agent",
    source: "github" as const,
    source_config: { repo_url: repository.url, deployment_type: type, build_on_push: false },
    source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
  },
});

test("agents keep running while Pierhead restarts, and the next server finds them", async () => {
  await using pierhead = await startTestServer();
  await using repository = await createAgentRepository();
  const made = await pierhead.client.createDeployment(fromGit(repository, "dev"));
  const ids = { deployment_id: made.id };
  const revision = await pierhead.client.waitForRevision({ ...ids, revision_id: made.latest_revision_id as string });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  const ask = async () => {
    const { url } = await pierhead.client.getDeployment(ids);
    return (await fetch(`${url}/version`)).json() as Promise<{ version: string; pid: number }>;
  };
  const before = await ask();
  await pierhead.restart();
  const after = await eventually(ask, (answer) => answer.pid !== undefined, { what: "the route of the agent" });
  assert.deepEqual(after, before, "the same process must answer");
});

test("restarts a build that was running when Pierhead stopped, and notes it in the build log", async () => {
  await using pierhead = await startTestServer();
  const gate = path.join(pierhead.dataDir, "may-go-on");
  const waits = `const gate = ${JSON.stringify(gate)}; console.log("waiting"); setInterval(() => require("fs").existsSync(gate) && process.exit(), 50)`;
  await using repository = await createAgentRepository({
    ...nodeAgent("one"),
    "pierhead.json": JSON.stringify({ build: ["node", "-e", waits], start: ["node", "server.js"] }),
  });
  const made = await pierhead.client.createDeployment(fromGit(repository, "dev"));
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const log = () => pierhead.client.tailLogs({ ...ids, type: "build" }, 1_000);
  const said = async (text: string) => (await log()).filter(({ message }) => message === text).length;
  await eventually(
    () => said("waiting"),
    (count) => count === 1,
  );
  await pierhead.restart();
  await writeFile(gate, "");
  const revision = await pierhead.client.waitForRevision(ids);
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  assert.equal(await said("waiting"), 2);
  assert.equal(await said("This server is stopping. The build starts again on the next one."), 1);
  assert.deepEqual(
    (await log()).filter(({ level }) => level === "ERROR"),
    [],
  );
});

test("puts an idle scale-to-zero deployment to sleep, and the next request wakes it", async () => {
  await using pierhead = await startTestServer({ PIERHEAD_IDLE_AFTER_MS: "1000" });
  const made = await pierhead.client.createDeployment({
    body: {
      name: "sleeper",
      source: "internal_template",
      source_config: { template_id: "node-server", deployment_type: "dev_zero" },
      source_revision_config: {},
    },
  });
  const ids = { deployment_id: made.id };
  const revision = await pierhead.client.waitForRevision({ ...ids, revision_id: made.latest_revision_id as string });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  const observed = async () =>
    (await pierhead.client.debugDeployment(ids)).observed as { asleep: boolean; replicas: unknown[] };
  await eventually(observed, (report) => report.asleep && report.replicas.length === 0, { what: "asleep" });
  const { url } = await pierhead.client.getDeployment(ids);
  assert.equal((await fetch(`${url}/ok`)).status, 200);
  assert.equal((await observed()).replicas !== undefined, true);
});

test("answers 503 with Retry-After to a request that waits for an agent to wake when Pierhead stops", async () => {
  await using pierhead = await startTestServer({ PIERHEAD_IDLE_AFTER_MS: "1000" });
  const isSlow = path.join(pierhead.dataDir, "starts-slowly");
  const starts = `const slow = require("node:fs").existsSync(${JSON.stringify(isSlow)});
    setTimeout(() => require("node:http").createServer((_, answer) => answer.end()).listen(process.env.PORT, "127.0.0.1"), slow ? 60000 : 0);`;
  await using repository = await createAgentRepository({ ...nodeAgent("one"), "server.js": starts });
  const made = await pierhead.client.createDeployment(fromGit(repository, "dev_zero"));
  const ids = { deployment_id: made.id };
  const revision = await pierhead.client.waitForRevision({ ...ids, revision_id: made.latest_revision_id as string });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  await writeFile(isSlow, "");
  const observed = async () => (await pierhead.client.debugDeployment(ids)).observed as { asleep: boolean };
  await eventually(observed, ({ asleep }) => asleep, { what: "asleep" });
  const { url } = await pierhead.client.getDeployment(ids);
  const waiting = fetch(`${url}/ok`);
  await eventually(observed, ({ asleep }) => !asleep, { what: "awake" });
  await pierhead.restart();
  const answer = await waiting;
  assert.deepEqual([answer.status, answer.headers.get("retry-after")], [503, "5"]);
});

test("reports no resync corrections in the metrics after a deploy", async () => {
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "simulated", PIERHEAD_RESYNC_INTERVAL_MS: "200" });
  const made = await pierhead.client.createDeployment({
    body: {
      name: "agent",
      source: "internal_docker",
      source_config: { deployment_type: "dev" },
      source_revision_config: { image_uri: "example/agent:1" },
    },
  });
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  assert.equal((await pierhead.client.waitForRevision(ids)).status, "DEPLOYED");
  const metrics = () => fetch(`${pierhead.url}/metrics`).then((answer) => answer.text());
  const isConverged = (text: string) => /^pierhead_reconcile_passes_total\{outcome="converged"\} [1-9]/m.test(text);
  const text = await eventually(metrics, isConverged, { what: "a converged pass" });
  assert.match(text, /^pierhead_resync_corrections_total 0$/m);
});

test("a redeploy reuses the artifact and explains this in its build log", async () => {
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
  const { client } = pierhead;
  const made = await client.createDeployment({
    body: {
      name: "agent",
      source: "internal_template",
      source_config: { template_id: "node-server", deployment_type: "dev" },
      source_revision_config: {},
    },
  });
  const first = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  assert.equal((await client.waitForRevision(first)).status, "DEPLOYED");
  const again = await client.redeployRevision(first);
  const second = { deployment_id: made.id, revision_id: again.latest_revision_id as string };
  assert.equal((await client.waitForRevision(second)).status, "DEPLOYED");
  const { logs } = await client.getRevisionLogs({ ...second, type: "build" });
  assert.deepEqual(
    logs.map(({ message }) => message),
    ["This source was built before: reusing its artifact."],
  );
});
