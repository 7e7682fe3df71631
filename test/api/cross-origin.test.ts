import assert from "node:assert/strict";
import { test } from "node:test";
import { readOrigins } from "../../src/api/http/cross-origin.ts";
import { consoleHeader } from "../../src/contract/administration/session.ts";
import { startApi } from "./harness.ts";

const origin = "https://app.example.org";
const { ask } = await startApi({ corsOrigins: [origin] });

const preflight = (from: string) =>
  ask({
    method: "OPTIONS",
    url: "/v2/deployments",
    key: null,
    headers: { origin: from, "access-control-request-method": "POST", "access-control-request-headers": "x-api-key" },
  });

test("a listed origin may call with a key, and its page may read answers and errors", async () => {
  const asked = await preflight(origin);
  assert.equal(asked.status, 204);
  assert.equal(asked.headers["access-control-allow-origin"], origin);
  assert.match(String(asked.headers["access-control-allow-headers"]), /\bx-api-key\b/);
  for (const [key, status] of [
    [undefined, 200],
    ["wrong", 401],
  ] as const) {
    const answer = await ask({ url: "/v2/deployments", headers: { origin }, ...(key !== undefined && { key }) });
    assert.equal(answer.status, status);
    assert.equal(answer.headers["access-control-allow-origin"], origin);
    assert.equal(answer.headers["vary"], "Origin");
  }
});

test("no other origin is allowed, and no page may send cookies or the console's own header", async () => {
  for (const other of ["https://example.org", "https://app.example.org.invalid", "http://app.example.org", "null"]) {
    assert.equal((await preflight(other)).headers["access-control-allow-origin"], undefined, other);
    const answer = await ask({ url: "/v2/deployments", headers: { origin: other } });
    assert.equal(answer.headers["access-control-allow-origin"], undefined, other);
  }
  const { headers } = await preflight(origin);
  assert.equal(headers["access-control-allow-credentials"], undefined);
  assert.doesNotMatch(String(headers["access-control-allow-headers"]), new RegExp(consoleHeader));
});

test("without listed origins a preflight request is answered like any unknown verb", async () => {
  const { ask: plain } = await startApi();
  const answer = await plain({
    method: "OPTIONS",
    url: "/v2/deployments",
    headers: { origin, "access-control-request-method": "POST" },
  });
  assert.equal(answer.status, 405);
  assert.equal(answer.headers["access-control-allow-origin"], undefined);
});

test("the setting takes origins only", () => {
  assert.deepEqual(readOrigins(" https://a.example.org/, http://localhost:3000 ,"), [
    "https://a.example.org",
    "http://localhost:3000",
  ]);
  for (const given of ["*", "app.example.org", "https://a/path", "https://a.example.org?x", "ftp://a"]) {
    assert.throws(() => readOrigins(given), /^Error: PIERHEAD_CORS_ORIGINS must be origins .*got "/, given);
  }
});
