import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { errors } from "../../src/contract/error.ts";
import type { Event } from "../../src/contract/logs/event.ts";
import { eventStreamsMax } from "../../src/domain/limits.ts";
import { sql } from "../../src/store/engine/sql.ts";
import { appendLogEntries } from "../../src/store/logs/log-entries.ts";
import { moveRevision } from "../../src/store/revisions/revisions.ts";
import { type EventReader, readEventStream } from "../support/event-reader.ts";
import { eventually } from "../support/eventually.ts";
import { startApi } from "./harness.ts";

const t = await startApi({ streamHeartbeatMs: 200 });
const server = createServer((request, response) => t.api.routing(request, response));
await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
after(async () => {
  await t.deps.events.close();
  server.closeAllConnections();
  server.close();
});

/** Resolves when the response has arrived; for a stream, when its first cursor has. */
async function watch(
  path: string,
  headers: Record<string, string> = {},
  key = t.tenant.adminKey,
): Promise<EventReader> {
  const reader = await readEventStream(base + path, { "x-api-key": key, ...headers });
  await eventually(() => reader.isEnded || reader.lastId !== "", Boolean);
  return reader;
}

interface Made {
  id: string;
  latest_revision_id: string;
}

async function make(key = t.tenant.adminKey): Promise<Made> {
  const payload = {
    name: `watched-${randomUUID()}`,
    source: "external_docker",
    source_config: { resource_spec: {} },
    source_revision_config: { image_uri: "registry.example/team/agent:1" },
  };
  return (await t.ask({ method: "POST", url: "/v2/deployments", payload, key })).body;
}

const move = ({ id, latest_revision_id }: Made, from: "CREATING" | "QUEUED", to: "QUEUED" | "SKIPPED") =>
  moveRevision(t.db, { id: latest_revision_id, deploymentId: id }, { from, to, because: "test", deadlineAt: null });

const rename = ({ id }: Made) =>
  t.ask({ method: "PATCH", url: `/v2/deployments/${id}`, payload: { display_name: randomUUID() } });

const types = (messages: { event: string }[]) => messages.map(({ event }) => event);
const count = (wanted: number) => (messages: unknown[]) => messages.length >= wanted;

test("a client of the workspace receives events in the documented shape", async () => {
  const stream = await watch("/v2/events");
  assert.equal(stream.status, 200);
  assert.match(String(stream.headers["content-type"]), /^text\/event-stream/);
  assert.deepEqual(
    [stream.headers["x-accel-buffering"], stream.headers["cache-control"]],
    ["no", "no-store, no-transform"],
  );
  const made = await make();
  await move(made, "CREATING", "QUEUED");
  await rename(made);
  await t.ask({
    method: "PATCH",
    url: `/v2/deployments/${made.id}`,
    payload: { source_revision_config: { image_uri: "a/b:2" } },
  });
  await t.ask({ method: "DELETE", url: `/v2/deployments/${made.id}` });
  await eventually(() => stream.messages, count(7));
  assert.deepEqual(types(stream.messages), [
    "deployment.created",
    "revision.status",
    "deployment.changed",
    "revision.created",
    "deployment.delete_requested",
    "revision.status",
    "revision.status",
  ]);
  stream.close();
});

test("clients of another workspace or another deployment do not receive it", async () => {
  const [made, other] = [await make(), await make()];
  const stranger = await watch("/v2/events", {}, t.stranger.adminKey);
  const beside = await watch(`/v2/deployments/${other.id}/events`);
  const named = await watch(`/v2/events?deployment_ids=${made.id}`, {}, t.stranger.adminKey);
  await rename(made);
  await rename(other);
  await make(t.stranger.adminKey);
  await eventually(
    () => [stranger.messages.length, beside.messages.length],
    ([a, b]) => a === 1 && b === 1,
  );
  assert.equal(beside.messages[0]?.data.deployment_id, other.id);
  assert.equal(stranger.messages[0]?.event, "deployment.created");
  assert.deepEqual(named.messages, []);
  const foreign = await watch(`/v2/deployments/${made.id}/events`, {}, t.stranger.adminKey);
  assert.deepEqual(
    [foreign.status, foreign.body],
    [404, JSON.stringify({ detail: `Deployment ID ${made.id} not found.` })],
  );
  for (const stream of [stranger, beside, named]) stream.close();
});

test("sends only the requested types", async () => {
  const made = await make();
  const stream = await watch(`/v2/events?types=revision.status&deployment_ids=${made.id}`);
  await rename(made);
  await move(made, "CREATING", "QUEUED");
  await eventually(() => stream.messages, count(1));
  assert.deepEqual(types(stream.messages), ["revision.status"]);
  assert.deepEqual(stream.messages[0]?.data.data, { from: "CREATING", to: "QUEUED", because: "test", message: null });
  stream.close();
});

test("a reconnected stream continues after the last event seen, by header or query, without gaps or duplicates", async () => {
  const made = await make();
  const path = `/v2/deployments/${made.id}/events`;
  const whole = await watch(path);
  const seen: string[] = [];
  let lastId = whole.lastId;
  for (let round = 0; round < 6; round += 1) {
    const part = await watch(
      round % 2 === 0 ? path : `${path}?after=${lastId}`,
      round % 2 === 0 ? { "last-event-id": lastId } : {},
    );
    for (let i = 0; i < 4; i += 1) await rename(made);
    if (round === 3)
      for (let i = 0; i < 600; i += 1)
        await move(made, i % 2 === 0 ? "CREATING" : "QUEUED", "QUEUED").catch(() => rename(made));
    await eventually(() => part.messages, count(2));
    part.close();
    seen.push(...part.messages.map(({ id }) => id));
    lastId = part.lastId;
    await rename(made);
  }
  const last = await watch(path, { "last-event-id": lastId });
  await eventually(
    () => [...seen, ...last.messages.map(({ id }) => id)].length,
    (length) => length === whole.messages.length,
  );
  assert.deepEqual(
    [...seen, ...last.messages.map(({ id }) => id)],
    whole.messages.map(({ id }) => id),
  );
  whole.close();
  last.close();
});

test("a cursor older than the stored events causes a reset on a stream and 410 on a page", async () => {
  const made = await make();
  const { rows } = await t.db.query<{ id: number }>(sql`select max(id) as id from events`);
  const newest = rows[0]?.id ?? 0;
  await t.db.query(sql`delete from events where id < ${newest}`);
  for (const place of [1, newest + 1_000]) {
    const stream = await watch("/v2/events", { "last-event-id": String(place) });
    await eventually(() => stream.messages, count(1));
    assert.deepEqual([stream.messages[0]?.event, stream.messages[0]?.data], ["reset", { reason: "forgotten" }]);
    await rename(made);
    await eventually(() => stream.messages, count(2));
    assert.equal(stream.messages[1]?.event, "deployment.changed");
    stream.close();
  }
  assert.equal((await t.ask({ url: "/v2/events?after=1" })).status, 410);
  const all = await watch("/v2/events?after=0");
  await eventually(() => all.messages, count(3));
  assert.equal(all.messages[0]?.id, String(newest));
  all.close();
});

test("rejects a cursor that no response contained", async () => {
  for (const place of ["x", "-1", "1.2.3.4", "9".repeat(16)]) {
    const stream = await watch("/v2/events", { "last-event-id": place });
    assert.equal(stream.status, 422, place);
    assert.deepEqual(JSON.parse(stream.body).detail[0].loc, ["header", "last-event-id"]);
    assert.equal((await t.ask({ url: `/v2/events?after=${place}` })).status, 422);
  }
});

test("includes build and replica lines on request, also across a reconnect", async () => {
  const made = await make();
  const line = (kind: "build" | "deploy", message: string) =>
    appendLogEntries(t.db, [
      {
        ...{ deployment_id: made.id, revision_id: made.latest_revision_id, kind, message },
        ...{ replica_id: null, stream: "stdout", level: "INFO", logged_at: new Date(), line_key: null },
      },
    ]);
  await line("build", "before");
  const path = `/v2/deployments/${made.id}/events?logs=deploy,build&types=revision.status`;
  const stream = await watch(path);
  const silent = await watch(`/v2/deployments/${made.id}/events`);
  for (let i = 0; i < 10; i += 1) await line(i % 2 === 0 ? "build" : "deploy", `line ${i}`);
  await move(made, "CREATING", "QUEUED");
  await eventually(() => stream.messages, count(11));
  const lines = stream.messages.filter(({ event }) => event === "log");
  assert.deepEqual(
    lines.map(({ data }) => data.message).toSorted(),
    Array.from({ length: 10 }, (_, i) => `line ${i}`),
  );
  assert.deepEqual([lines[0]?.data.revision_id, lines[0]?.data.level], [made.latest_revision_id, "INFO"]);
  stream.close();
  for (let i = 10; i < 1_300; i += 1) await line(i % 2 === 0 ? "build" : "deploy", `line ${i}`);
  const again = await watch(path, { "last-event-id": stream.lastId });
  await eventually(() => again.messages, count(1_290));
  await line("build", "line 1300");
  await eventually(() => again.messages, count(1_291));
  const found = again.messages.map(({ data }) => Number(data.message.slice(5)));
  assert.deepEqual(
    found.toSorted((a, b) => a - b),
    Array.from({ length: 1_291 }, (_, i) => i + 10),
  );
  again.close();
  const after = await watch(`/v2/deployments/${made.id}/events?logs=build&logs_after=0`);
  await eventually(() => after.messages, count(652));
  assert.equal(after.messages[0]?.data.message, "before");
  after.close();
  assert.deepEqual(types(silent.messages), ["revision.status"]);
  silent.close();
  // The database was restored from an older backup, so ids below those seen are assigned again.
  const ahead = again.lastId.split(".").map((place) => Number(place) + 1_000_000);
  const older = await watch(path, { "last-event-id": ahead.join(".") });
  await line("build", "line 1301");
  await eventually(() => older.messages, count(2), { timeoutMs: 20_000 });
  assert.deepEqual(types(older.messages), ["reset", "log"]);
  older.close();
});

test("a slow client is served at its own pace and misses nothing", async () => {
  const made = await make();
  const path = `/v2/deployments/${made.id}/events`;
  const slow = await watch(path);
  slow.pause();
  const filler = "x".repeat(20_000);
  for (let i = 0; i < 300; i += 1) {
    await t.db.query(sql`insert into events (tenant_id, deployment_id, kind, data)
              values (${t.tenant.tenantId}, ${made.id}, 'deployment.changed', ${JSON.stringify({ i, filler })})`);
  }
  t.db.changes.wakeWatchers();
  const fast = await watch(`${path}?after=${slow.lastId}`);
  await eventually(() => fast.messages, count(300));
  await rename(made);
  slow.resume();
  await eventually(() => slow.messages, count(301));
  assert.deepEqual(
    slow.messages.slice(0, 300).map(({ data }) => data.data.i),
    Array.from({ length: 300 }, (_, i) => i),
  );
  for (const stream of [slow, fast]) stream.close();
});

test("an idle stream sends heartbeats, advances the client's cursor, and ends when the permission ends", async () => {
  const made = await make();
  const other = await make();
  const key = await t.mintKey({ role: "reader" });
  const stream = await watch(`/v2/deployments/${made.id}/events`, {}, key);
  const began = stream.lastId;
  await rename(other);
  await eventually(
    () => stream,
    ({ comments, lastId }) => comments >= 2 && Number(lastId) > Number(began),
  );
  assert.deepEqual(stream.messages, []);
  await t.db.query(sql`update api_keys set revoked_at = now()
             where id = (select id from api_keys order by created_at desc limit 1)`);
  await eventually(() => stream.isEnded, Boolean);
  assert.equal((await watch("/v2/events", {}, key)).status, 401);
});

test("a stream ends when its deployment is deleted", async () => {
  const made = await make();
  const stream = await watch(`/v2/deployments/${made.id}/events?types=deployment.deleted`);
  await t.db.query(sql`delete from deployments where id = ${made.id}`);
  await t.db.query(sql`insert into events (tenant_id, deployment_id, kind, data)
            values (${t.tenant.tenantId}, ${made.id}, 'deployment.deleted', '{"name": "gone"}')`);
  t.db.changes.wakeWatchers();
  await eventually(() => stream.isEnded, Boolean);
  assert.deepEqual(types(stream.messages), ["deployment.deleted"]);
  assert.equal(stream.messages[0]?.data.deployment_name, "gone");
  assert.equal((await watch(`/v2/deployments/${made.id}/events`)).status, 404);
});

test("stored events can be read in pages, in both directions", async () => {
  const made = await make();
  for (let i = 0; i < 5; i += 1) await rename(made);
  const url = `/v2/deployments/${made.id}/events`;
  const first = await t.ask({ url: `${url}?limit=4` });
  const second = await t.ask({ url: `${url}?limit=4&after=${first.body.position}` });
  assert.deepEqual([first.body.events.length, second.body.events.length], [4, 2]);
  const back = await t.ask({ url: `${url}?order=desc&limit=6` });
  assert.deepEqual(back.body.events.toReversed(), [...first.body.events, ...second.body.events]);
  const older = await t.ask({ url: `${url}?order=desc&limit=2&after=${back.body.events[3].id}` });
  assert.deepEqual(older.body.events, back.body.events.slice(4));
  const nothing = await t.ask({ url: `${url}?after=${second.body.position}` });
  assert.deepEqual(nothing.body.events, []);
  await rename(made);
  const read = async () => (await t.ask({ url: `${url}?after=${nothing.body.position}` })).body.events as Event[];
  assert.equal((await eventually(read, count(1)))[0]?.type, "deployment.changed");
});

test("a client that disconnects before its stream starts is not retained", async (context) => {
  const [asked, left] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let isEnded = false;
  const subscribe = t.deps.events.subscribe.bind(t.deps.events);
  context.mock.method(t.deps.events, "subscribe", async (...args: Parameters<typeof subscribe>) => {
    asked.resolve();
    await left.promise;
    const made = await subscribe(...args);
    const end = () => {
      isEnded = true;
      made.end();
    };
    return { ...made, end };
  });
  const gone = new Promise<void>((resolve) => {
    server.once("request", (_request, response) => response.once("close", resolve));
  });
  const leaving = new AbortController();
  const headers = { "x-api-key": t.tenant.adminKey, accept: "text/event-stream" };
  const answer = fetch(`${base}/v2/events`, { headers, signal: leaving.signal });
  await asked.promise;
  leaving.abort();
  await assert.rejects(answer);
  await gone;
  left.resolve();
  await eventually(() => isEnded, Boolean, { timeoutMs: 10_000, what: "the end of the stream" });
});

test("a key and a workspace hold at most their share of open streams, however many clients connect at once", async (context) => {
  const released = Promise.withResolvers<void>();
  const subscribe = context.mock.method(t.deps.events, "subscribe", async () => {
    await released.promise;
    throw errors.unavailable("The feed is away.", 1);
  });
  const headers = { accept: "text/event-stream" };
  const tooMany = 3;
  const other = await t.mintKey({ role: "reader" });
  const keys = [t.tenant.adminKey, other].flatMap((key) => Array<string>(eventStreamsMax / 4 + tooMany).fill(key));
  const details: string[] = [];
  const answers = keys.map(async (key) => {
    const { status, body } = await t.ask({ url: "/v2/events", headers, key });
    if (status === 429) details.push(body.detail);
    else assert.equal(status, 503);
  });
  await eventually(
    () => details.length + subscribe.mock.callCount(),
    (asked) => asked === answers.length,
  );
  const third = await t.ask({ url: "/v2/events", headers, key: await t.mintKey({ role: "reader" }) });
  assert.equal(third.status, 429);
  assert.match(third.body.detail, /^This workspace holds its share of this server's event streams, which is 2500/);
  released.resolve();
  await Promise.all(answers);
  assert.equal(details.length, 2 * tooMany);
  for (const detail of details) assert.match(detail, /^This (key|workspace) holds its share/);
  subscribe.mock.restore();
  const stream = await watch("/v2/events");
  assert.equal(stream.status, 200, "streams that did not open do not count");
  stream.close();
});
