import assert from "node:assert/strict";
import { test } from "node:test";
import { createDirectory, runCli } from "../cli/run-cli.ts";
import { postgresSkipped } from "../support/postgres-server.ts";
import { startRegion } from "../support/region.ts";
import { clientOf } from "./replicas.ts";
import { stepsRepository } from "./steps-repository.ts";

/** Longer than a cold install of the server and its packages on a loaded machine. Not a measurement. */
const timeoutMs = 400_000;

test("a LangGraph agent moves with its threads, and a run in progress goes on at the new address", async (context) => {
  await using us = await startRegion();
  await using eu = await startRegion();
  if (us === undefined || eu === undefined) return context.skip(postgresSkipped);
  await using repository = await stepsRepository();
  await using at = await createDirectory();
  const env = {
    ...{ PATH: process.env["PATH"], HOME: at.directory, PIERHEAD_CONFIG_DIR: at.directory },
    ...{ PIERHEAD_AGENT_POSTGRES_URL: us.postgres.url, PIERHEAD_TARGET_POSTGRES_URL: eu.postgres.url },
  };
  for (const [name, { server }] of Object.entries({ eu, us }))
    await runCli(["login", server.url, "--name", name, "--key"], { env, stdin: server.apiKey });
  const { client } = us.server;
  const made = await client.createDeployment({
    body: {
      ...{ name: "durable", source: "github" },
      source_config: { repo_url: repository.url, deployment_type: "prod", build_on_push: false, engine: "file" },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    },
  });
  const ids = { deployment_id: made.id };
  const settled = async (revisionId: string | null) => {
    const revision = await client.waitForRevision({ ...ids, revision_id: String(revisionId) }, { timeoutMs });
    assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  };
  await settled(made.latest_revision_id);
  const refused = await runCli(["move", "durable", "--to-context", "eu", "--context", "us", "--yes"], { env });
  assert.equal(refused.code, 1);
  assert.match(refused.stderr, /keeps its threads in files[\s\S]*pierhead change durable --engine postgres/);
  await settled(
    (await client.patchDeployment({ ...ids, body: { source_config: { engine: "postgres" } } })).latest_revision_id,
  );

  const { url } = await client.getDeployment(ids);
  const old = await clientOf(String(url));
  const { thread_id: kept } = await old.threads.create();
  await old.runs.wait(kept, "steps", { input: { total: 3 } });
  const history = await old.threads.getHistory(kept);
  const { thread_id: long } = await old.threads.create();
  const { run_id: longRun } = await old.runs.create(long, "steps", { input: { total: 20, ms: 3_000 } });

  const moved = await runCli(["move", "durable", "--to-context", "eu", "--context", "us", "--yes", "--json"], { env });
  assert.equal(moved.code, 0, moved.stderr);
  const there = await clientOf(JSON.parse(moved.stdout).to.url);
  assert.deepEqual(await there.threads.getHistory(kept), history);
  assert.deepEqual((await there.runs.wait(kept, "steps", { input: { total: 4 } })).done, [1, 2, 3, 4]);
  await assert.rejects(old.threads.create(), "the old address takes no threads");
  assert.deepEqual((await old.threads.getState(kept)).values.done, [1, 2, 3], "the old address still reads");
  await there.runs.join(long, longRun);
  const { values } = await there.threads.getState(long);
  assert.deepEqual(
    values.done,
    Array.from({ length: 20 }, (_, index) => index + 1),
  );
});
