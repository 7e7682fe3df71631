import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { openProcessCompute } from "../../src/compute/process/process-compute.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { createAgentRepository, nodeAgent } from "../support/agent-repository.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";
import { startListenerProgram } from "./listener-program.ts";

const newKey = () => `ph_${randomBytes(6).toString("hex")}_${randomBytes(32).toString("base64url")}`;

async function newDirectory() {
  const directory = await mkdtemp(path.join(tmpdir(), "pierhead-listener-"));
  return {
    directory,
    async [Symbol.asyncDispose]() {
      const compute = await openProcessCompute({
        dataDir: directory,
        logger: createLogger("silent"),
        nodePath: process.execPath,
      });
      const signal = AbortSignal.timeout(20_000);
      for (const { replicaId } of await compute.observe(signal))
        await compute.remove(replicaId, { graceMs: 0, signal });
      await compute.close();
      await rm(directory, { recursive: true, force: true });
    },
  };
}

const resync = { PIERHEAD_RESYNC_INTERVAL_MS: "500" };

const deploy = async ({ client }: TestServer, repoUrl: string) => {
  const made = await client.createDeployment({
    body: {
      name: "remote",
      source: "github",
      source_config: { repo_url: repoUrl, deployment_type: "dev", build_on_push: false },
      source_revision_config: { repo_ref: "main", langgraph_config_path: "pierhead.json" },
      secrets: [{ name: "TOKEN", value: "only for the owner" }],
    },
  });
  const revision = await client.waitForRevision({
    deployment_id: made.id,
    revision_id: made.latest_revision_id as string,
  });
  assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
  return made;
};

test("keeps a real agent of a separate listener process running while the control plane is unavailable", async () => {
  const key = newKey();
  await using place = await newDirectory();
  await using repository = await createAgentRepository();
  const keyFile = path.join(place.directory, "key");
  await writeFile(keyFile, `${key}\n`);
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none", PIERHEAD_LISTENER_KEY: key, ...resync });
  const environment = {
    PIERHEAD_URL: pierhead.url,
    PIERHEAD_LISTENER_KEY_FILE: keyFile,
    PIERHEAD_COMPUTE: "process",
    PIERHEAD_DATA_DIR: place.directory,
  };
  const listener = await startListenerProgram(environment);
  try {
    await eventually(
      async () => (await fetch(`${listener.url}/ready`)).status,
      (status) => status === 200,
    );
    const made = await deploy(pierhead, repository.url);
    const deployment = await pierhead.client.getDeployment({ deployment_id: made.id });
    const { url } = deployment;
    assert.ok(url?.startsWith(`${listener.url}/d/remote`), url ?? "");
    const environmentOfAgent = (await (await fetch(`${url}/env`)).json()) as Record<string, string>;
    assert.equal(environmentOfAgent["TOKEN"], "only for the owner");
    assert.equal(environmentOfAgent["LANGGRAPH_API_URL"], url);
    assert.equal(listener.logged().includes("only for the owner"), false, "secrets are not logged");
    const ask = async () => (await fetch(`${url}/version`)).json() as Promise<{ pid: number; version: string }>;
    const { pid } = await ask();

    await pierhead.server.close();
    assert.equal((await ask()).pid, pid, "the agent answers without a control plane");
    await pierhead.restart();
    assert.equal((await ask()).pid, pid);
    await repository.commit(nodeAgent("two"));
    const { client } = pierhead;
    assert.notEqual(pierhead.url, environment.PIERHEAD_URL, "the server restarted on another port");
    await listener.stop();
    const health = async () => (await client.getDeployment({ deployment_id: made.id })).health;
    // Five minutes pass.
    await pierhead.server.db.query(sql`
      with resumed as (update clock set resumed_at = resumed_at - interval '6 minutes')
      update listeners set last_seen_at = now() - interval '6 minutes'`);
    const silent = await eventually(health, ({ status }) => status === "unknown", { what: "unknown" });
    assert.deepEqual([silent.reason, silent.next_action?.kind], ["ListenerLost", "check_listener"]);
    const again = await startListenerProgram({ ...environment, PIERHEAD_URL: pierhead.url });
    try {
      await eventually(health, ({ status }) => status === "live", { what: "live with a listener again" });
      const changed = await client.patchDeployment({
        deployment_id: made.id,
        body: { source_revision_config: { repo_ref: "main" } },
      });
      const revision = await client.waitForRevision({
        deployment_id: made.id,
        revision_id: changed.latest_revision_id as string,
      });
      assert.equal(revision.status, "DEPLOYED", revision.status_message ?? "");
      const { url } = await client.getDeployment({ deployment_id: made.id });
      assert.equal(((await (await fetch(`${url}/version`)).json()) as { version: string }).version, "two");
    } finally {
      await again.stop();
    }
  } finally {
    await listener.stop();
  }
});

test("reports a missing address, a missing key and a key that the control plane rejects", async () => {
  await using place = await newDirectory();
  const start = (environment: Record<string, string>) =>
    startListenerProgram({ PIERHEAD_COMPUTE: "simulated", PIERHEAD_DATA_DIR: place.directory, ...environment });
  await assert.rejects(start({}), /PIERHEAD_URL must be/);
  await assert.rejects(start({ PIERHEAD_URL: "http://127.0.0.1:1" }), /PIERHEAD_LISTENER_KEY/);
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none", PIERHEAD_LISTENER_KEY: newKey() });
  const listener = await start({ PIERHEAD_URL: pierhead.url, PIERHEAD_LISTENER_KEY: newKey() });
  try {
    await eventually(listener.logged, (text) => text.includes('"status":401'));
    assert.equal((await fetch(`${listener.url}/ready`)).status, 503);
    assert.equal((await fetch(`${listener.url}/ok`)).status, 200);
  } finally {
    await listener.stop();
  }
});

test("asks the control plane about callers of an agent, and accepts known ones while it is unavailable", async () => {
  const key = newKey();
  await using place = await newDirectory();
  await using repository = await createAgentRepository();
  await using pierhead = await startTestServer({
    PIERHEAD_COMPUTE: "none",
    PIERHEAD_LISTENER_KEY: key,
    PIERHEAD_ENDPOINT_AUTH: "true",
  });
  const listener = await startListenerProgram({
    PIERHEAD_URL: pierhead.url,
    PIERHEAD_LISTENER_KEY: key,
    PIERHEAD_COMPUTE: "process",
    PIERHEAD_DATA_DIR: place.directory,
  });
  try {
    const { id } = await deploy(pierhead, repository.url);
    const { url } = await pierhead.client.getDeployment({ deployment_id: id });
    const ask = async (apiKey?: string) =>
      (await fetch(`${url}/version`, { headers: apiKey === undefined ? {} : { "x-api-key": apiKey } })).status;
    assert.deepEqual([await ask(), await ask(newKey()), await ask(key)], [401, 401, 403]);
    assert.equal(await ask(pierhead.apiKey), 200);
    await pierhead.server.close();
    assert.deepEqual([await ask(pierhead.apiKey), await ask(newKey())], [200, 503]);
    await pierhead.restart();
  } finally {
    await listener.stop();
  }
});

test("refuses to start a listener on the data directory of a server and names the process that uses it", async () => {
  await using pierhead = await startTestServer({ PIERHEAD_COMPUTE: "none" });
  const environment = {
    ...{ PIERHEAD_URL: pierhead.url, PIERHEAD_LISTENER_KEY: newKey(), PIERHEAD_COMPUTE: "process" },
    PIERHEAD_DATA_DIR: pierhead.dataDir,
  };
  const inUse = /the data directory is in use by process \d+ \(lock file .*server\.lock\): stop it first/;
  await assert.rejects(startListenerProgram(environment), inUse);
});
