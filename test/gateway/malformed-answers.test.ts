import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { eventually, exchangeRaw, route, startGateway } from "./harness.ts";

const ask = "GET /d/demo/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
const askWebSocket = "GET /d/demo/x HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";

test("answers 502 instead of a malformed answer, for requests and WebSockets, and keeps serving", async () => {
  const broken = [
    "HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 000 X\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 1000 X\r\n\r\n",
    "HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-Own: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX-Own: a\x01b\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nX Y: a\r\nContent-Length: 0\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n",
    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    `HTTP/1.1 200 OK\r\nX-Own: ${"x".repeat(20_000)}\r\nContent-Length: 0\r\n\r\n`,
    "HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n",
    "HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\nX-Own: a\r\n b\r\n\r\n",
    "SSH-2.0-OpenSSH\r\n\r\n",
    "",
  ];
  await using agent = await startRawAgent();
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target]));
  for (const answer of broken) {
    agent.say((socket) => socket.end(answer, "latin1"));
    for (const request of [ask, askWebSocket]) {
      const got = await exchangeRaw(site.port, request);
      assert.match(got, /^HTTP\/1\.1 502 Bad Gateway\r\n/, `${answer.slice(0, 80)} -> ${got}`);
      assert.match(got, /x-pierhead-revision: rev-1\r\n[\s\S]*"Revision rev-1 did not answer: [^"]+\."\}$/);
    }
  }
  agent.say((socket) => socket.end("HTTP/1.1 101 S\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"));
  assert.match(await exchangeRaw(site.port, ask), /^HTTP\/1\.1 502 [\s\S]*a protocol that was not requested/);
  await eventually(
    () => site.gateway.inFlight("r1"),
    (count) => count === 0,
  );
});

test("sends chunks that arrive together as one, because an agent may send millions of one byte", async () => {
  const count = 20_000;
  await using agent = await startRawAgent();
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target]));
  const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
  agent.say((socket) => socket.end(`${head}${"1\r\na\r\n".repeat(count)}0\r\n\r\n`));
  const [, body = ""] = (await exchangeRaw(site.port, ask)).split("\r\n\r\n");
  const parts = body.split("\r\n").filter((_, index) => index % 2 === 1);
  assert.equal(parts.join(""), "a".repeat(count));
  assert.ok(parts.length < 1_000, `${parts.length} chunks`);
});

test("answers 502 to an agent that sends interim answers without end", async () => {
  await using agent = await startRawAgent();
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target]));
  const interim = "HTTP/1.1 102 Processing\r\n\r\n";
  const last = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  agent.say((socket) => socket.end(interim.repeat(100) + last));
  assert.match(await exchangeRaw(site.port, ask), /^HTTP\/1\.1 200 OK\r\n/);
  agent.say((socket) => socket.end(interim.repeat(5_000) + last));
  assert.match(await exchangeRaw(site.port, ask), /^HTTP\/1\.1 502 Bad Gateway\r\n/);
});

test("passes old and unusual but valid answers", async () => {
  await using agent = await startRawAgent();
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target]));
  const passed = async (answer: string) => {
    agent.say((socket) => socket.end(answer, "latin1"));
    return await exchangeRaw(site.port, ask);
  };
  assert.match(await passed("HTTP/1.0 200 OK\r\n\r\nold"), /^HTTP\/1\.1 200 OK\r\n[\s\S]*\r\n3\r\nold\r\n0\r\n\r\n$/);
  assert.match(await passed("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"), /^HTTP\/1\.1 200 \r\n/);
  assert.match(
    await passed("HTTP/1.1 299 Own\r\nX-Own: \xe9\r\nContent-Length: 0\r\n\r\n"),
    /299 Own\r\n[\s\S]*X-Own: \xe9\r\n/,
  );
  assert.match(
    await passed("HTTP/1.1 103 E\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
    /ok$/,
  );
  const noContent = await passed("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello");
  assert.match(noContent, /^HTTP\/1\.1 204 No Content\r\n/);
  assert.doesNotMatch(noContent, /content-length|hello/i);
});

test("never mixes bytes after an answer into the answer to the next request", async () => {
  await using agent = await startRawAgent();
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target]));
  const answer = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  for (const delayMs of [0, 20]) {
    let sent = 0;
    agent.say((socket) => {
      sent += 1;
      socket.write(answer(`right ${sent}`));
      setTimeout(() => socket.write(answer("wrong"), () => {}), delayMs);
    });
    for (let at = 1; at <= 5; at += 1) {
      assert.match(await exchangeRaw(site.port, ask), new RegExp(`right ${at}$`));
      const before = Date.now();
      await eventually(
        () => Date.now() - before,
        (passed) => passed > 2 * delayMs,
      );
    }
  }
});

/** Sends the given bytes on every request. */
async function startRawAgent() {
  let speak: (socket: Socket) => void = () => {};
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    socket.on("data", () => speak(socket));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    target: { replicaId: "r1", host: "127.0.0.1", port: (server.address() as AddressInfo).port },
    say(next: (socket: Socket) => void) {
      speak = next;
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, "close");
    },
  };
}
