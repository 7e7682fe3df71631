import assert from "node:assert/strict";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { createHttpServer } from "../../src/server/http-server.ts";
import { startTestServer } from "../support/server.ts";
import { openRaw } from "./raw-connection.ts";

const pierhead = await startTestServer({ PIERHEAD_COMPUTE: "simulated" });
after(() => pierhead[Symbol.asyncDispose]());

const timeout = 60_000;

/** Sends a request this many times in one write. Returns how many were answered before the connection ended or all had an answer. */
async function answered(count: number, path: string): Promise<number> {
  using connection = openRaw(pierhead.url);
  let received = "";
  const { promise: all, resolve } = Promise.withResolvers<void>();
  const answers = () => received.split("HTTP/1.1 ").length - 1;
  connection.socket.on("data", (chunk) => {
    received += chunk.toString("latin1");
    if (answers() >= count) resolve();
  });
  connection.send(`GET ${path} HTTP/1.1\r\nHost: a\r\n\r\n`.repeat(count));
  await Promise.race([all, connection.closed]);
  return answers();
}

test("a connection that sends thousands of requests without waiting for answers is closed and costs no answers", {
  timeout,
}, async () => {
  for (const path of ["/ok", "/docs", "/d/unknown/x", "/v2/deployments"]) {
    assert.ok((await answered(2_000, path)) <= 16, path);
  }
  assert.equal((await fetch(`${pierhead.url}/ok`)).status, 200);
});

test("the server does not even parse most of the requests of such a connection", { timeout }, async () => {
  let parsed = 0;
  const { server, end } = createHttpServer(
    { upgrade: () => {} },
    { answer: (_request, response) => void response.end("ok"), isForAgent: () => false },
  );
  server.on("request", () => {
    parsed += 1;
  });
  after(end);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  using hostile = openRaw(url);
  hostile.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2_000));
  await hostile.closed;
  assert.ok(parsed > 0 && parsed <= 20, `${parsed} requests`);
  assert.equal(await (await fetch(url)).text(), "ok");
});

test("a client may send some requests without waiting for answers, again and again", { timeout }, async () => {
  assert.equal(await answered(16, "/ok"), 16);
  using connection = openRaw(pierhead.url);
  let answers = 0;
  connection.socket.on("data", (chunk) => {
    answers += chunk.toString("latin1").split("HTTP/1.1 200").length - 1;
    if (answers % 10 === 0 && answers < 100) connection.send("GET /ok HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10));
    if (answers === 100) connection.socket.end();
  });
  connection.send("GET /ok HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10));
  await connection.closed;
  assert.equal(answers, 100);
});
