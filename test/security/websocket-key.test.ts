import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { eventually, openRaw, route, startGateway } from "../gateway/harness.ts";

test("no WebSocket of an agent opens without a key, also not at its health path", async () => {
  let upgrades = 0;
  const agent = createServer((_request, response) => response.end("ok"));
  agent.on("upgrade", (_request, socket) => {
    upgrades += 1;
    socket.end("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
  });
  agent.listen(0, "127.0.0.1");
  await once(agent, "listening");
  try {
    await using site = await startGateway({
      identify: async (headers) =>
        headers["x-api-key"] === "mine" ? { workspaceId: "w1" } : { status: 401, detail: "Invalid token" },
    });
    const target = { replicaId: "r1", host: "127.0.0.1", port: (agent.address() as AddressInfo).port };
    site.gateway.setRoute(route([target], { admission: { workspaceId: "w1" } }));
    const statusOf = async (path: string, upgrade: string, key = "") => {
      const head = `GET /d/demo${path} HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: ${upgrade}\r\n`;
      const more = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n";
      using raw = await openRaw(site.port, `${head}${more}${key === "" ? "" : `X-Api-Key: ${key}\r\n`}\r\n`);
      return Number(/^HTTP\/1\.1 (\d+)/.exec(await raw.until(/\r\n\r\n/))?.[1]);
    };
    for (const path of ["/ok", "/ok/", "/ok?x=1", "/ws"]) {
      assert.equal(await statusOf(path, "websocket"), 401, path);
      assert.equal(await statusOf(path, "WebSocket"), 401, path);
    }
    assert.equal(upgrades, 0, "the agent saw no upgrade");
    assert.equal((await fetch(`${site.url}/d/demo/ok`)).status, 200, "health checks still need no key");
    assert.equal(await statusOf("/ok", "h2c"), 200, "another upgrade is ignored");
    assert.equal(await statusOf("/ws", "websocket", "mine"), 101);
    assert.equal(upgrades, 1);
  } finally {
    agent.closeAllConnections();
    agent.close();
  }
});

test("a WebSocket of an agent ends with the key that opened it, and not while the control plane is away", async () => {
  const agent = createServer((_request, response) => response.end("ok"));
  agent.on("upgrade", (_request, socket) => {
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    socket.on("error", () => {}).pipe(socket);
  });
  agent.listen(0, "127.0.0.1");
  await once(agent, "listening");
  let answer: "admits" | "is away" | "refuses" = "admits";
  let asked = 0;
  try {
    await using site = await startGateway({
      limits: { callerMemoryMs: 20 },
      identify: async () => {
        asked += 1;
        if (answer === "is away") throw new Error("away");
        return answer === "admits" ? { workspaceId: "w1" } : { status: 401, detail: "Invalid token" };
      },
    });
    const target = { replicaId: "r1", host: "127.0.0.1", port: (agent.address() as AddressInfo).port };
    site.gateway.setRoute(route([target], { admission: { workspaceId: "w1" } }));
    const head = "GET /d/demo/ws HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n";
    const more = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nX-Api-Key: mine\r\n\r\n";
    using raw = await openRaw(site.port, head + more);
    await raw.until(/101 Switching[\s\S]*\r\n\r\n/);
    for (const what of ["admits", "is away"] as const) {
      answer = what;
      const until = asked + 3;
      await eventually(
        () => asked,
        (count) => count >= until,
      );
      raw.socket.write(what);
      await raw.until(new RegExp(what));
    }
    answer = "refuses";
    await eventually(raw.isEnded, (isEnded) => isEnded);
  } finally {
    agent.closeAllConnections();
    agent.close();
  }
});
