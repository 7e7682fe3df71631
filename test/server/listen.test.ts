import assert from "node:assert/strict";
import { test } from "node:test";
import { fastify } from "fastify";
import { createGateway } from "../../src/gateway/gateway.ts";
import { listen } from "../../src/server/listen.ts";
import { createLogger } from "../../src/telemetry/log.ts";
import { exchangeRaw } from "../gateway/harness.ts";

test("a call that asks for HTTP/2 besides, as Java's client does, is answered by the API as any other", async () => {
  const logger = createLogger("silent");
  const gateway = createGateway({ rootDomain: "localhost", pathPrefix: "/d/", publicUrl: null, logger });
  const api = fastify();
  api.post("/v2/deployments", (request) => request.body);
  const parts = { api, gateway, door: null, metrics: () => Promise.reject(new Error("none")) };
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
