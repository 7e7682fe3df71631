import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { test } from "node:test";
import { createClient } from "../../src/client/client.ts";
import type { Deployment } from "../../src/contract/deployments/deployment.ts";
import { appendLogEntries } from "../../src/store/logs/log-entries.ts";
import { moveRevision } from "../../src/store/revisions/revisions.ts";
import { eventually } from "../support/eventually.ts";
import { startTestServer, type TestServer } from "../support/server.ts";

/** Starts a server without compute, so that only the tests make changes. */
const start = () => startTestServer({ PIERHEAD_COMPUTE: "none" });

function create({ client }: TestServer, name = `watched-${randomUUID()}`): Promise<Deployment> {
  return client.createDeployment({
    body: {
      name,
      source: "external_docker",
      source_config: { resource_spec: {} },
      source_revision_config: { image_uri: "registry.example/team/agent:1" },
    },
  });
}

const rename = ({ client }: TestServer, { id }: Deployment) =>
  client.patchDeployment({ deployment_id: id, body: { display_name: randomUUID() } });

test("delivers every event to a watcher once and in order across server restarts", async () => {
  await using pierhead = await start();
  const made = await create(pierhead);
  const abort = new AbortController();
  const ids: number[] = [];
  let opened = 0;
  const port = new URL(pierhead.url).port;
  const watching = (async () => {
    for await (const watched of pierhead.client.watchEvents({ deployment_id: made.id, after: "0" }, abort.signal)) {
      if (watched.kind === "open") opened += 1;
      if (watched.kind === "event") ids.push(Number(watched.event.id));
    }
  })().catch((error: unknown) => {
    if (!abort.signal.aborted) throw error;
  });
  const openedAgain = (times: number) =>
    eventually(
      () => opened,
      (count) => count >= times,
    );
  await openedAgain(1);
  for (let round = 0; round < 2; round += 1) {
    for (let i = 0; i < 5; i += 1) await rename(pierhead, made);
    await pierhead.restart({ PORT: port });
    for (let i = 0; i < 5; i += 1) await rename(pierhead, made);
    await openedAgain(round + 2);
  }
  const { events } = await pierhead.client.listDeploymentEvents({ deployment_id: made.id });
  await eventually(
    () => ids,
    (found) => found.length >= events.length,
  );
  abort.abort();
  await watching;
  assert.ok(events.length >= 21, `${events.length} events`);
  assert.deepEqual(
    ids,
    events.map(({ id }) => Number(id)),
  );
});

test("waiting for a revision reads it after events instead of polling it", async () => {
  await using pierhead = await start();
  const made = await create(pierhead);
  const ids = { deployment_id: made.id, revision_id: made.latest_revision_id as string };
  const calls: string[] = [];
  const client = createClient({
    baseUrl: pierhead.url,
    apiKey: pierhead.apiKey,
    onCall: ({ url }) => calls.push(new URL(url).pathname),
  });
  const beganAt = Date.now();
  const waiting = client.waitForRevision(ids);
  const { status: from } = await eventually(
    () => pierhead.client.getRevision(ids),
    ({ status }) => status === "DEPLOYING",
    { timeoutMs: 60_000 },
  );
  const revision = { id: ids.revision_id, deploymentId: made.id };
  await moveRevision(pierhead.server.db, revision, { from, to: "INTERRUPTED", because: "test", deadlineAt: null });
  assert.equal((await waiting).status, "INTERRUPTED");
  const { events } = await pierhead.client.listDeploymentEvents({ deployment_id: made.id });
  const reads = calls.filter((path) => path.endsWith(ids.revision_id)).length;
  const most = events.length + 3 + Math.ceil((Date.now() - beganAt) / 10_000);
  assert.ok(reads <= most, `${reads} reads of ${events.length} events: ${calls.join()}`);
});

test("delivers followed log lines as they are written, and ends a wait for a deletion", async () => {
  await using pierhead = await start();
  const made = await create(pierhead);
  const write = (message: string) =>
    appendLogEntries(pierhead.server.db, [
      {
        ...{ deployment_id: made.id, revision_id: made.latest_revision_id as string, kind: "deploy", message },
        ...{ replica_id: null, stream: "stdout", level: "INFO", logged_at: new Date(), line_key: null },
      },
    ]);
  for (let i = 0; i < 5; i += 1) await write(`line ${i}`);
  const abort = new AbortController();
  const lines: string[] = [];
  const question = { deployment_id: made.id, type: "deploy" as const, query: "LINE" };
  const following = (async () => {
    const options = { tail: 2, intervalMs: 600_000, signal: abort.signal };
    for await (const { message } of pierhead.client.followLogs(question, options)) lines.push(message);
  })().catch((error: unknown) => {
    if (!abort.signal.aborted) throw error;
  });
  await eventually(
    () => lines,
    ({ length }) => length === 2,
  );
  for (let i = 5; i < 60; i += 1) {
    await write(`line ${i}`);
    await write("other");
  }
  await eventually(
    () => lines,
    ({ length }) => length >= 57,
  );
  abort.abort();
  await following;
  assert.deepEqual(
    lines,
    Array.from({ length: 57 }, (_, i) => `line ${i + 3}`),
  );
  const gone = pierhead.client.waitForDeletion({ deployment_id: made.id });
  await pierhead.client.deleteDeployment({ deployment_id: made.id });
  await pierhead.client.deleteDeployment({ deployment_id: made.id, force: true });
  await gone;
});

test("following a filtered log does not transfer the stored lines that do not match", async () => {
  await using pierhead = await start();
  const made = await create(pierhead);
  const write = (messages: string[]) =>
    appendLogEntries(
      pierhead.server.db,
      messages.map((message) => ({
        ...{ deployment_id: made.id, revision_id: made.latest_revision_id as string, kind: "deploy", message },
        ...{ replica_id: null, stream: "stdout", level: "INFO", logged_at: new Date(), line_key: null },
      })),
    );
  await write(Array.from({ length: 2_000 }, (_, i) => `hay ${i}`));
  let streamed = "";
  const client = createClient({
    baseUrl: pierhead.url,
    apiKey: pierhead.apiKey,
    send: fetch,
    async fetch(input, init) {
      const answer = await fetch(input, init);
      const read = new TransformStream<Uint8Array, Uint8Array>({
        transform(chunk, controller) {
          streamed += new TextDecoder().decode(chunk);
          controller.enqueue(chunk);
        },
      });
      return new Response(answer.body?.pipeThrough(read) ?? null, answer);
    },
  });
  const abort = new AbortController();
  const found: string[] = [];
  const question = { deployment_id: made.id, type: "deploy" as const, query: "needle" };
  const following = (async () => {
    for await (const { message } of client.followLogs(question, { tail: 10, signal: abort.signal }))
      found.push(message);
  })().catch((error: unknown) => {
    if (!abort.signal.aborted) throw error;
  });
  await eventually(
    () => streamed,
    (text) => text !== "",
  );
  await write(["hay", "needle 1", "hay", "needle 2"]);
  await eventually(
    () => found,
    ({ length }) => length >= 2,
  );
  abort.abort();
  await following;
  assert.deepEqual(found, ["needle 1", "needle 2"]);
  assert.ok(!streamed.includes("hay 1999"), `${streamed.length} characters were sent`);
});
