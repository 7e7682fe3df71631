import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { test } from "node:test";
import { pino } from "pino";
import { createRewrite } from "../../src/api/http/path-prefixes.ts";
import { startApi } from "./harness.ts";

const lines: Record<string, unknown>[] = [];
const logger = pino({ messageKey: "message" }, { write: (line: string) => void lines.push(JSON.parse(line)) });
let failure = new Error("explain deployment", { cause: new Error("write data: no space left on device") });
const t = await startApi({ basePath: "/pier" }, { logger, explain: () => Promise.reject(failure) });

const body = (name: string) => ({ name, source: "internal_source", source_config: {}, source_revision_config: {} });
const post = (payload: string, contentType?: string) =>
  t.ask({
    method: "POST",
    url: "/v2/deployments",
    payload,
    headers: contentType === undefined ? {} : { "content-type": contentType },
  });

test("every prefix and alias leads to the same routes, with and without a trailing slash, and never redirects", async () => {
  for (const base of ["", "/api-host", "/pier", "/pier/api-host", "/api", "/api/v1", "/api-host/api/v1"]) {
    for (const end of ["", "/", "//", "?limit=5", "/?limit=5"]) {
      const answer = await t.ask({ url: `${base}/v2/deployments${end}` });
      assert.equal(answer.status, 200, `${base}${end}`);
      assert.deepEqual(answer.body, { resources: [], offset: 0 });
    }
  }
  assert.equal((await t.ask({ url: `/api/v1/v1/projects/${randomUUID()}/deploy_logs`, method: "POST" })).status, 404);
  assert.equal((await t.ask({ url: "/api-host-else/v2/deployments" })).status, 404);
});

test("routes a path of maximum length at once", () => {
  const routed = createRewrite([]);
  const request = { url: `/${"/".repeat(16_000)}x` } as IncomingMessage;
  const began = performance.now();
  for (let times = 0; times < 50; times += 1) routed(request);
  assert.ok(performance.now() - began < 500, `${performance.now() - began} ms`);
});

test("answers 404 for an unknown path, and 405 with the allowed verbs for a known one", async () => {
  const unknown = await t.ask({ url: "/v2/nothing", key: null });
  assert.deepEqual([unknown.status, unknown.body], [404, { detail: "Not Found" }]);
  const wrong = await t.ask({ url: "/v2/deployments", method: "PUT", key: null, payload: "x".repeat(100) });
  assert.deepEqual([wrong.status, wrong.body], [405, { detail: "Method Not Allowed" }]);
  assert.equal(wrong.headers["allow"], "GET, POST, DELETE, HEAD");
  const named = await t.ask({ url: `/v2/deployments/${randomUUID()}`, method: "POST", key: null });
  assert.equal(named.headers["allow"], "GET, PATCH, DELETE, HEAD");
  assert.equal((await t.ask({ url: "/ok", method: "OPTIONS", key: null })).status, 405);
});

test("HEAD answers like GET, without the body", async () => {
  const answer = await t.ask({ url: "/v2/deployments", method: "HEAD" });
  assert.deepEqual([answer.status, answer.text], [200, ""]);
});

test("a path with stray percent signs reaches its route", async () => {
  for (const [path, found] of [
    ["%", "`%` at 1"],
    ["%zz", "`%` at 1"],
    ["%ff", "` ` at 1"],
    ["a%2Fb", "`/` at 2"],
  ] as const) {
    const answer = await t.ask({ url: `/v2/deployments/${path}` });
    assert.equal(answer.status, 422, path);
    if (path !== "%ff") assert.equal(answer.body.detail[0].ctx.error, `invalid character: found ${found}`);
  }
  assert.equal((await t.ask({ url: `/v2/deployments/${"a".repeat(2_000)}` })).status, 422);
});

test("an error carries its code in a header", async () => {
  const asked: [Parameters<typeof t.ask>[0], string][] = [
    [{ url: "/nope" }, "routeNotFound"],
    [{ method: "PUT", url: "/v2/deployments" }, "methodNotAllowed"],
    [{ url: "/v2/deployments", key: null }, "invalidToken"],
    [{ url: "/v2/deployments?limit=0" }, "invalidRequest"],
    [{ url: "/v2/deployments/00000000-0000-4000-8000-000000000000" }, "deploymentNotFound"],
  ];
  for (const [request, code] of asked) assert.equal((await t.ask(request)).headers["x-pierhead-error"], code);
});

test("every response carries the id of its request, and a client's id is kept", async () => {
  const own = await t.ask({ url: "/v2/nothing" });
  assert.match(String(own.headers["x-request-id"]), /^[0-9a-f-]{36}$/);
  const sent = await t.ask({ url: "/ok", headers: { "x-request-id": "trace-7" } });
  assert.equal(sent.headers["x-request-id"], "trace-7");
  const odd = await t.ask({ url: "/ok", headers: { "x-request-id": "a b<script>" } });
  assert.notEqual(odd.headers["x-request-id"], "a b<script>");
});

test("a bug answers 500 without details; the log has the chain of causes under the request id", async () => {
  const made = await post(JSON.stringify(body("bug")), "application/json");
  const answer = await t.ask({ url: `/debug/v1/deployments/${made.body.id}`, headers: { "x-request-id": "bug-1" } });
  assert.deepEqual([answer.status, answer.body], [500, { detail: "Internal Server Error" }]);
  const failed = lines.find((line) => line["message"] === "request failed");
  assert.equal(failed?.["request_id"], "bug-1");
  assert.equal(failed?.["operation"], "debugDeployment");
  assert.equal(failed?.["error"], "explain deployment: write data: no space left on device");
});

test("an unreachable database answers 503 with the time to retry", async () => {
  const made = await post(JSON.stringify(body("away")), "application/json");
  for (const away of [
    Object.assign(new Error("connect ECONNREFUSED 127.0.0.1:5432"), { code: "ECONNREFUSED" }),
    Object.assign(new Error("terminating connection due to administrator command"), { code: "57P01" }),
    Object.assign(new Error("connect EHOSTUNREACH 10.0.0.5:5432"), { code: "EHOSTUNREACH" }),
    Object.assign(new Error("canceling statement due to statement timeout"), { code: "57014" }),
    Object.assign(new Error("cannot execute INSERT in a read-only transaction"), { code: "25006" }),
    new Error("read state", { cause: new Error("Connection terminated unexpectedly") }),
    Object.assign(new Error("reopened"), { isRetryable: true }),
  ]) {
    failure = away;
    const answer = await t.ask({ url: `/debug/v1/deployments/${made.body.id}` });
    assert.equal(answer.status, 503, away.message);
    assert.match(String(answer.headers["retry-after"]), /^\d+$/);
    assert.match(answer.body.detail, /database/);
  }
});

test("logs one line per request, never its query", async () => {
  lines.length = 0;
  await t.ask({ url: "/v2/deployments?name=hush-hush", headers: { "x-request-id": "line-1" } });
  const own = lines.filter((line) => line["request_id"] === "line-1");
  assert.equal(own.length, 1);
  assert.equal(own[0]?.["operation"], "listDeployments");
  assert.equal(own[0]?.["status"], 200);
  assert.equal(own[0]?.["tenant_id"], t.tenant.tenantId);
  assert.equal(typeof own[0]?.["duration_ms"], "number");
  assert.ok(!JSON.stringify(lines).includes("hush-hush"));
});

test("routes without a body ignore one, whatever the headers say", async () => {
  const id = (await post(JSON.stringify(body("no-body")), "application/json")).body.id;
  const url = `/v2/deployments/${id}/upload-url`;
  for (const headers of [{}, { "content-type": "application/json" }, { "content-type": "" }]) {
    assert.equal((await t.ask({ method: "POST", url, headers })).status, 200);
    assert.equal((await t.ask({ method: "GET", url: `/v2/deployments/${id}`, headers })).status, 200);
  }
  assert.equal((await t.ask({ method: "POST", url, payload: "{not json" })).status, 200);
  const revision = await t.ask({
    method: "POST",
    url: `/v1/projects/${id}/deploy_logs`,
    headers: { "content-type": "application/json" },
  });
  assert.deepEqual([revision.status, revision.body], [200, { logs: [], next_offset: "0" }]);
  const headers = { "content-type": "application/json" };
  assert.equal((await t.ask({ method: "DELETE", url: `/v2/deployments/${id}`, headers })).status, 204);
});

test("reports a body that is missing, null or not an object", async () => {
  const missing = { type: "missing", loc: ["body"], msg: "Field required", input: null };
  assert.deepEqual((await post("", "application/json")).body.detail, [missing]);
  assert.deepEqual((await post("null", "application/json")).body.detail, [missing]);
  const list = await post("[1]", "application/json");
  assert.deepEqual(
    [list.status, list.body.detail[0].type, list.body.detail[0].input],
    [422, "model_attributes_type", [1]],
  );
  const broken = await post('{"name": }', "application/json");
  assert.deepEqual(broken.body.detail, [
    { type: "json_invalid", loc: ["body", 9], msg: "JSON decode error", input: {}, ctx: { error: "Expecting value" } },
  ]);
});

test("parses JSON whatever its media type; other text is not an object and is not echoed", async () => {
  for (const type of [
    "application/json; charset=utf-8",
    "application/vnd.x+json",
    "text/plain",
    "application/x-www-form-urlencoded",
  ]) {
    assert.equal((await post(JSON.stringify(body(`as ${type.length}`)), type)).status, 201, type);
  }
  assert.equal((await post(`\ufeff${JSON.stringify(body("bom"))}`, "application/json")).status, 201);
  assert.equal((await post(JSON.stringify(body("odd")), ";;;")).status, 201);
  const form = await post("name=x&secrets=sk-hidden", "application/x-www-form-urlencoded");
  assert.deepEqual(
    [form.status, form.body.detail[0].type, form.body.detail[0].loc],
    [422, "model_attributes_type", ["body"]],
  );
  assert.ok(!form.text.includes("sk-hidden"));
});

test("a body cannot reach a prototype, and the last of duplicate keys wins", async () => {
  const evil = `{"__proto__": {"polluted": 1}, "constructor": {"prototype": {"polluted": 1}}, ${JSON.stringify(body("proto")).slice(1)}`;
  assert.equal((await post(evil, "application/json")).status, 201);
  assert.equal(({} as Record<string, unknown>)["polluted"], undefined);
  const twice = await post(`{"name": "first", ${JSON.stringify(body("second")).slice(1)}`, "application/json");
  assert.equal(twice.body.name, "second");
});

test("answers 413 for a body over 2 MiB", async () => {
  const answer = await post(`{"name": "${"x".repeat(2 * 1024 * 1024)}"}`, "application/json");
  assert.deepEqual([answer.status, answer.body], [413, { detail: "The request body is larger than 2097152 bytes." }]);
});

test("over a socket: handles chunked bodies, truncated bodies and clients that disconnect", async () => {
  const server = createServer((request, response) => t.api.routing(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  const exchange = (text: string) =>
    new Promise<string>((resolve, reject) => {
      let received = "";
      const socket = connect(port, "127.0.0.1", () => socket.write(text));
      socket.setEncoding("utf8").on("data", (data) => {
        received += data;
        if (/\r\n\r\n[\s\S]*\}$/.test(received)) socket.end();
      });
      socket.on("close", () => resolve(received)).on("error", reject);
    });
  const head = `POST /v2/deployments HTTP/1.1\r\nhost: x\r\nx-api-key: ${t.tenant.adminKey}\r\n`;
  const json = JSON.stringify(body("chunked"));
  try {
    const chunked = await exchange(
      `${head}transfer-encoding: chunked\r\n\r\n${json.length.toString(16)}\r\n${json}\r\n0\r\n\r\n`,
    );
    assert.match(chunked, /^HTTP\/1\.1 201 /);
    assert.match(await exchange("GET /ok HTTP/1.1\r\nhost: x\r\n\r\n"), /^HTTP\/1\.1 200 [\s\S]*\{"ok":true\}$/);
    const left = connect(port, "127.0.0.1", () => {
      left.write(`${head}content-length: 1000\r\n\r\n{`, () => left.destroy());
    });
    await new Promise((resolve) => left.on("close", resolve));
    assert.match(await exchange("GET /ok HTTP/1.1\r\nhost: x\r\n\r\n"), /^HTTP\/1\.1 200 /);
  } finally {
    server.close();
    server.closeAllConnections();
  }
});
