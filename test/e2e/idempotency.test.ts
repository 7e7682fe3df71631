import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import type { FaultPoint } from "../../src/store/engine/fault-points.ts";
import { type ServerProcess, startServerProcess } from "../storm/server-process.ts";
import { templateDirectory } from "../support/database-template.ts";
import { sharedCacheDir } from "../support/server.ts";

interface Sent {
  method: string;
  path: string;
  body?: object;
}

const image = (tag: string) => ({ source_revision_config: { image_uri: `registry.example/team/agent:${tag}` } });
const creation = { name: "once", source: "external_docker", source_config: { resource_spec: {} }, ...image("1") };

test("replays the response of a request whose server was killed before it answered, without a second effect", async () => {
  const dataDir = await mkdtemp(path.join(tmpdir(), "pierhead-once-"));
  try {
    const first = await killedAt(dataDir, "deployment created", {
      method: "POST",
      path: "/v2/deployments",
      body: creation,
    });
    const made = first.answer as Deployment;
    assert.equal(first.deployments.length, 1);
    const at = `/v2/deployments/${made.id}`;
    const changed = await killedAt(dataDir, "settings changed", { method: "PATCH", path: at, body: image("2") });
    assert.equal(
      (changed.answer as Deployment).source_revision_config.image_uri,
      image("2").source_revision_config.image_uri,
    );
    assert.equal(changed.revisions.length, 2);
    const removed = await killedAt(dataDir, "delete requested", { method: "DELETE", path: at });
    assert.equal(removed.answer, "");
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
});

/** Sends a request to a server that dies at the fault point, then sends it twice to the next server. */
async function killedAt(dataDir: string, faultPoint: FaultPoint, sent: Sent) {
  const key = randomUUID();
  const dying = (await start(dataDir, { PIERHEAD_FAULT_POINT: faultPoint })) as ServerProcess;
  await assert.rejects(send(dying, sent, key), /fetch failed/);
  assert.equal((await dying.ended).signal, "SIGKILL");
  const next = (await start(dataDir, {})) as ServerProcess;
  try {
    const [again, later] = [await send(next, sent, key), await send(next, sent, key)];
    assert.ok(again.status < 300, `${faultPoint}: ${again.text}`);
    assert.equal(again.replayed, "true");
    assert.deepEqual(later, again);
    const deployments = await list(next, "/v2/deployments");
    const revisions = await list(next, `/v2/deployments/${deployments[0]?.id}/revisions`);
    return { answer: again.text === "" ? "" : JSON.parse(again.text), deployments, revisions };
  } finally {
    await next.stop();
  }
}

async function start(dataDir: string, environment: Record<string, string>): Promise<ServerProcess | undefined> {
  return startServerProcess(dataDir, {
    PORT: "0",
    PIERHEAD_COMPUTE: "none",
    PIERHEAD_CACHE_DIR: sharedCacheDir,
    PIERHEAD_DATABASE_TEMPLATE_DIR: await templateDirectory(),
    ...environment,
  });
}

async function send(server: ServerProcess, { method, path, body }: Sent, key: string) {
  const response = await fetch(server.url + path, {
    method,
    headers: { "x-api-key": server.apiKey, "idempotency-key": key, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const replayed = response.headers.get("idempotency-replayed");
  return { status: response.status, text: await response.text(), replayed };
}

async function list(server: ServerProcess, url: string): Promise<{ id: string }[]> {
  const response = await fetch(server.url + url, { headers: { "x-api-key": server.apiKey } });
  return ((await response.json()) as { resources?: { id: string }[] }).resources ?? [];
}
