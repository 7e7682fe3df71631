import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { after, test } from "node:test";
import { route, startGateway, startTarget } from "./harness.ts";

let seen: IncomingHttpHeaders = {};
const agent = await startTarget((request, response) => {
  seen = request.headers;
  if (request.url === "/page") response.writeHead(200, { "content-type": "text/html" }).end("<script>1</script>");
  else if (request.url === "/missing") response.writeHead(404, { "content-type": "text/plain" }).end("404 Not Found");
  else if (request.url === "/gone") response.writeHead(204).end();
  else if (request.url === "/stream")
    response.writeHead(200, { "content-type": "text/event-stream" }).end("data: 1\n\n");
  else {
    const odd = {
      "set-cookie": "pierhead_session=forged",
      "clear-site-data": '"cookies"',
      "service-worker-allowed": "/",
    };
    const cors = {
      "access-control-allow-origin": "*",
      location: "https://elsewhere.example",
      link: "</x>; rel=preload",
    };
    response.writeHead(200, { "content-type": "application/json", ...odd, ...cors, "x-pagination-total": "7" });
    response.end(JSON.stringify({ url: request.url }));
  }
});
const site = await startGateway({ identify: () => assert.fail("the control plane has checked the caller") });
site.gateway.setRoute(route([agent.target("r1")], { admission: { workspaceId: "w1" } }));
const server = createServer((request, response) => {
  const [, slug = "", path = ""] = /^\/(\w+)(\/.*)$/.exec(request.url ?? "") ?? [];
  const isBackground = path === "/poll";
  const call = { slug, deploymentId: slug === "other" ? "dep-2" : "dep-1", path, assertion: "signed", isBackground };
  if (path !== "/late") return site.gateway.handleFromConsole(request, response, call);
  response.once("close", () => {
    site.gateway.handleFromConsole(request, response, call);
    late.resolve();
  });
});
const late = Promise.withResolvers<void>();
server.listen(0, "127.0.0.1");
await once(server, "listening");
after(async () => {
  server.close();
  server.closeAllConnections();
  await site[Symbol.asyncDispose]();
  await agent.stop();
});
const at = (path: string, init?: RequestInit) =>
  fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`, { redirect: "manual", ...init });

test("an agent sees who calls from the console, and neither the session nor the page", async () => {
  const headers = { cookie: "pierhead_session=phs_secret; own=1", "x-pierhead-console": "1", "x-tenant-id": "w1" };
  const more = { authorization: "Bearer ph_key", "x-api-key": "ph_key", referer: "http://127.0.0.1/o/w1/host" };
  const answer = await at("/demo/threads?limit=2", { method: "POST", headers: { ...headers, ...more }, body: "{}" });
  assert.deepEqual(await answer.json(), { url: "/threads?limit=2" });
  for (const name of ["cookie", "x-pierhead-console", "x-tenant-id", "authorization", "referer"])
    assert.equal(seen[name], undefined, name);
  assert.deepEqual([seen["x-api-key"], seen["x-pierhead-caller"]], ["signed", "signed"]);
});

test("forwards the headers that the user entered, except those that could speak for Pierhead or its connection", async () => {
  const own = { authorization: "Bearer of-the-agent", "x-api-key": "key-of-the-agent", "x-team": "blue" };
  const key = "ph_0123456789ab_of-this-server";
  const refused = {
    "x-pierhead-caller": "forged",
    cookie: "a=1",
    host: "elsewhere",
    "x-forwarded-for": "1.2.3.4",
    "x-key": key,
  };
  const prefixed = Object.entries({ ...own, ...refused, "content-type": "text/x", "transfer-encoding": "chunked" });
  const headers = Object.fromEntries(prefixed.map(([name, value]) => [`x-pierhead-agent-${name}`, value]));
  await at("/demo/threads", { headers });
  assert.partialDeepStrictEqual(seen, { ...own, "x-pierhead-caller": "signed" });
  for (const name of ["cookie", "content-type", "transfer-encoding"]) assert.equal(seen[name], undefined, name);
  assert.doesNotMatch(JSON.stringify(seen), /forged|elsewhere|1\.2\.3\.4|of-this-server|x-pierhead-agent/);
});

test("a call whose browser left while its user was checked keeps no replica busy", async () => {
  const abort = new AbortController();
  const asked = assert.rejects(at("/demo/late", { signal: abort.signal }));
  await once(server, "request");
  abort.abort();
  await Promise.all([asked, late.promise]);
  assert.equal(site.gateway.health().inFlight, 0);
});

test("an answer reaches the console as data: no cookie, no redirect, no permission, no script", async () => {
  const { headers } = await at("/demo/x");
  const fromAgent = [...headers.keys()].filter(
    (name) => !/^(connection|keep-alive|date|transfer-encoding)$/.test(name),
  );
  assert.deepEqual(fromAgent.sort(), [
    ...["cache-control", "content-security-policy", "content-type", "cross-origin-resource-policy"],
    ...["x-content-type-options", "x-pagination-total", "x-pierhead-revision", "x-request-id"],
  ]);
  assert.match(headers.get("content-security-policy") ?? "", /default-src 'none'.*sandbox$/);
  assert.equal((await at("/demo/stream")).headers.get("content-type"), "text/event-stream");
  assert.equal((await at("/demo/gone")).status, 204);
});

test("refuses other types with the agent's error status, or with 406", async () => {
  const page = await at("/demo/page");
  assert.deepEqual([page.status, page.headers.get("content-type")], [406, "application/json"]);
  assert.match(((await page.json()) as { detail: string }).detail, /answered 200 with text\/html/);
  assert.equal((await at("/demo/missing")).status, 404);
});

test("does not call paths of the agent server itself, nor a deployment that another gateway serves", async () => {
  assert.equal((await at("/demo/internal/truncate")).status, 404);
  assert.equal((await at("/other/threads")).status, 409);
  site.gateway.setRoute(route([], { slug: "taken", deploymentId: "dep-3" }));
  assert.equal((await at("/taken/threads")).status, 409, "the slug belongs to another deployment by now");
});

test("a background call neither wakes a sleeping deployment, keeps one awake, nor counts as its traffic", async () => {
  const woken: string[] = [];
  site.gateway.onWake((id) => woken.push(id));
  const slug = "drowsy";
  const own = { slug, deploymentId: "dep-1" };
  site.gateway.setRoute(route([agent.target("r2")], own));
  assert.equal((await at("/drowsy/poll")).status, 200);
  assert.equal(site.gateway.lastRequestAt(slug), null);
  const counted = () => site.gateway.counts().find((one) => one.slug === slug);
  const { requests, answers, latency, bytesOut } = counted() ?? assert.fail("the deployment has no counters");
  assert.deepEqual([requests, answers["2xx"], latency.count, bytesOut], [0, 0, 0, 0], "polls are no traffic");
  await at("/drowsy/x");
  assert.equal(counted()?.requests, 1);
  assert.notEqual(site.gateway.lastRequestAt(slug), null);
  site.gateway.setRoute(route([], { ...own, state: "asleep" }));
  const refused = await at("/drowsy/poll");
  assert.equal(refused.status, 409);
  assert.match(((await refused.json()) as { detail: string }).detail, /sleeps/);
  site.gateway.setRoute(route([], { ...own, state: "held" }));
  assert.equal((await at("/drowsy/poll")).status, 503, "a poll does not wait for a deployment that is not ready");
  assert.equal(site.gateway.health().waiting, 0);
  assert.deepEqual(woken, []);
});
