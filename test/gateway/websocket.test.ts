import assert from "node:assert/strict";
import type { Duplex } from "node:stream";
import { test } from "node:test";
import { eventually, exchangeRaw, openRaw, readBody, route, startGateway, startTarget } from "./harness.ts";

const handshake = (path = "/d/demo/ws", upgrade = "websocket") =>
  `GET ${path} HTTP/1.1\r\nHost: a.example\r\nConnection: keep-alive, Upgrade\r\nUpgrade: ${upgrade}\r\n` +
  "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nX-Request-Id: ws-1\r\n\r\n";

test("passes a WebSocket in both directions, early bytes included, and counts it in flight until it ends", async () => {
  await using agent = await echoingAgent();
  await using site = await startGateway({ limits: { requestDurationMs: 2_000, idleSocketMs: 50 } });
  site.gateway.setRoute(route([agent.target("r1")]));
  using raw = await openRaw(site.port, `${handshake()}early `);

  const head = (await raw.until(/early $/)).split("\r\n\r\n")[0] ?? "";
  assert.deepEqual(head.split("\r\n"), [
    "HTTP/1.1 101 Switching Protocols",
    "x-request-id: ws-1",
    "x-pierhead-revision: rev-1",
    "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=",
    "connection: Upgrade",
    "upgrade: websocket",
  ]);
  assert.equal(agent.seen[0]?.["x-forwarded-host"], "a.example");
  assert.equal(agent.seen[0]?.["sec-websocket-key"], "dGhlIHNhbXBsZSBub25jZQ==");
  for (let at = 0; at < 20; at += 1) {
    raw.socket.write(`message ${at};`);
    await raw.until(new RegExp(`message ${at};$`));
  }
  assert.equal(site.gateway.inFlight("r1"), 1);
  // Quiet for longer than the limits of requests and of idle connections.
  const before = Date.now();
  await eventually(
    () => Date.now() - before,
    (passed) => passed > 2_500,
  );
  raw.socket.write("still here");
  await raw.until(/still here$/);

  const drained = site.gateway.drained("r1", { timeoutMs: 30_000, signal: new AbortController().signal });
  raw.socket.end();
  assert.equal(await drained, true);
  await eventually(
    () => agent.open(),
    (open) => open === 0,
  );
  const { answers, failures } = site.gateway.counts()[0] ?? assert.fail();
  assert.deepEqual([answers["1xx"], failures.aborted, failures.cut], [1, 0, 0]);
});

test("ends the client's connection when the agent server ends a WebSocket", async () => {
  await using agent = await echoingAgent();
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  using raw = await openRaw(site.port, handshake());
  await raw.until(/\r\n\r\n/);
  raw.socket.write("bye");
  await eventually(raw.isEnded, (isEnded) => isEnded);
  await eventually(
    () => site.gateway.inFlight("r1"),
    (count) => count === 0,
  );
});

test("lets a WebSocket wait for a held or sleeping route like any request, and leave meanwhile", async () => {
  await using agent = await echoingAgent();
  await using site = await startGateway();
  let woken = 0;
  site.gateway.onWake(() => {
    woken += 1;
  });
  site.gateway.setRoute(route([], { state: "asleep" }));
  using leaver = await openRaw(site.port, handshake());
  using halfLeaver = await openRaw(site.port, handshake());
  using stayer = await openRaw(site.port, `${handshake()}early `);
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 3,
  );
  leaver.socket.destroy();
  halfLeaver.socket.end();
  await eventually(
    () => site.gateway.health().waiting,
    (waiting) => waiting === 1,
  );
  stayer.socket.write("more");

  site.gateway.setRoute(route([agent.target("r1")]));

  await stayer.until(/\r\n\r\nearly more$/);
  assert.deepEqual([woken, agent.seen.length], [1, 1]);
});

test("returns the answer of an agent server that declines the upgrade, then closes the connection", async () => {
  await using agent = await startTarget((_, response) => {
    response.writeHead(426, { "x-own": "yes", "content-length": 3 }).end("no!");
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  using raw = await openRaw(site.port, handshake());
  await eventually(raw.isEnded, (isEnded) => isEnded);
  assert.match(raw.received(), /^HTTP\/1\.1 426 [\s\S]*x-pierhead-revision: rev-1\r\n[\s\S]*x-own: yes\r\n[\s\S]*no!$/);
  await eventually(
    () => site.gateway.inFlight("r1"),
    (count) => count === 0,
  );
});

test("answers refused WebSocket requests with HTTP responses", async () => {
  await using agent = await echoingAgent();
  await using site = await startGateway();
  site.gateway.setRoute(route([], { state: "closed", because: "Stopped." }));
  site.gateway.setRoute(route([agent.target("r2")], { slug: "gone", deploymentId: "dep-2" }));
  site.gateway.setRoute(route([agent.target("r3")], { slug: "alive", deploymentId: "dep-3" }));
  const ask = async (path: string) => {
    using raw = await openRaw(site.port, handshake(path));
    await eventually(raw.isEnded, (isEnded) => isEnded);
    return raw.received();
  };
  assert.match(await ask("/d/alive/%69nternal/ws"), /^HTTP\/1\.1 404 /);
  assert.match(await ask("/d/nobody/ws"), /^HTTP\/1\.1 404 /);
  assert.match(await ask("/d/demo/ws"), /^HTTP\/1\.1 503 [\s\S]*"Stopped."/);
  await agent.stop();
  assert.match(await ask("/d/gone/ws"), /^HTTP\/1\.1 502 [\s\S]*"Revision rev-1 did not answer: connection refused."/);
});

test("answers a request that offers an upgrade to another protocol, as Java's client does, like any other", async () => {
  const seen: unknown[] = [];
  await using agent = await startTarget(async (request, response) => {
    const { method, url, headers } = request;
    seen.push([method, url, headers.upgrade, headers["http2-settings"], `${await readBody(request)}`]);
    response.end("plain");
  });
  agent.server.on("upgrade", (_request, socket: Duplex) =>
    socket.end("HTTP/1.1 101 OK\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"),
  );
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const lines =
    "HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n";
  const requests = [
    [`GET /d/demo/1 ${lines}\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`, 200],
    [`POST /d/demo/2 ${lines}Content-Length: 3\r\n\r\nabc`, 200],
    [`POST /d/demo/3 ${lines}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\nGET /d/demo/4 HTTP/1.1\r\n`, 200],
    [`GET /d/demo/internal/x ${lines}\r\n`, 404],
    [`POST /ours ${lines}Connection: close\r\nContent-Length: 3\r\n\r\nabc`, 418],
  ] as const;
  for (const [request, status] of requests) {
    const answer = await exchangeRaw(site.port, request);
    assert.deepEqual(answer.match(/HTTP\/1\.1 \d+/g), [`HTTP/1.1 ${status}`]);
    assert.match(answer, /\r\nConnection: close\r\n/i);
  }
  assert.deepEqual(seen, [
    ["GET", "/1", undefined, undefined, ""],
    ["POST", "/2", undefined, undefined, "abc"],
    ["POST", "/3", undefined, undefined, "abc"],
  ]);

  const body = await exchangeRaw(site.port, handshake().replace("\r\n\r\n", "\r\nContent-Length: 3\r\n\r\nabc"));
  assert.match(body, /^HTTP\/1\.1 400 /);

  using switched = await openRaw(site.port, handshake());
  await eventually(switched.isEnded, (isEnded) => isEnded);
  assert.match(switched.received(), /^HTTP\/1\.1 502 [\s\S]*a protocol that was not requested/);
});

/** Accepts every WebSocket and echoes the raw bytes. Ends on `bye`. */
async function echoingAgent() {
  const target = await startTarget((_, response) => response.end());
  const seen: Record<string, unknown>[] = [];
  const sockets = new Set<Duplex>();
  target.server.on("upgrade", (request, socket: Duplex, head: Buffer) => {
    seen.push(request.headers);
    sockets.add(socket.on("error", () => {}).on("close", () => sockets.delete(socket)));
    const accept = "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n${accept}\r\n\r\n`);
    socket.write(head);
    socket.on("end", () => socket.end());
    socket.on("data", (data: Buffer) => {
      if (data.toString() === "bye") socket.end();
      else socket.write(data);
    });
  });
  const stop = async () => {
    for (const socket of sockets) socket.destroy();
    await target.stop();
  };
  return { ...target, seen, stop, open: () => sockets.size, [Symbol.asyncDispose]: stop };
}
