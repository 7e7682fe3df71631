import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import {
  CallRefused,
  createListenerClient,
  Gone,
  httpSend,
  httpStreams,
  StaleEpoch,
} from "../../src/client/listener-client.ts";

const { signal } = new AbortController();
const opening = { instance_id: "here", version: "0.0.0", protocols: [1], compute_type: "simulated" };
const opened = {
  session_id: "2f0f5b1e-3a35-4c19-9b0a-6f5c6a8c1a01",
  listener_id: "2f0f5b1e-3a35-4c19-9b0a-6f5c6a8c1a02",
  epoch: 7,
  protocol: 1,
  heartbeat_s: 15,
  lease_ttl_s: 45,
};

test("sends the key with every call, and the epoch with every call except the first", async () => {
  await using server = await answering((path) => (path.startsWith("/dp/v1/sessions") ? [201, opened] : answers(path)));
  const session = await createListenerClient(httpSend(`${server.url}/`, "key")).openSession(opening, signal);
  await session.desired(3, 90_000, signal);
  await session.secrets("d-1", "s-1", signal);
  await session.report({ reports: [] }, signal);
  await session.sendLogs({ lines: [] }, signal);
  await session.heartbeat(signal);
  await session.close(signal);
  const seen = server.requests.map(
    ({ method, url, headers }) => `${method} ${url} ${headers["x-pierhead-epoch"] ?? "-"}`,
  );
  assert.deepEqual(seen, [
    "POST /dp/v1/sessions -",
    "GET /dp/v1/desired?after=3&wait=30 7",
    "GET /dp/v1/deployments/d-1/secrets?secret_set_id=s-1 7",
    "POST /dp/v1/status 7",
    "POST /dp/v1/logs 7",
    "POST /dp/v1/heartbeat 7",
    "DELETE /dp/v1/sessions 7",
  ]);
  assert.ok(server.requests.every(({ headers }) => headers["x-api-key"] === "key"));
});

test("throws different errors for a stale epoch, an outdated cursor and other refusals", async () => {
  let answer: [number, unknown] = [201, opened];
  await using server = await answering(() => answer);
  const client = createListenerClient(httpSend(server.url, "key"));
  const session = await client.openSession(opening, signal);
  answer = [409, { detail: "A newer session exists.", error: "stale_epoch" }];
  await assert.rejects(session.heartbeat(signal), StaleEpoch);
  answer = [410, { detail: "gone" }];
  await assert.rejects(session.desired(1, 0, signal), Gone);
  answer = [409, { detail: "Another instance holds the session.", error: "listener_busy" }];
  await assert.rejects(client.openSession(opening, signal), {
    name: "CallRefused",
    status: 409,
    error: "listener_busy",
  });
  answer = [502, "<html>Bad gateway</html>"];
  await assert.rejects(session.heartbeat(signal), (error) => error instanceof CallRefused && error.status === 502);
});

test("refuses a response with another shape instead of reading it as an empty list", async () => {
  let answer: [number, unknown] = [201, opened];
  await using server = await answering(() => answer);
  const session = await createListenerClient(httpSend(server.url, "key")).openSession(opening, signal);
  for (const body of [
    "<html>Please log in</html>",
    {},
    { items: [], more: false },
    null,
    { items: {}, rv: 1, more: false },
  ]) {
    answer = [200, body];
    await assert.rejects(session.desired(0, 0, signal), (error) => error instanceof CallRefused && error.status === 0);
  }
});

test("a stream yields pages and heartbeats in order, ends with a newer session, and accepts the single page of an older server", async () => {
  const page = { items: [], rv: 4, more: false };
  const stream = `: hello\n\nid: 4\nevent: desired\ndata: ${JSON.stringify(page)}\n\n: ping\n\nevent: stale\ndata: {}\n\n`;
  let answer: [number, unknown, Record<string, string>?] = [201, opened];
  await using server = await answering(() => answer);
  const session = await createListenerClient(
    httpSend(server.url, "key"),
    httpStreams(`${server.url}/`, async () => "key"),
  ).openSession(opening, signal);
  const seen: unknown[] = [];
  const follow = async () => {
    for await (const one of session.stream?.(3, signal) ?? []) seen.push(one);
  };
  answer = [200, stream, { "content-type": "text/event-stream; charset=utf-8" }];
  await assert.rejects(follow(), StaleEpoch);
  assert.deepEqual(seen.splice(0), [null, page, null]);
  const { url, headers } = server.requests.at(-1) as IncomingMessage;
  assert.equal(url, "/dp/v1/desired?after=3&wait=30");
  assert.deepEqual([headers["x-api-key"], headers["x-pierhead-epoch"]], ["key", "7"]);
  answer = [200, page];
  await follow();
  assert.deepEqual(seen.splice(0), [page]);
  answer = [410, { detail: "gone" }];
  await assert.rejects(follow(), Gone);
  answer = [200, `event: desired\ndata: {"items":[]}\n\n`, { "content-type": "text/event-stream" }];
  await assert.rejects(follow(), CallRefused);
});

test("refuses a redirect, so that the key reaches no other host", async () => {
  await using other = await answering(() => [201, opened]);
  await using server = await answering(() => [307, null, { location: `${other.url}/dp/v1/sessions` }]);
  await assert.rejects(createListenerClient(httpSend(server.url, "key")).openSession(opening, signal));
  assert.equal(other.requests.length, 0);
});

function answers(path: string): [number, unknown] {
  if (path.startsWith("/dp/v1/desired")) return [200, { items: [], rv: 3, more: false }];
  if (path.endsWith("secret_set_id=s-1")) return [200, { values: { A: "1" } }];
  return path.endsWith("heartbeat") ? [200, { rv: 3 }] : [204, null];
}

async function answering(answer: (path: string) => [number, unknown, Record<string, string>?]) {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    const [status, body, headers = {}] = answer(request.url ?? "");
    response
      .writeHead(status, headers)
      .end(typeof body === "string" ? body : body === null ? "" : JSON.stringify(body));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    requests,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
