import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { fastify } from "fastify";
import { createGateway, gatewayServerOptions } from "../../src/gateway/gateway.ts";
import { repositoryPrefix, signAccess, tokenUser } from "../../src/registry/access-token.ts";
import { RegistryProxy } from "../../src/registry/registry-proxy.ts";
import { listen } from "../../src/server/listen.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { exchangeRaw, openRaw, route } from "../gateway/harness.ts";
import { eventually } from "../support/eventually.ts";
import { freePort } from "../support/free-port.ts";
import { resetSocket } from "../support/reset-socket.ts";

test("answers a request that offers an upgrade to HTTP/2, as Java's client does, like any other", async () => {
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const api = fastify();
  api.post("/v2/deployments", (request) => request.body);
  const parts = { api, gateway, registryProxy: null, metrics: () => Promise.reject(new Error("none")) };
  const listening = await listen(parts, { host: "127.0.0.1", port: 0, gatewayPort: undefined });
  const asked =
    "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\nConnection: close\r\n";
  const body = '{"name":"agent"}';
  const sent = `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
  const text = `POST /v2/deployments HTTP/1.1\r\nHost: a\r\n${asked}${sent}`;
  const answer = await exchangeRaw(Number(new URL(listening.url).port), text);
  await listening.close();
  assert.match(answer, /^HTTP\/1\.1 200 [\s\S]*{"name":"agent"}$/);
});

const askForWebSocket = (path: string) =>
  `GET ${path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n`;

async function startListening() {
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const parts = { api: fastify(), gateway, registryProxy: null, metrics: () => Promise.reject(new Error("none")) };
  const listening = await listen(parts, { host: "127.0.0.1", port: 0, gatewayPort: undefined });
  return { gateway, listening, port: Number(new URL(listening.url).port) };
}

test("survives clients that request a WebSocket from the API, and keeps none of their connections", async () => {
  const { listening, port } = await startListening();
  for (let client = 0; client < 50; client += 1) {
    const socket = connect(port, "127.0.0.1").on("error", () => {});
    const closed = once(socket, "close");
    await once(socket, "connect");
    socket.write(askForWebSocket("/v2/deployments"), () => resetSocket(socket));
    await closed;
  }
  // This client never ends its half of the connection.
  const stayer = connect({ port, host: "127.0.0.1", allowHalfOpen: true }).on("error", () => {});
  stayer.write(askForWebSocket("/v2/deployments"));
  const [answer] = await once(stayer, "data");
  assert.match(String(answer), /^HTTP\/1\.1 404 /);
  const began = performance.now();
  await listening.close();
  stayer.destroy();
  assert.ok(performance.now() - began < 1_500, "the server waited for a connection");
});

test("stops while a WebSocket is open", { timeout: 30_000 }, async () => {
  const { gateway, listening, port } = await startListening();
  const agent = createServer().on("upgrade", (_request, socket) => {
    socket.on("error", () => {}).on("end", () => socket.destroy());
    socket.resume();
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
  });
  agent.listen(0, "127.0.0.1");
  await once(agent, "listening");
  const target = { replicaId: "r1", host: "127.0.0.1", port: (agent.address() as AddressInfo).port };
  gateway.setRoute(route([target]));
  using client = await openRaw(port, askForWebSocket("/d/demo/socket"));
  await client.until(/^HTTP\/1\.1 101 /);
  await listening.close();
  await once(agent.close(), "close");
});

test("enables TCP keep-alive, so that the kernel detects a client that vanished", {
  skip: process.platform !== "linux" && "needs /proc",
}, async () => {
  const { listening, port } = await startListening();
  const client = connect(port, "127.0.0.1");
  try {
    await once(client, "connect");
    const hex = (one: number) => `0100007F:${one.toString(16).toUpperCase().padStart(4, "0")}`;
    const row = `${hex(port)} ${hex((client.address() as AddressInfo).port)} 01 `;
    const found = () => readFileSync("/proc/net/tcp", "utf8").split(row)[1];
    const rest = await eventually(found, (text) => text !== undefined);
    // proc(5): the queues and the timer follow. 02 is the keep-alive timer.
    assert.equal(rest?.split(" ")[1]?.split(":")[0], "02");
  } finally {
    client.destroy();
    await listening.close();
  }
});

test("gives an image layer more time to arrive than other requests, which time out with 408", async (context) => {
  const { headersTimeout, connectionsCheckingInterval, requestTimeout } = gatewayServerOptions;
  Object.assign(gatewayServerOptions, { headersTimeout: 300, connectionsCheckingInterval: 50, requestTimeout: 300 });
  context.after(() =>
    Object.assign(gatewayServerOptions, { headersTimeout, connectionsCheckingInterval, requestTimeout }),
  );
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const api = fastify();
  api.post("/v2/deployments", (request) => request.body);
  let received = "";
  const registry = createServer((request, response) => {
    request.setEncoding("utf8").on("data", (text: string) => {
      received += text;
    });
    request.on("end", () => response.writeHead(202).end());
  }).listen(0, "127.0.0.1");
  await once(registry, "listening");
  const origin = `http://127.0.0.1:${(registry.address() as AddressInfo).port}`;
  const signer = { sign: () => "signed", isSigned: () => true };
  const registryProxy = new RegistryProxy({
    signer,
    logger,
    upstream: async () => ({ origin, prefix: "", login: null }),
  });
  context.after(() => {
    registryProxy.close();
    registry.close();
  });
  const parts = { api, gateway, registryProxy, metrics: () => Promise.reject(new Error("none")) };
  const listening = await listen(parts, { host: "127.0.0.1", port: 0, gatewayPort: undefined });
  context.after(() => listening.close());
  const deploymentId = randomUUID();
  const token = signAccess(signer, { deploymentId, kind: "push" });
  const authorization = `Basic ${Buffer.from(`${tokenUser}:${token}`).toString("base64")}`;
  const send = async (method: string, path: string, type: string) => {
    const headers = `Host: a\r\nAuthorization: ${authorization}\r\nContent-Type: ${type}\r\nContent-Length: 4\r\n`;
    using client = await openRaw(
      Number(new URL(listening.url).port),
      `${method} ${path} HTTP/1.1\r\n${headers}Connection: close\r\n\r\n12`,
    );
    await sleep(1_000);
    client.socket.write("34");
    return await client.until(/^HTTP\/1\.1 \d+ /);
  };
  const layer = `/v2/${repositoryPrefix(deploymentId)}app/blobs/uploads/1`;
  assert.match(await send("PATCH", layer, "application/octet-stream"), /^HTTP\/1\.1 202 /);
  assert.equal(received, "1234");
  assert.match(await send("POST", "/v2/deployments", "application/json"), /^HTTP\/1\.1 408 /);
});

test("returns an address that clients and container engines can reach when it listens on all addresses", async () => {
  const logger = createLogger("silent");
  for (const [host, name] of [
    ["0.0.0.0", "127.0.0.1"],
    ["::", "127.0.0.1"],
    ["::1", "[::1]"],
    ["localhost", "localhost"],
  ] as const) {
    const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
    const parts = { api: fastify(), gateway, registryProxy: null, metrics: () => Promise.reject(new Error("none")) };
    const listening = await listen(parts, { host, port: 0, gatewayPort: undefined });
    const asked = await fetch(listening.url).then(({ status }) => status);
    await listening.close();
    assert.deepEqual([new URL(listening.url).hostname, asked], [name, 404], host);
  }
});

test("releases its own port when the gateway port is taken, and names the setting of the gateway port", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { port: gatewayPort } = other.address() as AddressInfo;
  const port = await freePort();
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const parts = { api: fastify(), gateway, registryProxy: null, metrics: () => Promise.reject(new Error("none")) };
  await assert.rejects(
    listen(parts, { host: "127.0.0.1", port, gatewayPort }),
    new RegExp(`port ${gatewayPort} .* is taken: .* PIERHEAD_GATEWAY_PORT$`),
  );
  // Listening succeeds only if the port is free.
  const next = createServer().listen(port, "127.0.0.1");
  await once(next, "listening");
  await Promise.all([other, next].map((server) => new Promise((resolve) => server.close(resolve))));
});
