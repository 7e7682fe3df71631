import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { eventually, openRaw, readBody, route, startGateway, startTarget } from "./harness.ts";

const timeout = 120_000;

setFlagsFromString("--expose_gc");
const collectGarbage = runInNewContext("gc") as () => void;

const heapMib = () => {
  collectGarbage();
  return process.memoryUsage().heapUsed / 1_048_576;
};

const tiny = Buffer.from("1\r\nx\r\n".repeat(20_000));

/** An agent that answers each request on a connection of its own with chunks of one byte, without end. */
async function startTinyChunkAgent() {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    const pump = () => {
      while (!socket.destroyed && socket.write(tiny));
    };
    socket.on("error", () => {}).on("drain", pump);
    socket.once("data", () => {
      socket.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
      pump();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    target: { replicaId: "r1", host: "127.0.0.1", port },
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

test("answers in tiny chunks that their clients do not read take little memory", { timeout }, async () => {
  using agent = await startTinyChunkAgent();
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target]));
  const before = heapMib();
  const pipelined = "GET /d/demo/x HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10);
  const clients = await Promise.all(Array.from({ length: 6 }, () => openRaw(site.port)));
  for (const { socket } of clients) {
    socket.pause();
    socket.write(pipelined);
  }
  // Of ten answers on one connection, nine have begun and wait.
  await eventually(
    () => site.gateway.counts()[0]?.latency.count,
    (begun) => begun === 60,
  );
  const grownMib = heapMib() - before;
  for (const client of clients) client[Symbol.dispose]();
  assert.ok(grownMib < 40, `${Math.round(grownMib)} MiB for 60 answers`);
});

test("a long answer and a long body in tiny chunks arrive whole", { timeout }, async () => {
  const count = 200_000;
  await using agent = await startTarget(async (request, response) => {
    const body = await readBody(request);
    response.writeHead(200, { "x-received": String(body.length) });
    for (let at = 0; at < count; at += 1_000) {
      for (let more = 0; more < 1_000; more += 1) response.write("x");
      if (response.writableNeedDrain) await once(response, "drain");
    }
    response.end();
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  using caller = await openRaw(site.port, "POST /d/demo/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n");
  caller.socket.write(`${"1\r\ny\r\n".repeat(count)}0\r\n\r\n`);
  await caller.until(/\r\n0\r\n\r\n$/);
  assert.match(caller.received(), new RegExp(`x-received: ${count}\r\n`));
  const [, ...parts] = caller.received().split("\r\n\r\n");
  const xs = parts.join("").match(/x/g)?.length;
  assert.equal(xs, count);
});
