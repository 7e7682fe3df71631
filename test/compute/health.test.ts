import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, createServer as createTcpServer } from "node:net";
import { test } from "node:test";
import { answersBadly, checkHealth, describeAnswers, readRunsInProgress } from "../../src/compute/health.ts";

/** Checks a server that answers these paths with a status and all others with 404. */
async function check(statuses: Record<string, number>, path = "") {
  await using server = createServer((request, response) => {
    response.writeHead(statuses[request.url ?? ""] ?? statuses["*"] ?? 404).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { healthy } = await checkHealth((server.address() as AddressInfo).port, path);
  server.closeAllConnections();
  return healthy;
}

test("asks the usual health paths in order when a server names none", async () => {
  assert.deepEqual(await check({ "*": 200 }), { path: "/ok" });
  assert.deepEqual(await check({ "/health": 200, "/": 200 }), { path: "/health" });
  assert.deepEqual(await check({ "/healthz": 204 }), { path: "/healthz" });
  assert.deepEqual(await check({ "/": 200, "/health": 401 }), { path: "/" });
});

test("counts any response of a server without a health path", async () => {
  assert.deepEqual(await check({}), { path: null });
  assert.deepEqual(await check({ "/": 500 }), { path: null });
  assert.deepEqual(await check({ "/": 302, "*": 401 }), { path: null });
});

for (const [what, head, piece] of [
  ["interim answers", "", "HTTP/1.1 103 Early Hints\r\n\r\n"],
  ["framing", "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", `1;${"x".repeat(8_000)}\r\nx\r\n`],
] as const) {
  test(`stops reading a server that sends ${what} without end`, async () => {
    let sentBytes = 0;
    await using server = createTcpServer((socket) => {
      socket.on("error", () => {});
      const send = () => {
        sentBytes += piece.length * 100;
        if (socket.writable) socket.write(piece.repeat(100), () => setImmediate(send));
      };
      socket.once("data", () => socket.write(head, send));
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const beganAt = performance.now();
    await checkHealth((server.address() as AddressInfo).port, "/ok");
    // Beyond what the server reads, the system has some megabytes in its buffers.
    assert.ok(sentBytes < 20_000_000, `${sentBytes} bytes`);
    assert.ok(performance.now() - beganAt < 1_500, "ends before the deadline");
  });
}

test("sends Accept-Language, because some sites fail without it", async () => {
  await using server = createServer(({ headers }, response) => {
    response.writeHead(headers["accept-language"] === undefined ? 500 : 200).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { healthy } = await checkHealth((server.address() as AddressInfo).port, "");
  server.closeAllConnections();
  assert.deepEqual(healthy, { path: "/ok" });
});

test("waits while a server reports that it is not ready", async () => {
  assert.equal(await check({ "/health": 503, "/": 200 }), null);
  assert.equal(await check({ "/ok": 500, "/": 200 }), null);
  assert.equal(await check({ "/": 503 }), null);
});

test("reports the answers of a server that never became healthy on each path, and what to do", async () => {
  await using server = createServer((request, response) => {
    response.writeHead(request.url === "/healthz" ? 404 : 500).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const answers = await describeAnswers(port, "");
  assert.equal(answers, "500 on /ok, 500 on /health, 404 on /healthz, 500 on /");
  assert.equal(await describeAnswers(port, "/ready"), "500 on /ready");
  assert.equal(
    answersBadly(answers, ""),
    "At the end it answered 500 on /ok, 500 on /health, 404 on /healthz, 500 on /. Its log shows what fails: correct that, or name a path that answers 200 as `health` in pierhead.json.",
  );
  server.closeAllConnections();
  assert.equal(await describeAnswers(1, ""), null);
});

test("asks only the path that a server names", async () => {
  assert.deepEqual(await check({ "/ready": 200 }, "/ready"), { path: "/ready" });
  assert.equal(await check({ "*": 200, "/ready": 204 }, "/ready"), null);
});

test("distinguishes a server that refuses to report its runs from one that cannot", async () => {
  const ask = async (metrics: number, threads: number) => {
    await using server = createServer((request, response) => {
      response.writeHead(request.url === "/threads/search" ? threads : metrics).end('[{"thread_id":"1"}]');
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const count = await readRunsInProgress((server.address() as AddressInfo).port);
    return count;
  };
  assert.equal(await ask(404, 200), 1);
  assert.equal(await ask(401, 200), 1);
  assert.equal(await ask(404, 404), null);
  assert.equal(await ask(401, 401), undefined);
  assert.equal(await ask(404, 403), undefined);
});

test("does not wait for the end of a stream of events", async () => {
  await using server = createServer((_request, response) => {
    response.writeHead(200, { "content-type": "text/event-stream" }).write("data: 1\n\n");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { healthy } = await checkHealth((server.address() as AddressInfo).port, "");
  assert.deepEqual(healthy, { path: "/ok" });
  server.closeAllConnections();
});
