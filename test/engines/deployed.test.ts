import assert from "node:assert/strict";
import { after, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../../src/client/client.ts";
import type { EngineChoice } from "../../src/contract/deployments/deployment.ts";
import type { DeploymentReport } from "../../src/contract/listeners/assignment.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { startPostgresServer } from "../support/postgres-server.ts";
import { startTestServer } from "../support/server.ts";
import { rollBesideLongRun } from "./long-run.ts";
import { clientOf } from "./replicas.ts";
import { stepsRepository } from "./steps-repository.ts";

/** Longer than a cold install of the server and its packages on a loaded machine. Not a measurement. */
const timeoutMs = 400_000;

/** Starts a server that gives deployments a PostgreSQL, which ends with this file. */
async function startServerWithPostgres(settings: Record<string, string> = {}) {
  const port = await freePort();
  const postgres = await startPostgresServer({ port });
  assert.ok(postgres);
  after(() => postgres.stop());
  return startTestServer({
    PIERHEAD_AGENT_POSTGRES_URL: postgres.url,
    PIERHEAD_AGENT_POSTGRES_ADDRESS: `127.0.0.1:${port}`,
    ...settings,
  });
}

function create(
  client: Client,
  repository: string,
  engine: EngineChoice | null = null,
  type: "prod" | "dev_zero" = "prod",
) {
  return client.createDeployment({
    body: {
      name: `durable-${type.replace("_", "-")}`,
      source: "github",
      source_config: {
        repo_url: repository,
        deployment_type: type,
        build_on_push: false,
        engine,
      },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "langgraph.json" },
    },
  });
}

test("an agent moves from files to PostgreSQL, runs as two replicas, and is updated without losing a run or a request", async (context) => {
  await using pierhead = await startServerWithPostgres();
  await using repository = await stepsRepository();
  const { client } = pierhead;
  const made = await create(client, repository.url, "file");
  const ids = { deployment_id: made.id };
  const settled = (revisionId: string | null) =>
    client.waitForRevision({ ...ids, revision_id: String(revisionId) }, { timeoutMs });
  const onFiles = await settled(made.latest_revision_id);
  assert.deepEqual([onFiles.status, onFiles.engine, onFiles.rollout], ["DEPLOYED", "file", "handover"]);
  const { url } = await client.getDeployment(ids);
  const agent = await clientOf(String(url));
  const { thread_id: moved } = await agent.threads.create();
  await agent.runs.wait(moved, "steps", { input: { total: 2 } });
  const history = await agent.threads.getHistory(moved);

  const changed = await client.patchDeployment({ ...ids, body: { source_config: { engine: "postgres" } } });
  const first = await settled(changed.latest_revision_id);
  assert.equal(first.status, "DEPLOYED", first.status_message ?? "");
  assert.deepEqual([first.engine, first.rollout], ["postgres", "rolling"]);
  const replicas = async () => {
    const report = (await client.debugDeployment(ids)).observed as DeploymentReport | null;
    return report?.replicas.filter(({ phase }) => phase === "ready") ?? [];
  };
  assert.deepEqual(await agent.threads.getHistory(moved), history);
  assert.deepEqual((await agent.runs.wait(moved, "steps", { input: { total: 3 } })).done, [1, 2, 3]);
  // One replica is enough for ten requests.
  const { thread_id: watched } = await agent.threads.create();
  const { run_id } = await agent.runs.create(watched, "steps", { input: { total: 20, ms: 5_000 } });
  const leave = new AbortController();
  const join = `${url}/threads/${watched}/runs/${run_id}/join`;
  const waiting = Array.from({ length: 15 }, () => fetch(join, { signal: leave.signal }).catch(() => {}));
  const two = await eventually(replicas, (ready) => ready.length > 1, { timeoutMs: 60_000, what: "two replicas" });
  leave.abort();
  await Promise.all(waiting);
  await agent.runs.cancel(watched, run_id, true);

  // What one replica has written, the other one answers.
  const [one, other] = await Promise.all(two.map(({ address }) => clientOf(`http://${address}`)));
  const { thread_id: kept } = await one.threads.create();
  await one.runs.wait(kept, "steps", { input: { total: 3 } });
  assert.deepEqual((await other.threads.getState(kept)).values.done, [1, 2, 3]);

  // Longer than the ten seconds that a replica waits for its runs.
  const { thread_id: long } = await agent.threads.create();
  const { run_id: longRun } = await agent.runs.create(long, "steps", {
    input: { total: 60, ms: 300 },
    config: { recursion_limit: 100 },
  });
  const stopping = new AbortController();
  const failures: string[] = [];
  let count = 0;
  const load = Array.from({ length: 3 }, async () => {
    while (!stopping.signal.aborted) {
      try {
        const { thread_id } = await agent.threads.create();
        const { done } = await agent.runs.wait(thread_id, "steps", { input: { total: 4, ms: 20 } });
        assert.deepEqual(done, [1, 2, 3, 4]);
        count += 1;
      } catch (error) {
        failures.push(String(error));
      }
      await sleep(50);
    }
  });
  await eventually(
    () => count + failures.length,
    (n) => n > 5,
    { what: "runs before the update" },
  );
  await repository.commit({ "CHANGE.md": "a second version" });
  const patched = await client.patchDeployment({ ...ids, body: { source_revision_config: { repo_ref: "main" } } });
  const second = await settled(patched.latest_revision_id);
  assert.equal(second.status, "DEPLOYED", second.status_message ?? "");
  const old = new Set(two.map(({ replica_id }) => replica_id));
  await eventually(replicas, (ready) => ready.length > 1 && ready.every(({ replica_id }) => !old.has(replica_id)), {
    timeoutMs: 90_000,
    what: "the end of the old replicas",
  });
  const before = count;
  await eventually(
    () => count + failures.length,
    (n) => n > before + 5,
    { what: "runs after the update" },
  );
  stopping.abort();
  await Promise.all(load);
  context.diagnostic(`${count} runs during the update`);
  assert.deepEqual(failures, []);

  await agent.runs.join(long, longRun);
  assert.equal((await agent.runs.get(long, longRun)).status, "success");
  const { values } = await agent.threads.getState(long);
  assert.deepEqual(
    values.done,
    Array.from({ length: 60 }, (_, index) => index + 1),
  );
  assert.deepEqual((await agent.threads.getState(kept)).values.done, [1, 2, 3]);
  await rollBesideLongRun({ client, deploymentId: made.id, repository, timeoutMs }, context);
});

test("a new deployment with a PostgreSQL runs on it unless it scales to zero, and returns to files on request", async () => {
  await using pierhead = await startServerWithPostgres();
  await using repository = await stepsRepository();
  const { client } = pierhead;
  const engineOf = async ({ id, latest_revision_id: revision }: { id: string; latest_revision_id: string | null }) => {
    const ids = { deployment_id: id, revision_id: String(revision) };
    const { status, status_message, engine, engine_because } = await client.waitForRevision(ids, { timeoutMs });
    assert.equal(status, "DEPLOYED", status_message ?? "");
    return [engine, engine_because];
  };
  const made = await create(client, repository.url);
  assert.deepEqual(await engineOf(made), ["postgres", "default"]);
  assert.deepEqual(await engineOf(await create(client, repository.url, null, "dev_zero")), ["file", "default"]);
  const choose = (engine: EngineChoice) =>
    client.patchDeployment({ deployment_id: made.id, body: { source_config: { engine } } });
  assert.deepEqual(await engineOf(await choose("file")), ["file", "deployment"]);
  assert.deepEqual(await engineOf(await choose("default")), ["file", "default"], "it stays on files");
});

test("an agent on PostgreSQL sleeps while nothing is due soon, and wakes for a delayed run and for a request", async () => {
  await using pierhead = await startServerWithPostgres({ PIERHEAD_IDLE_AFTER_MS: "4000" });
  await using repository = await stepsRepository();
  const { client } = pierhead;
  const made = await create(client, repository.url, "postgres", "dev_zero");
  const ids = { deployment_id: made.id };
  const revision = await client.waitForRevision(
    { ...ids, revision_id: String(made.latest_revision_id) },
    { timeoutMs },
  );
  assert.deepEqual([revision.status, revision.engine], ["DEPLOYED", "postgres"], revision.status_message ?? "");
  const agent = await clientOf(String((await client.getDeployment(ids)).url));
  const { thread_id } = await agent.threads.create();
  const input = { total: 2 };
  const { run_id } = await agent.runs.create(thread_id, "steps", { input, afterSeconds: 90 });
  const createdAtMs = Date.now();
  const observed = async () => {
    const report = (await client.debugDeployment(ids)).observed as DeploymentReport | null;
    return { asleep: report?.asleep === true, phases: report?.replicas.map(({ phase }) => phase) ?? [] };
  };
  const isAsleep = ({ asleep, phases }: Awaited<ReturnType<typeof observed>>) => asleep && phases.length === 0;
  await eventually(observed, isAsleep, { timeoutMs: 60_000, what: "a sleeping deployment" });
  const isUp = ({ asleep, phases }: Awaited<ReturnType<typeof observed>>) => !asleep && phases.includes("ready");
  // Nothing is asked of the agent meanwhile, because a request would wake it.
  await eventually(observed, isUp, { timeoutMs: 120_000, what: "a deployment that work has woken" });
  assert.ok(Date.now() - createdAtMs > 70_000, "it slept until shortly before the run was due");
  const ended = () => agent.runs.get(thread_id, run_id);
  await eventually(ended, ({ status }: { status: string }) => status === "success", {
    timeoutMs: 60_000,
    what: "the run",
  });
  await eventually(observed, isAsleep, { timeoutMs: 120_000, what: "a deployment that sleeps again" });
  assert.deepEqual((await agent.threads.getState(thread_id)).values.done, [1, 2]);
});

test("a deployment that chooses PostgreSQL, whatever its files say, is refused with the next step while it has none", async () => {
  await using pierhead = await startTestServer();
  await using repository = await stepsRepository("file");
  const made = await create(pierhead.client, repository.url, "postgres");
  const revision = await pierhead.client.waitForRevision(
    { deployment_id: made.id, revision_id: String(made.latest_revision_id) },
    { timeoutMs },
  );
  assert.equal(revision.status, "CREATE_FAILED", "nothing is built for it");
  assert.equal(revision.failure?.code, "engine_unavailable");
  assert.match(revision.status_message ?? "", /needs a PostgreSQL.*POSTGRES_URI_CUSTOM/);
});

test("an engine that does not exist for the language is refused by its name", async () => {
  await using pierhead = await startTestServer();
  const built = async (inFiles?: string, chosen?: EngineChoice) => {
    await using repository = await stepsRepository(inFiles);
    const { id, latest_revision_id } = await create(pierhead.client, repository.url, chosen);
    const ids = { deployment_id: id, revision_id: String(latest_revision_id) };
    const { status, status_message } = await pierhead.client.waitForRevision(ids, { timeoutMs });
    await pierhead.client.deleteDeployment({ deployment_id: id });
    await pierhead.client.waitForDeletion({ deployment_id: id });
    assert.equal(status, "BUILD_FAILED");
    return status_message ?? "";
  };
  assert.match(await built("memory"), /engine must be "file" or "postgres" for graphs in JavaScript/);
  assert.match(await built(undefined, "memory"), /chose engine "memory", but langgraph.json has graphs in JavaScript/);
});
