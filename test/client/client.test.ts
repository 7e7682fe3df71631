import assert from "node:assert/strict";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { ApiFailure, createClient, isRefusal, ServerUnreachable, WaitTimeout } from "../../src/client/client.ts";
import type { Operation } from "../../src/contract/operation.ts";
import { operations } from "../../src/contract/operations.ts";
import { clientRoutes, routes } from "../../src/contract/routes.ts";
import { startAnswering } from "./answering.ts";

const ids = {
  deployment_id: "6b1f0f64-5f0e-4a0e-9a35-0d5b6c1f7a11",
  revision_id: "b8a1c2d3-0000-4000-8000-000000000001",
};

test("has a method for every operation except byte streams, browser pages, code host webhooks and the listener protocol", () => {
  const others = ["callMcp", "getBackup", "putUpload", "detectArchive", "receiveGithubWebhook", "receiveHostWebhook"];
  const isCalled = ({ audience, id, response }: Operation) =>
    audience !== "listener" && !others.includes(id) && response.isPage !== true;
  const expected = Object.values<Operation>(operations).filter(isCalled);
  const client = createClient({ baseUrl: "http://127.0.0.1:1" });
  assert.deepEqual(Object.keys(clientRoutes).sort(), expected.map(({ id }) => id).sort());
  for (const { id } of expected) assert.equal(typeof client[id as keyof typeof clientRoutes], "function", id);
});

test("every operation has its verb and path from the table of routes, and every route has an operation", () => {
  const table = Object.values<Operation>(operations).map(({ id, verb, path }) => [id, `${verb} ${path}`]);
  assert.deepEqual(Object.fromEntries(table), { ...routes });
});

test("encodes parameters into the path, the query and the body", async () => {
  await using server = await startAnswering(() => ({ status: 200, body: {} }));
  const client = createClient({ baseUrl: `${server.url}/api-host/`, apiKey: "key", workspaceId: "workspace" });

  await client.listDeployments({ name: "a b&c", limit: 3 });
  await client.patchDeployment({ deployment_id: "a/b", body: { display_name: "x" } });

  assert.equal(server.asked[0]?.url, "/api-host/v2/deployments?name=a+b%26c&limit=3");
  assert.equal(server.asked[0]?.headers["x-api-key"], "key");
  assert.equal(server.asked[0]?.headers["x-tenant-id"], "workspace");
  assert.equal(server.asked[0]?.headers["content-type"], undefined);
  assert.equal(server.asked[1]?.url, "/api-host/v2/deployments/a%2Fb");
  assert.equal(server.asked[1]?.body, '{"display_name":"x"}');
});

test("a failure carries status, code, text, validation items and request id", async () => {
  const detail = [{ type: "missing", loc: ["body", "name"], msg: "Field required", input: {} }];
  await using server = await startAnswering(() => ({
    status: 422,
    body: { detail },
    headers: { "x-request-id": "r-1", "x-pierhead-error": "invalidRequest" },
  }));

  const failure = await createClient({ baseUrl: server.url })
    .getInfo()
    .catch((error: unknown) => error);

  assert.ok(failure instanceof ApiFailure);
  assert.equal(failure.status, 422);
  assert.ok(isRefusal(failure, "nameTaken", "invalidRequest") && !isRefusal(failure, "nameTaken"));
  assert.equal(failure.detail, "body.name: Field required");
  assert.deepEqual(failure.items, detail);
  assert.equal(failure.requestId, "r-1");
  assert.equal(failure.call, "GET /info");
});

test("a response that is not JSON and a redirect fail with a message about the address", async () => {
  await using server = await startAnswering(({ url }) =>
    url === "/ok" ? { status: 302, headers: { location: "http://127.0.0.1:1/" } } : { status: 200, body: "<html>" },
  );
  const client = createClient({ baseUrl: server.url });
  await assert.rejects(client.getOk(), /redirects to http:\/\/127\.0\.0\.1:1/);
  await assert.rejects(client.createRevision(ids), /Is it the address of a Pierhead server/);
});

test("retries a read after 503 and lost connections, not before Retry-After", async () => {
  const askedAt: number[] = [];
  await using server = await startAnswering((_, count) => {
    askedAt.push(Date.now());
    if (count === 1) return { status: 503, body: { detail: "starting" }, headers: { "retry-after": "1" } };
    return count === 2 ? "hang up" : { status: 200, body: { ok: true } };
  });

  assert.deepEqual(await createClient({ baseUrl: server.url }).getOk(), { ok: true });
  assert.equal(server.asked.length, 3);
  assert.ok((askedAt[1] ?? 0) - (askedAt[0] ?? 0) >= 990);
});

test("retries a change with the same idempotency key, and uses a new key for another change", async () => {
  await using server = await startAnswering((_, count) => {
    if (count === 1) return "hang up";
    return count === 2
      ? { status: 429, body: {}, headers: { "retry-after": "0" } }
      : { status: 201, body: { id: "d" } };
  });
  const client = createClient({ baseUrl: server.url });

  await client.createRevision(ids);
  await client.request("POST", "/v2/deployments", {});

  const [first, second, third, other] = server.asked.map(({ headers }) => String(headers["idempotency-key"]));
  assert.equal(server.asked.length, 4);
  assert.match(String(first), /^[0-9a-f]{32}$/);
  assert.deepEqual([second, third], [first, first]);
  assert.ok(other !== first && /^[0-9a-f]{32}$/.test(String(other)));
});

test("reports the reason when the server is unreachable", async () => {
  const failure = await createClient({ baseUrl: "http://127.0.0.1:1" })
    .getOk()
    .catch((error: unknown) => error);
  assert.ok(failure instanceof ServerUnreachable);
  assert.match(failure.message, /^No answer from http:\/\/127\.0\.0\.1:1: .*(ECONNREFUSED|bad port)/);
});

test("a call fails at its deadline, and an aborted call fails with the abort's reason", async () => {
  await using server = await startAnswering(() => "silence");
  const client = createClient({ baseUrl: server.url });

  await assert.rejects(client.getOk({}, { deadlineMs: 50 }), {
    name: "ServerUnreachable",
    message: /later than 0.05 s/,
  });
  const abort = new AbortController();
  const call = client.getOk({}, { signal: abort.signal });
  abort.abort(new Error("stopped by the user"));
  await assert.rejects(call, /stopped by the user/);
});

test("a failure that took the server most of the time is reported as it is, and a lost connection is retried", async () => {
  await using server = await startAnswering(async (_, count) => {
    await sleep(1_500);
    if (count > 1) return "silence";
    return { status: 502, body: { detail: "The code host did not answer." }, headers: { "retry-after": "0" } };
  });
  const call = createClient({ baseUrl: server.url }).getOk({}, { deadlineMs: 2_900 });
  await assert.rejects(call, { name: "ApiFailure", status: 502, detail: "The code host did not answer." });
  assert.equal(server.asked.length, 1);

  await using restarted = await startAnswering(async (_, count) => {
    if (count > 1) return { status: 200, body: { ok: true } };
    await sleep(1_500);
    return "hang up";
  });
  assert.deepEqual(await createClient({ baseUrl: restarted.url }).getOk({}, { deadlineMs: 2_900 }), { ok: true });
});

test("uploads an archive to its signed URL without the key, and keeps the signature out of traces", async () => {
  await using server = await startAnswering(() => ({ status: 200, body: { size_bytes: 3 } }));
  const urls: string[] = [];
  const client = createClient({ baseUrl: server.url, apiKey: "key", onCall: ({ url }) => urls.push(url) });

  await client.uploadArchive(`${server.url}/uploads/1?signature=secret`, new Blob(["abc"]));

  assert.equal(server.asked[0]?.headers["x-api-key"], undefined);
  assert.equal(server.asked[0]?.headers["content-type"], "application/gzip");
  assert.equal(server.asked[0]?.headers["content-length"], "3");
  assert.equal(server.asked[0]?.body, "abc");
  assert.deepEqual(urls, [`${server.url}/uploads/1`]);
});

test("`all` reads an offset list until a short page", async () => {
  await using server = await startAnswering(({ url }) => {
    const offset = Number(new URL(url, "http://x").searchParams.get("offset"));
    const resources = Array.from({ length: Math.min(100, 230 - offset) }, (_, index) => ({
      name: `d${offset + index}`,
    }));
    return { status: 200, body: { resources, offset: offset + resources.length } };
  });

  const names: string[] = [];
  for await (const { name } of createClient({ baseUrl: server.url }).all("listDeployments")) names.push(name);

  assert.deepEqual(
    names,
    Array.from({ length: 230 }, (_, index) => `d${index}`),
  );
  assert.equal(server.asked.length, 3);
});

test("`all` reads a cursor list until there is no cursor", async () => {
  const pages: Record<string, unknown> = {
    first: { items: [{ id: "1" }, { id: "2" }], next_cursor: "behind two" },
    "behind two": { items: [], next_cursor: "behind none" },
    "behind none": { items: [{ id: "3" }], next_cursor: null },
  };
  await using server = await startAnswering(({ url }) => {
    const { searchParams } = new URL(url, "http://localhost");
    return { status: 200, body: pages[searchParams.get("cursor") ?? "first"] };
  });
  const ids: string[] = [];
  for await (const { id } of createClient({ baseUrl: server.url }).all("listAuditLog", { action: "deployment" }))
    ids.push(id);
  assert.deepEqual(ids, ["1", "2", "3"]);
  assert.match(server.asked[0]?.url ?? "", /action=deployment&.*page_size=100/);
});

test("sends the caller's idempotency key", async () => {
  await using server = await startAnswering(() => ({ status: 200, body: {} }));
  const client = createClient({ baseUrl: server.url });
  await client.createRevision({ deployment_id: "d" }, { idempotencyKey: "job 17" });
  assert.equal(server.asked[0]?.headers["idempotency-key"], "job 17");
});

test("waitForRevision reports each change once, survives an outage, and returns a failed revision", async () => {
  const statuses = ["QUEUED", "QUEUED", null, null, null, null, "BUILDING", "BUILD_FAILED"];
  await using server = await startAnswering((_, count) => {
    const status = statuses[count - 1];
    return status === null ? "hang up" : { status: 200, body: { id: ids.revision_id, status, status_message: null } };
  });
  const seen: string[] = [];

  const revision = await createClient({ baseUrl: server.url }).waitForRevision(ids, {
    onChange: ({ status }) => seen.push(status),
  });

  assert.equal(revision.status, "BUILD_FAILED");
  assert.deepEqual(seen, ["QUEUED", "BUILDING", "BUILD_FAILED"]);
});

test("waitForRevision polls at the normal rate after its watch is lost", async () => {
  let [streams, reads] = [0, 0];
  const server = createServer(({ headers }, response) => {
    if (headers.accept !== "text/event-stream") {
      reads += 1;
      return response.end(JSON.stringify({ id: "r", status: reads < 6 ? "BUILDING" : "DEPLOYED" }));
    }
    streams += 1;
    if (streams > 1) return response.writeHead(503).end('{"detail": "not now"}');
    response.writeHead(200, { "content-type": "text/event-stream" }).write("id: 1\n\n");
    setTimeout(() => response.end(), 500);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    const client = createClient({ baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}` });
    const began = performance.now();
    await client.waitForRevision({ deployment_id: "d", revision_id: "r" });
    assert.ok(performance.now() - began < 8_000, `${performance.now() - began} ms`);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test("waitForRevision times out with the last status, and UNKNOWN is not final", async () => {
  await using server = await startAnswering(() => ({
    status: 200,
    body: { id: ids.revision_id, status: "UNKNOWN", status_message: null },
  }));
  const failure = await createClient({ baseUrl: server.url })
    .waitForRevision(ids, { timeoutMs: 300 })
    .catch((error: unknown) => error);
  assert.ok(failure instanceof WaitTimeout);
  assert.equal(failure.revision?.status, "UNKNOWN");
});

test("waitForDeletion ends when the deployment is not found", async () => {
  await using server = await startAnswering((_, count) =>
    count < 3
      ? { status: 200, body: { status: "AWAITING_DELETE" } }
      : { status: 404, body: { detail: "Deployment ID x not found." } },
  );
  await createClient({ baseUrl: server.url }).waitForDeletion(ids);
  assert.equal(server.asked.length, 3);
});

test("followLogs starts with the tail and yields every later line once, across lost connections, to the end", async () => {
  const lines = Array.from({ length: 12 }, (_, index) => ({
    id: `l${index}`,
    timestamp: `2026-01-01T00:00:0${Math.floor(index / 3)}.000000Z`,
    message: `line ${index}`,
  }));
  let written = 7;
  await using server = await startAnswering(({ url }, count) => {
    const query = new URL(url, "http://x").searchParams;
    if (count === 3) return "hang up";
    if (query.get("order") === "desc") {
      return {
        status: 200,
        body: {
          logs: lines
            .slice(0, written)
            .reverse()
            .slice(0, Number(query.get("limit"))),
          next_offset: "more",
        },
      };
    }
    const since = query.get("start_time") ?? "";
    const from =
      query.get("offset") === null
        ? lines.findIndex(({ timestamp }) => timestamp >= since)
        : Number(query.get("offset"));
    const logs = lines.slice(from, Math.min(from + 4, written));
    const end = from + logs.length;
    written = Math.min(12, written + 2);
    return { status: 200, body: { logs, next_offset: end === 12 ? null : String(end) } };
  });

  const messages: string[] = [];
  const question = { deployment_id: ids.deployment_id, type: "build" as const };
  for await (const { id } of createClient({ baseUrl: server.url }).followLogs(question, { tail: 2, intervalMs: 5 }))
    messages.push(id);

  assert.deepEqual(messages, ["l5", "l6", "l7", "l8", "l9", "l10", "l11"]);
});

test("followLogs continues after the tail, also among lines with the same time, and with a tail of 0", async () => {
  const moment = "2026-01-01T00:00:00.000000Z";
  const lines = Array.from({ length: 1_200 }, (_, index) => ({ id: String(index), timestamp: moment, message: "" }));
  lines.push({ id: "1200", timestamp: "2026-01-01T00:00:01.000000Z", message: "" });
  let written = 1_000;
  await using server = await startAnswering(({ url }) => {
    const query = new URL(url, "http://x").searchParams;
    const [limit, offset] = [Number(query.get("limit")), Number(query.get("offset") ?? 0)];
    if (query.get("order") === "desc") {
      const logs = lines.slice(0, written).reverse().slice(0, limit);
      written = lines.length;
      return { status: 200, body: { logs, next_offset: "more" } };
    }
    const logs = lines.slice(offset, offset + limit);
    const end = offset + logs.length;
    return { status: 200, body: { logs, next_offset: end === lines.length ? null : String(end) } };
  });
  for (const [tail, first] of [
    [3, 997],
    [1, 999],
    [0, 1_000],
  ] as const) {
    written = 1_000;
    const followed: number[] = [];
    const question = { deployment_id: ids.deployment_id, type: "build" as const };
    for await (const { id } of createClient({ baseUrl: server.url }).followLogs(question, { tail, intervalMs: 5 }))
      followed.push(Number(id));
    assert.deepEqual(
      followed,
      Array.from({ length: 1_201 - first }, (_, index) => first + index),
    );
  }
});

test("changeAsRead repeats a refused change with the new state", async () => {
  await using server = await startAnswering(({ method, headers }, count) => {
    if (method === "GET")
      return { status: 200, headers: { etag: `W/"${count}"` }, body: { secrets: [{ name: `N${count}` }] } };
    if (headers["if-match"] === '"3"') return { status: 200, body: { id: "changed" } };
    return { status: 412, headers: { "x-pierhead-error": "changedMeanwhile" }, body: { detail: "changed meanwhile" } };
  });
  const client = createClient({ baseUrl: server.url });
  const changed = await client.changeAsRead(ids, ({ secrets }, call) =>
    client.patchDeployment({ deployment_id: ids.deployment_id, body: { secrets } }, call),
  );
  assert.equal(changed.id, "changed");
  const changes = server.asked.filter(({ method }) => method === "PATCH");
  assert.deepEqual(
    changes.map(({ headers, body }) => [headers["if-match"], JSON.parse(body)]),
    [
      ['"1"', { secrets: [{ name: "N1" }] }],
      ['"3"', { secrets: [{ name: "N3" }] }],
    ],
  );
  assert.notEqual(changes[0]?.headers["idempotency-key"], changes[1]?.headers["idempotency-key"]);
});
