import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually, exchangeRaw, openRaw, route, startGateway, startTarget } from "./harness.ts";

test("routes by path without the prefix, and by host name with the path unchanged", async () => {
  await using agent = await echoingAgent();
  await using site = await startGateway({ publicUrl: "http://pierhead.localhost:8124" });
  site.gateway.setRoute(route([agent.target("r1")]));

  const cases = [
    { line: "GET /d/demo/ok?x=1 HTTP/1.1", host: "127.0.0.1:1", path: "/ok?x=1", prefix: "/d/demo" },
    { line: "GET /d/demo HTTP/1.1", host: "a.example", path: "/", prefix: "/d/demo" },
    { line: "GET /d/demo?x HTTP/1.1", host: "a.example", path: "/?x", prefix: "/d/demo" },
    { line: "GET /d/demo/d/demo/ HTTP/1.1", host: "a.example", path: "/d/demo/", prefix: "/d/demo" },
    { line: "GET /d/demo/a%2Fb//c/%7E HTTP/1.1", host: "a.example", path: "/a%2Fb//c/%7E", prefix: "/d/demo" },
    { line: "GET /d/other/ok HTTP/1.1", host: "demo.localhost:8124", path: "/d/other/ok", prefix: "" },
    { line: "GET /ok HTTP/1.1", host: "DEMO.localhost.", path: "/ok", prefix: "" },
    { line: "GET http://demo.localhost:8124/ok?y HTTP/1.1", host: "ignored.example", path: "/ok?y", prefix: "" },
    { line: "GET http://u:p@demo.localhost HTTP/1.1", host: "ignored.example", path: "/", prefix: "" },
    { line: "GET http://a.example/d/demo/ok HTTP/1.1", host: "ignored.example", path: "/ok", prefix: "/d/demo" },
    { line: "GET /d/demo/ok HTTP/1.1", host: "pierhead.localhost", path: "/ok", prefix: "/d/demo" },
  ];
  for (const { line, host, path, prefix } of cases) {
    const seen = await seenByAgent(site.port, line, host);
    assert.deepEqual([seen.url, seen.headers["x-forwarded-prefix"] ?? ""], [path, prefix], line);
  }
});

test("routes by an address without a slug to the longest path, then to the oldest deployment", async () => {
  await using agents = new AsyncDisposableStack();
  await using site = await startGateway();
  const set = async (slug: string, path: string, sinceMs: number) => {
    const agent = agents.use(await namedAgent(slug));
    const custom = { host: "support.example.com", path, sinceMs };
    const of = { slug, deploymentId: slug, workspaceId: "support" };
    site.gateway.setRoute({ ...route([agent.target(slug)], of), custom });
  };
  await set("newer", "", 3);
  await set("older", "", 1);
  await set("second", "/v2", 2);
  const answer = async (line: string) => {
    const { url, headers } = await seenByAgent(site.port, line, "Support.example.com:443");
    return `${url} ${headers["x-forwarded-prefix"] ?? ""}`.trim();
  };
  assert.equal(await answer("GET /ok?x HTTP/1.1"), "older /ok?x");
  assert.equal(await answer("GET /v2/ok HTTP/1.1"), "second /ok /v2");
  assert.equal(await answer("GET /v2?x HTTP/1.1"), "second /?x /v2");
  assert.equal(await answer("GET /v20 HTTP/1.1"), "older /v20");
  assert.equal(await answer("GET /d/newer/ok HTTP/1.1"), "older /d/newer/ok", "its own host has every path");
  site.gateway.removeRoute("second");
  assert.equal(await answer("GET /v2/ok HTTP/1.1"), "older /v2/ok");
  site.gateway.setRoute(route([], { slug: "older", deploymentId: "older" }));
  assert.equal(await answer("GET /ok HTTP/1.1"), "newer /ok");
  site.gateway.removeRoute("newer");
  const request = "GET /ok HTTP/1.1\r\nHost: support.example.com\r\nConnection: close\r\n\r\n";
  assert.match(await exchangeRaw(site.port, request), /^HTTP\/1\.1 418 /);
});

test("a deployment takes neither a host of another workspace nor the addresses that contain a slug", async () => {
  await using agents = new AsyncDisposableStack();
  await using site = await startGateway({ publicUrl: "https://agents.example.com" });
  const set = async (slug: string, [host, path]: [string, string], sinceMs: number) => {
    const agent = agents.use(await namedAgent(slug));
    const of = { slug, deploymentId: slug, workspaceId: slug };
    site.gateway.setRoute({ ...route([agent.target(slug)], of), custom: { host, path, sinceMs } });
  };
  const answer = async (target: string, host: string) =>
    (await seenByAgent(site.port, `GET ${target} HTTP/1.1`, host)).url;
  await set("first", ["support.example.com", ""], 1);
  await set("other", ["support.example.com", "/threads"], 2);
  assert.equal(await answer("/threads/1", "support.example.com"), "first /threads/1");
  await set("greedy", ["agents.example.com", ""], 3);
  assert.equal(await answer("/d/first/ok", "agents.example.com"), "first /ok");
  site.gateway.removeRoute("first");
  assert.equal(await answer("/threads/1", "support.example.com"), "other /1", "the host is free again");
});

test("leaves requests that address no deployment to Pierhead", async () => {
  await using site = await startGateway({ publicUrl: "http://pierhead.localhost:8124" });
  site.gateway.setRoute(route([], { slug: "pierhead" }));
  const cases = [
    ["GET / HTTP/1.1", "127.0.0.1"],
    ["GET /v2/deployments HTTP/1.1", "localhost:8124"],
    ["GET /v2/deployments HTTP/1.1", "pierhead.localhost:8124"],
    ["GET /d HTTP/1.1", "127.0.0.1"],
    ["GET //d/demo/ HTTP/1.1", "127.0.0.1"],
    ["GET /ok HTTP/1.1", "a.b.localhost"],
    ["GET /ok HTTP/1.1", "demo.localhost.example"],
    ["GET /ok HTTP/1.1", ".localhost"],
    ["OPTIONS * HTTP/1.1", "127.0.0.1"],
  ] as const;
  for (const [line, host] of cases) {
    const answer = await exchangeRaw(site.port, `${line}\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    assert.match(answer, /^HTTP\/1\.1 418 /, `${line} ${host}`);
  }
});

test("answers 404 with a request id and no revision at an unknown address", async () => {
  await using site = await startGateway();
  for (const [line, host] of [
    ["GET /d/nobody/ok HTTP/1.1", "127.0.0.1"],
    ["GET /d/ HTTP/1.1", "127.0.0.1"],
    ["GET /d/%64emo/ok HTTP/1.1", "127.0.0.1"],
    ["GET /ok HTTP/1.1", "nobody.localhost"],
  ]) {
    const answer = await exchangeRaw(site.port, `${line}\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    assert.match(answer, /^HTTP\/1\.1 404 Not Found\r\n/, line);
    assert.match(answer, /\r\nx-request-id: [0-9a-f-]{36}\r\n/);
    assert.doesNotMatch(answer, /x-pierhead-revision/);
    assert.match(answer, /\{"detail":"No deployment answers at this address."\}$/);
  }
  assert.equal(site.gateway.health().unknown, 4);
});

test("refuses requests that two servers could read differently before they reach an agent server", async () => {
  let reached = 0;
  await using agent = await startTarget((_, response) => {
    reached += 1;
    response.end();
  });
  await using site = await startGateway();
  site.gateway.setRoute(route([agent.target("r1")]));
  const start = "POST /d/demo/x HTTP/1.1\r\nHost: a\r\n";
  const hidden = "GET /d/demo/hidden HTTP/1.1\r\nHost: a\r\n\r\n";
  const shapes: [RegExp, string][] = [
    [/^HTTP\/1\.1 400/, `${start}Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n${hidden}`],
    [/^HTTP\/1\.1 400/, `${start}Content-Length: 4\r\nContent-Length: 5\r\n\r\nabcde`],
    [/^HTTP\/1\.1 400/, `${start}Content-Length: 4, 4\r\n\r\nabcd`],
    [/^HTTP\/1\.1 400/, `${start}Content-Length: +4\r\n\r\nabcd`],
    [/^HTTP\/1\.1 400/, `${start}Content-Length : 4\r\n\r\nabcd`],
    [/^HTTP\/1\.1 400/, `${start}Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n${hidden}`],
    [/^HTTP\/1\.1 (400|501)/, `${start}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n`],
    [/^HTTP\/1\.1 (400|501)/, `${start}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
    [/^HTTP\/1\.1 (400|501)/, `${start}Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n${hidden}`],
    [/^HTTP\/1\.1 400/, `${start}Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n`],
    [/^HTTP\/1\.1 400/, `${start}X-A: b\r\n c\r\n\r\n`],
    [/^HTTP\/1\.1 400/, `${start}X\0A: b\r\n\r\n`],
    [/^HTTP\/1\.1 400/, "GET /d/demo/x HTTP/1.1\nHost: a\n\n"],
    [/^HTTP\/1\.1 400/, "GET /d/demo/x HTTP/1.1\r\n\r\n"],
    [/^HTTP\/1\.1 400/, "GET /d/demo/x HTTP/2.0\r\nHost: a\r\n\r\n"],
    [/^HTTP\/1\.1 431/, `GET /d/demo/x HTTP/1.1\r\nHost: a\r\nX-Big: ${"x".repeat(17_000)}\r\n\r\n`],
  ];
  for (const [expected, text] of shapes) {
    using raw = await openRaw(site.port, text);
    await eventually(raw.isEnded, (isEnded) => isEnded);
    assert.match(raw.received(), expected, text.slice(0, 200));
    assert.doesNotMatch(raw.received(), /HTTP\/1\.1 200/, text.slice(0, 200));
  }
  assert.equal(reached <= 1, true, "only the request that is broken within its body may have begun");
});

async function seenByAgent(port: number, line: string, host: string) {
  const answer = await exchangeRaw(port, `${line}\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
  assert.match(answer, /^HTTP\/1\.1 200 /, `${line}: ${answer}`);
  return JSON.parse(answer.split("\r\n\r\n")[1] ?? "") as { url: string; headers: Record<string, string> };
}

const namedAgent = (name: string) =>
  startTarget(({ url, headers }, response) => {
    const body = JSON.stringify({ url: `${name} ${url}`, headers });
    response.writeHead(200, { "content-length": Buffer.byteLength(body) }).end(body);
  });

/** Answers with the request it received. */
const echoingAgent = () =>
  startTarget(({ url, headers }, response) => {
    const body = JSON.stringify({ url, headers });
    response.writeHead(200, { "content-length": Buffer.byteLength(body) }).end(body);
  });
