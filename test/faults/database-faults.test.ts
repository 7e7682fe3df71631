import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { startServerProcess } from "../storm/server-process.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { postgresSkipped, startPostgresServer } from "../support/postgres-server.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

const create = ({ client }: TestServer): Promise<Deployment> =>
  client.createDeployment({
    body: {
      name: `agent-${randomUUID()}`,
      source: "internal_docker",
      source_config: { deployment_type: "dev" },
      source_revision_config: { image_uri: "registry.example/team/agent:1" },
    },
  });

/** Creates deployments in three loops until `stop` is called, and records which ones were accepted and refused. */
function createAlways(pierhead: TestServer) {
  const stopping = new AbortController();
  const accepted: Deployment[] = [];
  const refused: unknown[] = [];
  const worker = async () => {
    while (!stopping.signal.aborted) {
      await create(pierhead).then(
        (made) => accepted.push(made),
        (error) => refused.push(error),
      );
    }
  };
  const working = Promise.all([worker(), worker(), worker()]);
  return {
    accepted,
    refused,
    async stop() {
      stopping.abort();
      await working;
    },
  };
}

/** Asserts that every accepted deployment exists once and is deployed. */
async function settledAll({ client }: TestServer, accepted: Deployment[]): Promise<void> {
  for (const { id, name } of accepted) {
    const { resources } = await eventually(
      () => client.listRevisions({ deployment_id: id }),
      ({ resources }) => resources.every(({ status }) => status === "DEPLOYED"),
      { timeoutMs: 120_000, what: `${name} serves` },
    );
    assert.equal(resources.length, 1);
  }
  const names = new Set<string>();
  for await (const { name } of client.all("listDeployments", {})) {
    assert.ok(!names.has(name));
    names.add(name);
  }
  for (const { name } of accepted) assert.ok(names.has(name), `${name} was accepted but is lost`);
}

test("neither loses nor duplicates accepted deployments when PostgreSQL crashes repeatedly", async (context) => {
  const postgres = await startPostgresServer({ durable: true });
  if (postgres === undefined) return context.skip(postgresSkipped);
  try {
    await using pierhead = await startTestServer({ DATABASE_URL: postgres.url, PIERHEAD_COMPUTE: "simulated" });
    const creating = createAlways(pierhead);
    for (let death = 1; death <= 5; death += 1) {
      await eventually(
        () => creating.accepted.length,
        (count) => count >= death * 5,
        { timeoutMs: 120_000, what: "creates are accepted" },
      );
      await postgres.crash();
    }
    const before = creating.accepted.length;
    await eventually(
      () => creating.accepted.length,
      (count) => count >= before + 5,
      { timeoutMs: 120_000, what: "creates are accepted after the last crash" },
    );
    await creating.stop();
    await settledAll(pierhead, creating.accepted);
  } finally {
    await postgres.stop();
  }
});

test("delays requests while the database is frozen for ten seconds, and neither loses nor repeats work", async (context) => {
  const postgres = await startPostgresServer();
  if (postgres === undefined) return context.skip(postgresSkipped);
  try {
    await using pierhead = await startTestServer({ DATABASE_URL: postgres.url, PIERHEAD_COMPUTE: "simulated" });
    const creating = createAlways(pierhead);
    await eventually(
      () => creating.accepted.length,
      (count) => count >= 5,
      { timeoutMs: 120_000, what: "creates are accepted" },
    );
    const frozen = postgres.freeze(10_000);
    assert.equal(
      (await fetch(`${pierhead.url}/ok`)).status,
      200,
      "requests that do not need the database must succeed",
    );
    await frozen;
    const before = creating.accepted.length;
    await eventually(
      () => creating.accepted.length,
      (count) => count >= before + 5,
      { timeoutMs: 120_000, what: "creates are accepted again" },
    );
    await creating.stop();
    assert.deepEqual(creating.refused, []);
    await settledAll(pierhead, creating.accepted);
  } finally {
    await postgres.stop();
  }
});

test("answers metrics within 8 seconds while the database is frozen or down", async (context) => {
  const postgres = await startPostgresServer();
  if (postgres === undefined) return context.skip(postgresSkipped);
  let isThere = true;
  try {
    await using pierhead = await startTestServer({ DATABASE_URL: postgres.url, PIERHEAD_COMPUTE: "none" });
    const readMetrics = async () => {
      const answer = await fetch(`${pierhead.url}/metrics`, { signal: AbortSignal.timeout(8_000) });
      assert.equal(answer.status, 200);
      assert.match(await answer.text(), /^pierhead_data_directory_free_bytes \d+$/m);
    };
    const frozen = postgres.freeze(10_000);
    await readMetrics();
    await frozen;
    await postgres.stop();
    isThere = false;
    await readMetrics();
  } finally {
    if (isThere) await postgres.stop();
  }
});

test("stops within 30 seconds while the database is frozen", async (context) => {
  const postgres = await startPostgresServer();
  if (postgres === undefined) return context.skip(postgresSkipped);
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-server-"));
  try {
    const environment = { PORT: "0", DATABASE_URL: postgres.url, PIERHEAD_COMPUTE: "simulated" };
    const server = await startServerProcess(dataDir, environment);
    assert.ok(server !== undefined);
    context.after(() => server.child.kill("SIGKILL"));
    const frozen = postgres.freeze(35_000);
    // After 3 s, every task that polls each second waits for the database.
    await sleep(3_000);
    server.child.kill("SIGTERM");
    const end = await Promise.race([server.ended, sleep(30_000, "it goes on", { ref: false })]);
    assert.deepEqual(end, { code: 0, signal: null }, server.logged());
    await frozen;
  } finally {
    await postgres.stop();
    await rm(dataDir, { recursive: true, force: true });
  }
});

test("does not repeat a build that ends while PostgreSQL crashes, and keeps its log", async (context) => {
  const postgres = await startPostgresServer();
  if (postgres === undefined) return context.skip(postgresSkipped);
  try {
    await using pierhead = await startTestServer({ DATABASE_URL: postgres.url });
    const build = "console.log('built at ' + process.pid); setTimeout(() => console.log('at its end'), 1500)";
    const manifest = JSON.stringify({ build: ["node", "-e", build], start: ["node", "server.js"] });
    await using repository = await createAgentRepository({ ...nodeAgent("one"), "pierhead.json": manifest });
    const { client } = pierhead;
    const { id, latest_revision_id } = await client.createDeployment({
      body: {
        name: "built-once",
        source: "github",
        source_config: { repo_url: repository.url, deployment_type: "dev", build_on_push: false },
        source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      },
    });
    const ids = { deployment_id: id, revision_id: latest_revision_id as string };
    const lines = async () =>
      (await client.getRevisionLogs({ ...ids, type: "build" })).logs.map(({ message }) => message);
    await eventually(lines, (all) => all.some((line) => /^built at/.test(line)), { timeoutMs: 120_000 });
    await new Promise((resolve) => setTimeout(resolve, 1_300));
    await postgres.crash();
    const revision = await eventually(
      () => client.getRevision(ids),
      ({ status }) => /DEPLOYED|FAILED/.test(status),
      {
        timeoutMs: 120_000,
      },
    );
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
    const marked = (await lines()).filter((line) => /^built at|^at its end/.test(line));
    assert.equal(marked.length, 2, marked.join("\n"));
  } finally {
    await postgres.stop();
  }
});
