import assert from "node:assert/strict";
import type { IncomingMessage } from "node:http";
import { test } from "node:test";
import { readTrustedProxies } from "../../src/base/trusted-proxies.ts";

const proxies = readTrustedProxies("10.0.0.0/8, fd00::/8");

function clientOf(remoteAddress: string, forwardedFor: string): string {
  const request = { headers: { "x-forwarded-for": forwardedFor }, socket: { remoteAddress } };
  return proxies.clientOf(request as unknown as IncomingMessage);
}

test("takes the last address that is not a trusted proxy as the client's", () => {
  assert.equal(clientOf("10.0.0.1", "192.0.2.9, 192.0.2.1, 10.0.0.2"), "192.0.2.1");
  assert.equal(clientOf("192.0.2.7", "192.0.2.1"), "192.0.2.7", "headers of other peers are ignored");
  assert.equal(clientOf("10.0.0.1", "not an address"), "10.0.0.1");
});

test("finds the client's address when a proxy adds the port to it", () => {
  assert.equal(clientOf("10.0.0.1", "192.0.2.1:4711"), "192.0.2.1");
  assert.equal(clientOf("fd00::1", "[2001:db8::1]:4711, [fd00::2]"), "2001:db8::1");
  assert.equal(clientOf("10.0.0.1", "2001:db8::1"), "2001:db8::1");
  assert.equal(clientOf("10.0.0.1", "192.0.2.1:port"), "10.0.0.1");
});
